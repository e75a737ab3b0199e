package pack_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
)

// The whole demo in real boxes: two packs are played on six scenarios, a near
// copy is excluded with its similarity, one that games is refused, and the cheaper
// pack takes the seat of the rehearsal.
func TestDemoPack(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	path := filepath.Join(dir, "arena.toml")
	text := "id = \"test-pack\"\nkind = \"pack\"\ntitle = \"test\"\nnetuid = 11\nsets = [\"office\"]\nsamples = true\nincentive = \"cost_takeover\"\nrehearsal = true\n[policy]\naliases = [{name = \"scripted\", model = \"scripted\", in = 1000000, out = 3200000}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Once, o.Arenas = true, []string{path}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	got, err := roles.Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Runs.Failed != 0 || got.Runs.Scored != 12 {
		t.Errorf("runs %+v, want 12 scored", got.Runs)
	}
	a := got.Arenas[0]
	by := map[string]client.BoardRow{}
	for _, s := range a.Submissions {
		by[s.Name] = s
	}
	for _, name := range []string{"baseline", "optimised"} {
		if s := by[name]; s.State != agon.SubmissionScored || s.Qualified == nil || !*s.Qualified || *s.Solved != 6 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := by["near-copy"]; s.State != agon.SubmissionExcluded || *s.Qualified || !strings.Contains(s.ExcludedReason, "similarity 0.9") || !strings.Contains(s.ExcludedReason, by["optimised"].ID) {
		t.Errorf("near copy: %+v", s)
	}
	if s := by["gaming"]; s.State != agon.SubmissionRefused || *s.Qualified || !strings.HasPrefix(s.ExcludedReason, "refused before play: it breaks 5 rules: fixture shortcut, ") {
		t.Errorf("gaming: %+v", s)
	}
	g := a.Agreement
	if g == nil || !g.Agreed || !g.Scripted || g.Winner == nil || *g.Winner != by["optimised"].Miner || g.CostUSD <= 0 || len(g.Validators) != 3 {
		t.Fatalf("agreement %+v", g)
	}
	for _, v := range g.Validators {
		if v.Judged != 3 || !strings.Contains(v.Filter, "3 in → 3 passed") || len(v.Excluded) != 2 ||
			!strings.Contains(v.Excluded[by["near-copy"].Miner], "near copy of an earlier one, that of optimised") || v.Excluded[by["gaming"].Miner] != "its policy breaks rules of the arena" {
			t.Errorf("validator %+v", v)
		}
		// A script was the model: the winner is named, and the owner's uid has all.
		if len(v.Weights) != 1 || v.Weights[0].Weight != 65535 || v.Weights[0].Hotkey == *g.Winner {
			t.Errorf("weights %+v", v.Weights)
		}
	}
	// As the platform's: the cheapest pack sits, on both sides the same one, and earns nothing.
	if a.Champion == nil || *a.Champion != by["optimised"].ID || len(a.Decisions) != 2 || by["optimised"].CostMicros == 0 || by["optimised"].CostMicros >= by["baseline"].CostMicros {
		t.Errorf("champion %v, decisions %+v", a.Champion, a.Decisions)
	}
	if len(a.Weights) != 1 || a.Weights[0].Weight != 65535 || a.Weights[0].Hotkey == by["optimised"].Miner {
		t.Errorf("weights %+v", a.Weights)
	}
	// The hub of skills has both, found by words of their policies.
	s, stop, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for q, want := range map[string]int{"": 2, "?q=confidential": 2, "?q=optimised": 1, "?q=confidential+nothing-like-it": 0} {
		var hub struct{ Skills []any }
		r, err := http.Get(s.URL() + "/api/skills" + q)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(r.Body).Decode(&hub)
		if err = errors.Join(err, r.Body.Close()); err != nil || len(hub.Skills) != want {
			t.Errorf("skills %q: %d (%v), want %d", q, len(hub.Skills), err, want)
		}
	}
}
