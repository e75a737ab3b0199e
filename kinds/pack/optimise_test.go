package pack_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	pack "github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// standup is a folder with one scenario of the shipped ones.
func standup(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := fs.Sub(data.FS, "tasks/office")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path != "scenarios/standup.yaml" && !strings.HasPrefix(path, "fixtures/standup/") {
			return err
		}
		b, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A script that reads the policy: without the rule about sources the stand-up is
// wrong, with the rule about thoroughness it looks at more than it needs. The
// optimiser keeps the first, drops the second, and offers only what is called.
func TestOptimise(t *testing.T) {
	dir := t.TempDir()
	files, err := fs.ReadFile(data.FS, "samples/optimised/script.json")
	if err != nil {
		t.Fatal(err)
	}
	var shipped struct {
		Rules []map[string]any `json:"rule"`
	}
	if err := json.Unmarshal(files, &shipped); err != nil {
		t.Fatal(err)
	}
	var calls, answer any
	for _, r := range shipped.Rules { // of the policy that plays this scenario well
		if s := r["task_re"].(string); strings.Contains(s, "stand") && strings.Contains(s, "Office") {
			if r["tool_calls"] != nil {
				calls = r["tool_calls"]
			} else {
				answer = r["content"]
			}
		}
	}
	script, err := json.Marshal(map[string]any{"version": 1, "for": "Epoch Evaluation Context", "fallback": "Everybody is fine.", "rule": []any{
		map[string]any{"task": "newest source", "turn": 0, "tool_calls": calls},
		map[string]any{"task_re": "(?s)newest source.*Be thorough", "turn": 1, "tool_calls": []any{map[string]any{"name": "memory_get", "arguments": map[string]any{"path": "MEMORY.md"}}}},
		map[string]any{"task": "newest source", "content": answer},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := packfile.Build(packfile.BuildOptions{Policy: "# Desk\n\n1. Trust the newest source.\n2. Be thorough.\n3. Never send a mail.\n", Allow: []string{"exec", "slack", "memory_get", "web_search"}})
	path := filepath.Join(dir, "pack.json")
	if err := os.WriteFile(path, p.Canonical, 0o600); err != nil {
		t.Fatal(err)
	}
	kits := kinds.All()
	for i := range kits {
		if k := &kits[i]; k.EntryName == kindpack.File {
			k.Script = func() []byte { return script }
		}
	}
	try := func(budget float64, out string) (*commands.Optimised, error) {
		return pack.RunOptimise(t.Context(), kittest.Options(dir, kits), commands.OptimiseOptions{
			EpisodeOptions: commands.EpisodeOptions{Scenarios: standup(t), Pack: path}, Budget: budget, Rounds: 1, PerDay: 100, Moves: []string{"tool", "drop"}, Out: out,
		})
	}
	play := func(budget float64, out string) *commands.Optimised {
		t.Helper()
		got, err := try(budget, out)
		if err != nil {
			t.Fatal(err)
		}
		if got.SpentUSD > budget {
			t.Errorf("$%g were spent of $%g", got.SpentUSD, budget)
		}
		return got
	}
	out := filepath.Join(dir, "better.json")
	got := play(5, out)
	by := map[string]commands.Step{}
	for _, s := range got.Steps {
		by[s.What] = s
	}
	if s := by[`drop "Trust the newest source."`]; s.Outcome != commands.Broke || len(s.Broke) != 1 || !strings.HasPrefix(s.Broke[0], "standup: no longer qualifies") {
		t.Errorf("the rule that is needed: %+v", s)
	}
	if s := by[`drop "Be thorough."`]; s.Outcome != commands.Kept || !(s.SavedUSD > 0) {
		t.Errorf("the rule that costs: %+v", s)
	}
	if got.Qualified != 1 || !(got.After < got.Before) || !(got.Saving > 0) || got.Out != out || got.To == got.From || !got.Scripted || got.Stopped != "" || !(got.SpentUSD > got.Before+got.After) {
		t.Errorf("%+v", got)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	better, err := packfile.Read(b)
	if err != nil || better.Hash != got.To {
		t.Fatalf("written %v, %v; want %s", better, err, got.To)
	}
	if text, _ := better.Policy(); text != "# Desk\n\n1. Trust the newest source.\n3. Never send a mail.\n" {
		t.Errorf("policy %q", text)
	}
	if got.Confirmed != nil || len(got.Guards) != 1 || got.Guards[0] != "Never send a mail." {
		t.Errorf("confirmed %+v, guards %q", got.Confirmed, got.Guards)
	}
	// The budget holds for every play, and the result says where it ended.
	// A call wants its longest answer paid before it is made, though it costs a tenth of that.
	if poor := play(0.018, ""); poor.Left == 0 || poor.Stopped != "the budget is spent" {
		t.Errorf("with a small budget: %+v", poor)
	}
	var own *agon.Error
	if none, err := try(0.004, ""); !errors.As(err, &own) || own.Code != "budget_spent" {
		t.Errorf("with a budget for no play: %+v, %v", none, err)
	}
}
