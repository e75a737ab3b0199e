package commands

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/claim/likeness"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// A validator votes on likeness only by a judge that was measured by that prompt and
// passed: not by one without a record, not below the gate, not by another's record. A
// calibration counts without a restart, and before it the model is never asked.
func TestComparerIsMeasured(t *testing.T) {
	var asked atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		text, _ := json.Marshal(map[string]string{
			"rationale": "the same program", "primary_controller": "preserved", "evidence_state_and_flow": "preserved", "answer_production_path": "preserved",
		})
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": "careful", "choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": string(text)}, "finish_reason": "stop"}},
			"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
		})
	}))
	defer model.Close()
	o := kittest.Options(t.TempDir(), nil)
	env := map[string]string{"AGON_LLM_BASE_URL": model.URL, "AGON_LLM_API_KEY": "zq9-test-secret", "AGON_LLM_MODEL": "careful", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000"}
	o.Getenv = func(k string) string { return env[k] }
	gw, err := kit.NewGateway(t.Context(), o, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer gw.Stop()
	vote := (&seedPlayer{player: &kit.Player{Own: gw}}).comparer(o)
	in := wire.Similarity{BatchID: "b", Artifact: "a", Diff: "+ y", Script: "x"}
	refused := func(why string) {
		t.Helper()
		if v, err := vote(t.Context(), in); !errors.Is(err, wire.ErrNoJudge) || !strings.Contains(err.Error(), why) || asked.Load() != 0 {
			t.Errorf("%+v %v, want %q; asked %d times", v, err, why, asked.Load())
		}
	}
	record := func(scorer string, rate float64) {
		t.Helper()
		c := judge.Calibration{
			Prompt: likeness.Prompt().ID(), Model: "careful", Scorer: scorer, Cases: 336, Judged: 336, Kappa: 0.9, CI: [2]float64{0.85, 0.95},
			FalseAccept: map[string]float64{"other names": rate}, Negatives: map[string]int{"other names": 16},
		}
		if err := kit.Gauges(o.Data).Add(judge.Record{At: time.Now(), Set: judge.SetShipped, Calibration: c}); err != nil {
			t.Fatal(err)
		}
	}
	refused("never measured: agon judge calibrate --prompt likeness")
	record(judge.SupportScorer([]string{"careful"}, 0), 0)
	record(likeness.Scorer([]string{"careful", "another"}), 0)
	refused("never measured")
	record(likeness.Scorer([]string{"careful"}), 0.5)
	refused(`did not pass: below the gate: 50 % of the cases of class "other names"`)
	record(likeness.Scorer([]string{"careful"}), 0)
	if v, err := vote(t.Context(), in); err != nil || v.Class != "duplicate" || v.Model != "careful" || asked.Load() != 1 {
		t.Errorf("%+v %v, asked %d times", v, err, asked.Load())
	}
	delete(env, "AGON_LLM_BASE_URL")
	delete(env, "AGON_LLM_API_KEY")
	if (&seedPlayer{}).comparer(o) != nil {
		t.Error("without a model somebody votes")
	}
}
