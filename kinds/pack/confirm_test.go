package pack_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	pack "github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// A model samples: here its first plays were dear by chance, so each change seems to
// save a half. Fresh plays of both packs say that it saves nothing, what the judge costs
// is in what was spent, and the budget holds for both.
func TestOptimiseIsNotFooledByLuck(t *testing.T) {
	var plays, judged atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text, out := `{"integrity_passed": true, "flags": []}`, 100
		if strings.Contains(string(b), "Epoch Evaluation Context") {
			if text, out = "Nothing to tell.", 500; plays.Add(1) <= 2 {
				out = 1000
			}
		} else {
			judged.Add(1)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "c", "object": "chat.completion", "created": 0, "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": text}, "finish_reason": "stop"}},
			"usage":   map[string]int{"prompt_tokens": len(b) / 4, "completion_tokens": out, "total_tokens": len(b)/4 + out},
		})
	}))
	defer model.Close()
	dir := t.TempDir()
	write(t, dir, map[string][]byte{
		"scenarios/quiet.yaml": []byte("name: quiet\nprompt: Anything new?\ntools: [exec]\n"), "fixtures/quiet/inbox.json": []byte("[]"),
		"scenarios/calm.yaml": []byte("name: calm\nprompt: Anything else?\ntools: [exec]\n"), "fixtures/calm/inbox.json": []byte("[]"),
	})
	path := filepath.Join(dir, "pack.json")
	p := packfile.Build(packfile.BuildOptions{Policy: "# Desk\n\n1. Be brief.\n2. Be kind.\n", Allow: []string{"exec"}})
	if err := os.WriteFile(path, p.Canonical, 0o600); err != nil {
		t.Fatal(err)
	}
	keyed := map[string]string{
		"AGON_LLM_BASE_URL": model.URL + "/v1", "AGON_LLM_API_KEY": "sk-test", "AGON_LLM_MODEL": "m", "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000",
	}
	o := kittest.Options(dir, kinds.All())
	env := o.Getenv
	o.Getenv = func(name string) string {
		if v, ok := keyed[name]; ok {
			return v
		}
		return env(name)
	}
	got, err := pack.RunOptimise(t.Context(), o, commands.OptimiseOptions{
		EpisodeOptions: commands.EpisodeOptions{Scenarios: dir, Pack: path}, Budget: 2, Rounds: 1, PerDay: 100, Moves: []string{"drop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Steps) == 0 || got.Steps[0].Outcome != commands.Kept || got.Steps[0].SavedUSD < 0.3*0.001 {
		t.Fatalf("no change seemed to save: %+v", got.Steps)
	}
	if got.Confirmed == nil || got.Confirmed.CI == nil || got.Confirmed.CI[1] > 0.05 || got.Saving > 0.05 || got.Scripted {
		t.Errorf("saving %v, confirmed %+v", got.Saving, got.Confirmed)
	}
	if judged.Load() == 0 || got.SpentUSD < float64(plays.Load())*0.0005+float64(judged.Load())*0.0001 || got.SpentUSD > 2 {
		t.Errorf("$%g spent on %d plays and %d verdicts", got.SpentUSD, plays.Load(), judged.Load())
	}
}
