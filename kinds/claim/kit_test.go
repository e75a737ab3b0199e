package claim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/claim/data"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/roster"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

func TestMain(m *testing.M) {
	netns.MaybeChild() // a helper process of boxes ends here
	os.Exit(m.Run())
}

type dirs map[agon.Digest]string

func (d dirs) Tree(_ context.Context, x agon.Digest) (string, error) {
	if p, ok := d[x]; ok {
		return p, nil
	}
	return "", fmt.Errorf("no tree %s", x)
}

// The three samples play every claim of the demo; each earns what it is meant
// to show, and the roster fills in steps.
func TestDemoClaim(t *testing.T) {
	kits := kit.List{Kit()}
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{})
	if err != nil {
		t.Fatalf("no root file system for boxes: %v", err)
	}
	state, err := os.MkdirTemp("", "agon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	if err := os.Chmod(state, 0o755); err != nil {
		t.Fatal(err)
	}
	d, _, err := probe.Probe(t.Context(), probe.Config{Rootfs: root, StateDir: state, Want: os.Getenv("AGON_DRIVER")})
	if err != nil {
		t.Fatalf("no box: %v", err)
	}
	script, err := scripted.Parse(kit.SampleScript(data.FS, "search-llm"), "json")
	if err != nil {
		t.Fatal(err)
	}
	gw, err := gateway.New(gateway.Config{Upstreams: []provider.Upstream{scripted.New(script)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := gw.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer gw.Stop()
	docs, err := shippedDocs(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	host, stop, err := openToolHost(kittest.Options(state, kits), docs, d, root, gw, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	k := newClaim(kit.Parts{Rootfs: root})
	f := Kit().Demo()
	a := f.Arena()
	trees := dirs{}
	for _, set := range f.Sets {
		list, err := kit.Options{Kits: kits}.ShippedSet(play.Name, set)
		if err != nil {
			t.Fatal(err)
		}
		for i, tk := range list {
			dir := filepath.Join(state, fmt.Sprint("t", i))
			if err := task.Materialise(tk, dir); err != nil {
				t.Fatal(err)
			}
			on, err := task.LoadDir(dir, tk.Key)
			if err != nil {
				t.Fatal(err)
			}
			c, ref, err := play.LoadTask(on)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range ref.Spans {
				if got := []rune(ref.Citations[0].Note)[s.Start:s.End]; string(got) != s.Excerpt {
					t.Errorf("%s: span %q", tk.Key, string(got))
				}
			}
			_ = c
			trees[tk.Digest] = dir
			a.Tasks = append(a.Tasks, agon.TaskRef{Key: tk.Key, Digest: tk.Digest})
		}
	}
	if len(a.Tasks) < 12 {
		t.Fatalf("%d claims, want at least 12", len(a.Tasks))
	}
	p := &validator.Player{Driver: d, Gateway: gw, Kinds: map[string]kind.Kind{play.Name: k}, Trees: trees, Now: time.Now, Tools: host}
	rule := roster.TopThree()
	var entered []incentive.Entry
	var last float64
	for i, name := range []string{"constant", "lexical", "search-llm"} {
		files, err := kit.SampleFiles(data.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		src := files[play.AgentFile]
		if f := play.CheckSource(src); len(f) > 0 {
			t.Fatalf("%s: %+v", name, f)
		}
		dir := filepath.Join(state, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, play.AgentFile), src, 0o644); err != nil {
			t.Fatal(err)
		}
		trees[agon.Sum(src)] = dir
		plan, err := k.Plan(agon.View{Arena: a})
		if err != nil || len(plan.Runs) != 1 {
			t.Fatalf("%+v %v", plan, err)
		}
		r := plan.Runs[0]
		r.Run = "run-" + name
		att := p.Play(t.Context(), validator.Job{Run: r, Attempt: 1, Arena: a, Submission: agon.Submission{ID: name, Digest: agon.Sum(src)}})
		if att.Fault != agon.FaultNone || len(att.Scores) != len(a.Tasks) {
			t.Fatalf("%s: fault %q %s", name, att.Fault, att.Reason)
		}
		sum := 0.0
		line := ""
		for _, s := range att.Scores {
			sum += s.Value
			line += fmt.Sprintf(" %v", s.Value)
		}
		mean := sum / float64(len(att.Scores))
		t.Logf("%s: %.3f cost %d µ$ in %s:%s", name, mean, att.Cost, att.Wall.Round(time.Millisecond), line)
		if i > 0 && mean <= last {
			t.Errorf("%s scores %.3f, no more than the one before (%.3f)", name, mean, last)
		}
		last = mean
		e := incentive.Entry{Submission: name, Miner: name, Score: mean}
		if v := rule.Decide(incentive.Challenge{Arena: a, Numbers: rule.Of(nil), Challenger: e, Seats: rule.Sit(nil, entered)}); v.Takes {
			entered = append(entered, e)
		}
	}
	roster := rule.Sit(nil, entered)
	if len(roster) != 3 || roster[0].Submission != "search-llm" || roster[2].Submission != "constant" {
		t.Errorf("roster %+v", roster)
	}
}
