//go:build interop

package play

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/kinds/coding/door"
)

// Agents of Ridges' repository, of each era and as they stand there, play a task: they call the model and the
// embeddings in their own form, at the addresses that their environment names, and what they return is judged. The newest
// is DIR/ridges/agent.py. Those of the older eras stand in DIR/ridges-eras, if it is there: a0.py (miner/agent.py of commit
// fe01a489), b.py (agent.py of 84b6a6a9), and what else its miners have published (api/top of fc6bf5f5).
func TestRidgesAgents(t *testing.T) {
	newest := interoptest.Checkout(t, "ridges", "agent.py", "github.com/ridgesai/ridges")
	older, err := filepath.Glob(filepath.Join(newest, "..", "ridges-eras", "*.py"))
	if err != nil {
		t.Fatal(err)
	}
	if len(older) == 0 {
		t.Log("NOT RUN: agents of the older eras, which DIR/ridges-eras would hold")
	}
	said, err := json.Marshal("Here it is.\n" + calcFix)
	if err != nil {
		t.Fatal(err)
	}
	g := gatewaytest.Start(t, gateway.Config{Dialects: door.Dialects()}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			var in struct{ Input any }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			n := 1
			if l, ok := in.Input.([]any); ok {
				n = len(l)
			}
			gatewaytest.Says(fmt.Sprintf(`{"object":"list","data":[%s],"usage":{"prompt_tokens":4,"total_tokens":4}}`, strings.Join(slices.Repeat([]string{`{"embedding":[0.25,0.5]}`}, n), ",")))(w, r)
			return
		}
		gatewaytest.Says(strings.Replace(gatewaytest.Answer, `"hi <b>"`, string(said), 1))(w, r)
	}, "deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K2-Instruct", gatewaytest.Model)
	k, d := newKind(t)
	for _, at := range append(older, filepath.Join(newest, "agent.py")) {
		t.Run(filepath.Base(at), func(t *testing.T) {
			src, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if found := CheckSource(src); len(found) > 0 {
				t.Errorf("it is not admitted: %+v", found)
			}
			tk := calcTask(t)
			e := &gatewayEnv{testEnv: newEnv(t, d, tk, string(src)), g: g}
			r := runSpec()
			r.Policy.Agent.WallMS = 120_000
			rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
			if err != nil {
				t.Fatal(err)
			}
			if len(e.s.Receipts()) == 0 {
				t.Errorf("it reached no model: %s", rec.Files[FileStdout])
			}
			// The examples of the later eras read their answer from a file that only their own harness puts into the box.
			if reads := "/sandbox/solution.diff"; strings.Contains(string(src), reads) {
				if rec.Outcome != agon.OutcomeRaised || !strings.Contains(rec.Detail, reads) || !strings.Contains(string(rec.Files[FileStdout]), "Here it is.") {
					t.Errorf("%s %s\n%s", rec.Outcome, rec.Detail, rec.Files[FileStdout])
				}
				return
			}
			s, err := k.Judge(t.Context(), e, r, rec)
			if err != nil || !s[0].Solved {
				t.Errorf("%s %s: %+v %v\n%.3000s\n%.3000s", rec.Outcome, rec.Detail, s, err, rec.Files[FileStdout], rec.Files[FileStderr])
			}
		})
	}
}
