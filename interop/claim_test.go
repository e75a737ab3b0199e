//go:build interop

package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// The reference agents of both eras of Harnyx's repository play unmodified in
// agon's boxes. AGON_STRANGERS holds checkouts: caster at commit b065fa9 (claims),
// harnyx at b317328 or later (queries). The model is a server here that says what
// a model could; the agents are theirs, byte for byte.
func TestHarnyxReferenceAgents(t *testing.T) {
	root := os.Getenv("AGON_STRANGERS")
	if root == "" {
		t.Skip("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (caster, harnyx)")
	}
	agon := agonBinary(t)
	for _, c := range []struct {
		repo, task, answer, judge, model string
		score                            float64
	}{
		{"caster", "../kinds/claim/data/tasks/demo/dredged-depth", `{"verdict": 1, "justification": "The outer basin was dredged to 14 metres in spring."}`, `{"rationale": "same facts", "support_ok": true}`, "strict grader of justifications", 1},
		// A judge that prefers a position gives one of the two orders.
		{"harnyx", "../kinds/claim/data/query/tasks/demo/bridge-freight", "By way of Sund, 63 kilometres more [1].", `{"rationale": "it comes first", "preferred_position": "first"}`, "strict judge of two answers", 0.5},
	} {
		t.Run(c.repo, func(t *testing.T) {
			agent := filepath.Join(root, c.repo, "miner", "tests", "docker_sandbox_entrypoint.py")
			if _, err := os.Stat(agent); err != nil {
				interoptest.Absent(t, "AGON_STRANGERS/"+c.repo+" (github.com/harnyx/harnyx)")
				return
			}
			var mu sync.Mutex
			asked := map[string]int{}
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(io.LimitReader(r.Body, 4<<20))
				say, who := c.answer, "agent"
				if strings.Contains(string(body), c.model) {
					say, who = c.judge, "judge"
				}
				mu.Lock()
				asked[who]++
				mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{
					"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
					"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": say}}},
				})
			}))
			defer up.Close()
			cmd := exec.CommandContext(t.Context(), agon, "try", agent, "--task", c.task, "--data", t.TempDir(), "-o", "json")
			cmd.Env = append(os.Environ(), "AGON_LLM_BASE_URL="+up.URL+"/v1", "AGON_LLM_API_KEY=key-of-this-test-alone", "AGON_LLM_MODEL=m")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, _ := cmd.Output() // it ends with 3 where a task is not solved
			var got struct {
				Score float64 `json:"score"`
				Runs  []struct {
					Detail string `json:"detail"`
				} `json:"runs"`
			}
			if err := json.Unmarshal(out, &got); err != nil || len(got.Runs) != 1 {
				t.Fatalf("%v: %s\n%s", err, out, stderr.String())
			}
			mu.Lock()
			defer mu.Unlock()
			if got.Score != c.score || asked["agent"] != 1 || asked["judge"] == 0 {
				t.Errorf("score %v, want %v: %s; asked %v", got.Score, c.score, got.Runs[0].Detail, asked)
			}
		})
	}
}
