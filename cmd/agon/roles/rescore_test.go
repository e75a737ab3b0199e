package roles

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/cli"
)

// shelf holds stored plays.
type shelf map[string]*client.Run

func (s shelf) Run(_ context.Context, id string) (*client.Run, error) { return s[id], nil }

// rescoringOf stores runs plays of the demo's claims, every verdict right, each scored 1
// by words, and returns what scores them anew by a scripted judge, which accepts what says
// "dredged".
func rescoringOf(t testing.TB, runs int, budget agon.Micros) (x *rescoring, ids []string, pairs int) {
	t.Helper()
	ctx := t.Context()
	dir := t.TempDir()
	k := claim.Kit()
	k.Script = func() []byte {
		return []byte(`{"version":1,"rule":[
			{"last":"It was dredged in spring","content":"{\"rationale\":\"the same facts\",\"support_ok\":true}"},
			{"last":"no form","content":"I would rather not say."},
			{"last":"notice of the parish","content":"Nor here."},
			{"content":"{\"rationale\":\"no facts\",\"support_ok\":false}"}]}`)
	}
	o := kittest.Options(dir, kit.List{k})
	o.Say = func(string, ...any) {}
	blobs, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{Cache: true})
	if err != nil {
		t.Fatal(err)
	}
	own, err := rescorer(o, play.Name, agon.Script, 0)
	if err != nil {
		t.Fatal(err)
	}
	gw, err := kit.NewBriefGateway(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gw.Stop() })
	list, err := o.ShippedSet(play.Name, "demo")
	if err != nil {
		t.Fatal(err)
	}
	var refs []agon.TaskRef
	var right []int
	for _, tk := range list {
		ref, err := kit.PutTask(ctx, blobs, tk, filepath.Join(dir, "made"))
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, "read", fmt.Sprint(len(refs)))
		tree := validator.TreeCache{Dir: at, Source: blobs}
		p := validator.Player{Driver: boxless{}, Gateway: gw, Now: time.Now, CheckTask: o.Kits.CheckTask, Trees: &tree, Kinds: map[string]kind.Kind{play.Name: own}}
		env, end := p.Env(agon.RunSpec{Run: "read"})
		x, err := env.Task(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		_, want, err := play.LoadTask(x)
		if err != nil {
			t.Fatal(err)
		}
		end()
		refs, right = append(refs, ref), append(right, want.Verdict)
	}
	said := []string{"It was dredged in spring.", "I think so.", "no form"}
	stored := shelf{}
	for i := range runs {
		r := &client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: fmt.Sprintf("r%05d", i), Arena: "a", Tasks: refs}, Submission: fmt.Sprintf("s%d", i%3), State: agon.RunScored}}
		answers := make([]play.Pair, len(refs))
		for j, ref := range refs {
			text := said[i%2]
			if j == 0 && i == 0 {
				text = said[2]
			}
			answers[j] = play.Pair{Task: ref.Key, Outcome: agon.OutcomeOK, Response: &play.PairReply{Verdict: right[j], Justification: fmt.Sprintf("%s (%d)", text, i)}}
			r.Scores = append(r.Scores, agon.Score{Run: r.RunSpec.Run, Task: ref.Key, Value: 1, Solved: true, Scorer: "claim-1+" + judge.LexicalSupport})
		}
		b, err := play.EncodePairs(answers)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := blob.PutFiles(ctx, blobs, []blob.File{{Path: play.PairsFile, Content: b}}, blob.TreeLimits{})
		if err != nil {
			t.Fatal(err)
		}
		r.List = []agon.Attempt{{N: 1, Fault: agon.FaultProvider}, {N: 2, Counted: true, Evidence: tree}}
		stored[r.RunSpec.Run] = r
		ids = append(ids, r.RunSpec.Run)
		pairs += len(refs)
	}
	return &rescoring{
		plays: stored, source: blobs, kind: play.Name, keep: io.Discard, parallel: 32, out: &cli.Rescore{Scorer: own.Scorer()},
		player: &validator.Player{Driver: boxless{}, Gateway: &meter{gw: gw, left: budget}, Kinds: map[string]kind.Kind{play.Name: own}, Now: time.Now, CheckTask: o.Kits.CheckTask, Trees: &validator.TreeCache{Dir: filepath.Join(dir, "trees"), Source: blobs}},
	}, ids, pairs
}

// Stored plays are scored anew by another judge, without a box: a pair without a
// verdict counts nowhere, what is gone is skipped, and both scores of each are kept.
func TestRescore(t *testing.T) {
	x, ids, pairs := rescoringOf(t, 6, 1_000_000)
	kept, err := os.Create(filepath.Join(t.TempDir(), "kept"))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	x.keep = kept
	gone := *x.plays.(shelf)["r00005"]
	gone.List = []agon.Attempt{{N: 1, Counted: true, Evidence: agon.Sum([]byte("gone"))}}
	x.plays.(shelf)["r00005"] = &gone
	if err := x.all(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	per := pairs / 6
	out := x.out
	if out.Runs != 5 || out.Skipped != 1 || out.Unscored != 1 || out.Pairs != 5*per-1 || out.Same != 3*per-1 || len(out.Submissions) != 3 {
		t.Errorf("%+v", *out)
	}
	// Plays 0, 2 and 4 say what the judge accepts; 1 and 3 have the verdict right, which is half.
	for _, e := range out.Submissions {
		want := map[string]float64{"s0": 0.75, "s1": 0.75, "s2": 1}[e.ID] // of plays 0 and 3, 1 and 4, 2
		if e.Stored != 1 || e.Rescored < want-0.02 || e.Rescored > want+0.02 {
			t.Errorf("%+v, want %v", e, want)
		}
	}
	b, err := os.ReadFile(kept.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var p cli.RescoredPair
	if err := json.Unmarshal([]byte(lines[0]), &p); err != nil || len(lines) != 5*per || p.Attempt != 2 || p.Stored.Scorer != "claim-1+"+judge.LexicalSupport || p.Rescored.Scorer != out.Scorer || p.Stored.Value != 1 {
		t.Errorf("%d lines, %+v %v", len(lines), p, err)
	}
	if m := x.player.Gateway.(*meter); m.spent != 1_000_000-m.left {
		t.Errorf("spent %d, left %d", m.spent, m.left)
	}
}

// Which judge a --scorer names.
func TestRescorer(t *testing.T) {
	o := kittest.Options(t.TempDir(), kit.List{claim.Kit(), claim.QueryKit()})
	keyed := o
	keyed.Getenv = func(k string) string {
		if k == "AGON_LLM_BASE_URL" {
			return "http://127.0.0.1:9"
		}
		return ""
	}
	full := judge.SupportScorer([]string{"a", "b"}, 2)
	for _, c := range []struct {
		o            kit.Options
		kind, scorer string
		panel        int
		want         string // the scorer, or what the refusal says
	}{
		{o, play.Name, words, 0, "claim-1+" + judge.LexicalSupport},
		{o, play.QueryName, words, 0, "query-1+" + judge.LexicalPairs},
		{o, play.Name, agon.Script, 0, "claim-1+" + judge.SupportScorer([]string{agon.Script}, 0)},
		{o, play.Name, "a", 0, "needs a model"},
		{keyed, play.Name, "a", 0, "claim-1+" + judge.SupportScorer([]string{"a"}, 0)},
		{keyed, play.QueryName, "a,b", 0, "query-1+" + judge.PairwiseScorer([]string{"a", "b"})},
		{keyed, play.Name, full, 0, "claim-1+" + full},
		{keyed, play.Name, "claim-1+" + full, 0, "claim-1+" + full},
		{keyed, play.Name, "support+support.0-00000000+a", 0, "this agon judges by claim-1+support"},
		{keyed, play.Name, "a", 3, "a panel of 3"},
		{keyed, play.Name, ",", 0, "names no model"},
	} {
		k, err := rescorer(c.o, c.kind, c.scorer, c.panel)
		if err == nil && k.Scorer() != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s by %s: %v", c.kind, c.scorer, err)
			if k != nil {
				t.Log(k.Scorer())
			}
		}
	}
}

// Without money left nothing more is asked, and that is said.
func TestRescoreWithinBudget(t *testing.T) {
	x, ids, _ := rescoringOf(t, 4, 0)
	if err := x.all(t.Context(), ids); err == nil || !strings.Contains(err.Error(), judge.ErrBudget.Error()) || x.out.Pairs != 0 {
		t.Errorf("%v, %+v", err, *x.out)
	}
}

// 10,000 stored pairs by a scripted judge.
func BenchmarkRescore(b *testing.B) {
	_, _, per := rescoringOf(b, 1, 1<<40)
	n := (10_000 + per - 1) / per
	x, ids, pairs := rescoringOf(b, n, 1<<40)
	for b.Loop() {
		x.out = &cli.Rescore{}
		x.done = 0
		if err := x.all(context.Background(), ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/float64(pairs)*10_000, "s/10000-pairs")
}
