package claim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// judges is an OpenAI-compatible server that supports every verdict and prefers the
// answer that says ours.
func judges(t *testing.T, ours string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
			http.Error(w, "bad", 400)
			return
		}
		reply := map[string]any{"rationale": "the same facts", "support_ok": true}
		if first, _, both := strings.Cut(q.Messages[len(q.Messages)-1].Content, `"position":"second"`); both {
			reply = map[string]any{"rationale": "better", "preferred_position": "second"}
			if strings.Contains(first, ours) {
				reply["preferred_position"] = "first"
			}
		}
		text, _ := json.Marshal(reply)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": q.Model, "choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": string(text)}, "finish_reason": "stop"}},
			"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
		})
	}))
	t.Cleanup(s.Close)
	return s
}

// Arenas of claims and of queries whose entries are judged by a model seat nobody until
// that model was measured with their own prompt, also with agon's samples in them; then
// what was judged by it, as its receipts show, takes the seat.
func TestJudgesAreMeasured(t *testing.T) {
	const ours = "What we say of everything"
	model := judges(t, ours)
	data, err := os.MkdirTemp("", "agon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
		t.Fatal(err)
	}
	x := &arena{t: t}
	opened := map[string]kit.ArenaFile{}
	entered := make(chan struct{}, 2)
	list := kit.List{claim.Kit(), claim.QueryKit()}
	for i := range list {
		list[i].Enter = func(_ context.Context, s *kit.Server, f kit.ArenaFile) error {
			x.s, opened[f.Kind] = s, f
			entered <- struct{}{}
			return nil
		}
	}
	o := kittest.Options(data, list)
	env := map[string]string{"AGON_LLM_BASE_URL": model.URL, "AGON_LLM_API_KEY": "zq9-test-secret", "AGON_LLM_MODEL": "careful", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000"}
	o.Getenv = func(k string) string {
		if v, ok := env[k]; ok {
			return v
		}
		return os.Getenv(k)
	}
	files := t.TempDir()
	for _, name := range []string{play.Name, play.QueryName} {
		path := filepath.Join(files, name+".toml")
		text := fmt.Sprintf("id = \"real-%s\"\nkind = %q\ntitle = \"Real\"\nnetuid = 2\nsets = [\"demo\"]\nsamples = true\nincentive = \"winner_takes_all\"\n", name, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Arenas = append(o.Arenas, path)
	}
	ctx, ended := upBeside(t, o)
	for range 2 {
		select {
		case <-entered:
		case err := <-ended:
			ended <- err
			t.Fatalf("agon up ended: %v", err)
		}
	}
	x.ctx = ctx
	entry := func(kind, script string) string {
		x.f = opened[kind]
		return x.enter(kind, script)
	}
	ids := map[string]string{
		play.Name:      entry(play.Name, "from agon_sdk import entrypoint\n\n\n@entrypoint(\"evaluate_criterion\")\nasync def evaluate_criterion(request: dict) -> dict:\n    return {\"verdict\": 1, \"justification\": \""+ours+"\", \"citations\": []}\n"),
		play.QueryName: entry(play.QueryName, "from harnyx_miner_sdk.decorators import entrypoint\nfrom harnyx_miner_sdk.query import Query, Response\n\n\n@entrypoint(\"query\")\nasync def query(query: Query) -> Response:\n    return Response(text=\""+ours+"\")\n"),
	}
	look := func(id string) *client.Submission {
		s, err := x.s.Platform.Submission(ctx, platform.Caller{Operator: true}, id)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for kind, id := range ids {
		x.until(kind+" to be scored", func() bool { return look(id).Score != nil })
		if s := look(id); s.Decision != nil || *s.Score == 0 {
			t.Errorf("%s: score %v, decided by a judge that was never measured: %+v", kind, *s.Score, s.Decision)
		}
	}
	x.shows("/v1/arenas/real-query", "agon judge calibrate --prompt pairwise")

	book := kit.Gauges(data)
	for _, scorer := range []string{judge.SupportScorer([]string{"careful"}, 0), judge.PairwiseScorer([]string{"careful"})} {
		prompt, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(scorer, "support+"), "pairwise+"), "+")
		c := judge.Calibration{Prompt: prompt, Model: "careful", Scorer: scorer, Cases: 400, Judged: 400, Kappa: 0.9, CI: [2]float64{0.85, 0.95}}
		if err := book.Add(judge.Record{At: time.Now(), Set: judge.SetShipped, Calibration: c}); err != nil {
			t.Fatal(err)
		}
	}
	for kind, id := range ids {
		if d := x.decided(id).Decision; d.Outcome != agon.TookSeat {
			t.Errorf("%s: %+v", kind, d)
		}
	}

	// What was judged by the model is scored anew by words, over HTTP, without a box.
	for kind, scorer := range map[string]string{play.Name: "claim-1+lexical-1", play.QueryName: "query-1+lexical-pairs-1"} {
		streams, out, errOut := iostreams.Test("")
		conf, err := config.System()
		if err != nil {
			t.Fatal(err)
		}
		a := &cli.App{IO: streams, Now: time.Now, Services: app.Services(kinds.All()), Extras: kinds.All().Commands(), Env: conf}
		kept := t.TempDir()
		code := a.Main(ctx, []string{"judge", "rescore", "real-" + kind, "--scorer", "words", "--url", x.s.URL(), "--data", kept, "-o", "json"})
		var r cli.Rescore
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Fatalf("%v: %s", err, errOut)
		}
		if code != cli.CodePartly || r.Scorer != scorer || r.Runs == 0 || r.Pairs == 0 || r.Same == r.Pairs || r.Rescored >= r.Stored || r.Stored != *look(ids[kind]).Score {
			t.Errorf("exit code %d, %+v", code, r)
		}
		b, err := os.ReadFile(r.Kept)
		if err != nil || strings.Count(string(b), "\n") != r.Pairs || filepath.Dir(r.Kept) != kept {
			t.Errorf("%s: %d pairs %v", r.Kept, r.Pairs, err)
		}
	}
}
