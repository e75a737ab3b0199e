package api_test

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/audit"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/translog"
)

// A stranger collects a submission over HTTP and checks it: seeds are open while
// their period lasts, and computed again when it has ended.
func TestSeedsOverHTTP(t *testing.T) {
	w := newHostile(t, "")
	dir := t.TempDir()
	key, err := translog.LoadKey(filepath.Join(dir, "log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
	if err != nil {
		t.Fatal(err)
	}
	l, err := translog.Open(t.Context(), translog.Config{Storage: translog.Dir(filepath.Join(dir, "log")), Source: platform.Facts{Store: w.st}, Key: key, Commits: w.st.Commits})
	if err != nil {
		t.Fatal(err)
	}
	w.p.SetHistory(l)
	s := w.submit(w.miner, "agent")
	w.claim(w.val)
	c, err := client.New(w.f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func() *audit.Report {
		t.Helper()
		b, err := audit.Collect(t.Context(), c, audit.Want{Submission: s.ID})
		if err != nil {
			t.Fatal(err)
		}
		r := audit.Check(t.Context(), b, audit.Options{LogKey: key.Public()})
		if !r.OK {
			t.Fatalf("wrong: %+v", r.Wrong)
		}
		return r
	}
	isOpen := func(r *audit.Report) bool {
		return slices.ContainsFunc(r.Unchecked, func(u audit.Unchecked) bool { return u.What == "seeds" })
	}
	if r := check(); !isOpen(r) || !slices.Contains(r.Checked, "seed commitment") {
		t.Fatalf("while the period lasts: %+v", r.Checks)
	}
	w.later(platform.DefaultPeriod)
	if err := w.p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer w.p.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		list, err := c.Seeds(ctx, "arena-1")
		if err != nil {
			t.Fatal(err)
		}
		if list[len(list)-1].Secret != "" {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if r := check(); isOpen(r) || !slices.Contains(r.Checked, "seeds") || !slices.Contains(r.Checked, "seed secret") {
		t.Fatalf("when the period has ended: %+v", r.Checks)
	}
	a, err := c.Arena(ctx, "arena-1")
	if err != nil || a.Seeds == nil || a.Seeds.Period == nil || a.Seeds.Period.Period != 1 || a.Seeds.Next == "" {
		t.Errorf("the arena: %+v, %v", a.Seeds, err)
	}
}
