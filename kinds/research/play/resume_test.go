package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/sandbox"
)

// stopping is a world whose validator stops: as soon as a benchmark has left what the test
// waits for, or as the box of a benchmark is made. It keeps what plays keep.
type stopping struct {
	*world
	kept  *kind.Kept
	anew  string
	file  string // that ends the play once it is in a benchmark's box; empty: none does
	after int    // the box of so many benchmarks ends the play as it is made; 0: none does
	stop  context.CancelFunc
}

func (s *stopping) Kept(context.Context) (kind.Kept, bool, error) {
	if s.kept == nil {
		return kind.Kept{}, false, nil
	}
	return *s.kept, true, nil
}

func (s *stopping) Keep(k kind.Kept) error {
	s.kept = &k
	return nil
}

func (s *stopping) Anew(why string) error {
	s.anew, s.kept = why, nil
	return errors.New(why)
}

func (s *stopping) Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := s.world.Box(ctx, spec)
	if err != nil || spec.Name != "benchmark" {
		return b, err
	}
	if s.after--; s.after == 0 {
		s.stop()
	}
	if s.file == "" {
		return b, nil
	}
	file := s.file
	s.file = ""
	go func() {
		for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if _, err := b.ReadFile(file, 1<<20); err == nil {
				s.stop()
			}
		}
	}()
	return b, nil
}

// play plays a run until its end or until it is stopped.
func (s *stopping) play(sub agon.Submission, r agon.RunSpec) (obs Observed, log string, err error) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	s.stop = stop
	rec, err := s.kind.Play(ctx, s, sub, r)
	if err != nil {
		return obs, "", err
	}
	if err := json.Unmarshal(rec.Files[ObservedFile], &obs); err != nil {
		s.t.Fatal(err)
	}
	return obs, string(rec.Files[LogFile]), nil
}

const resumable = `import json, os, sys, time
state, spent = os.environ["AGON_STATE"], float(os.environ["AGON_SPENT"])
did = int(open(state).read()) if os.path.exists(state) else 0
left = open("submission/score.txt").read().strip()
if did == 0:
    assert spent == 0, spent
    with open(state + ".new", "w") as f:
        f.write("7")
    os.rename(state + ".new", state)
    time.sleep(1000)
assert spent > 0, spent
if left == "slow":
    time.sleep(1000)
os.makedirs("out", exist_ok=True)
json.dump({"score": did + 1}, open("out/result.json", "w"))
`

func resumableTask(w *world, more ...string) {
	toml := edit(oneTask, "time_budget_seconds = 20", "time_budget_seconds = 20\nresumable = true\n"+strings.Join(more, "\n"))
	w.task(toml, with(oneBase, "bench.py", resumable))
}

// A benchmark that its validator stops goes on from what it left, once in the next attempt;
// the time that it had counts.
func TestResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resumableTask(w)
	s := &stopping{world: w, file: stateFile}
	sub, r := w.submission(scorePatch("2"), Claim{}), w.run()
	if _, _, err := s.play(sub, r); err == nil || s.kept == nil || string(s.kept.State) != "7" {
		t.Fatalf("stopped: %v, kept %+v", err, s.kept)
	}
	first, err := readProgress(s.kept.Doc)
	if err != nil || first.Stops != 1 || first.SpentMS < 1 {
		t.Fatalf("progress %+v, %v", first, err)
	}
	obs, log, err := s.play(sub, r)
	if err != nil || obs.Status != StatusAccepted || obs.Metrics["score"] != 8 || obs.Stops != 1 {
		t.Fatalf("gone on: %v %+v\n%s", err, obs, log)
	}
	if obs.BenchmarkMS < first.SpentMS {
		t.Errorf("%d ms in all, %d of them before the stop", obs.BenchmarkMS, first.SpentMS)
	}
	if !strings.Contains(log, "resumed stops=1") {
		t.Errorf("the log does not say that it was resumed:\n%s", log)
	}
}

// The time of a run that was stopped is what is left of its budget. One that uses it up
// is played from its beginning: a stop costs time, and that is not its miner's.
func TestResumeRunsOutOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resumableTask(w)
	spent, err := json.Marshal(progress{Stops: 2, SpentMS: 19_500})
	if err != nil {
		t.Fatal(err)
	}
	s := &stopping{world: w, kept: &kind.Kept{Doc: spent, State: []byte("7")}}
	from := time.Now()
	_, _, err = s.play(w.submission(scorePatch("slow"), Claim{}), w.run())
	if err == nil || s.kept != nil || !strings.Contains(s.anew, "from its beginning") {
		t.Errorf("%v, kept %+v, anew %q", err, s.kept, s.anew)
	}
	if took := time.Since(from); took > 15*time.Second {
		t.Errorf("it had half a second left and took %v", took)
	}
}

// What a contestant leaves is bounded and a plain file, or the next attempt begins anew.
func TestResumeOfHostileState(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]string{
		"too large": "os.truncate(state, 2000)",
		"a link":    "os.remove(state)\n    os.symlink('/etc/passwd', state)",
		"a pipe":    "os.remove(state)\n    os.mkfifo(state)",
		"a folder":  "os.remove(state)\n    os.mkdir(state)",
		"nothing":   "os.remove(state)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			toml := edit(oneTask, "time_budget_seconds = 20", "time_budget_seconds = 20\nresumable = true\nmax_state_bytes = 1000\n")
			bench := edit(resumable, "    time.sleep(1000)\n", "    "+state+"\n    open(\"/agon/state/left\", \"w\").close()\n    time.sleep(1000)\n")
			w.task(toml, with(oneBase, "bench.py", bench))
			s := &stopping{world: w, file: stateMount + "/left"}
			if _, _, err := s.play(w.submission(scorePatch("2"), Claim{}), w.run()); err == nil || s.kept != nil {
				t.Errorf("%v, kept %+v", err, s.kept)
			}
		})
	}
}

// What another program wrote in the place of what was kept is refused.
func TestReadProgress(t *testing.T) {
	for _, text := range []string{
		"", "{", "[]", "null", "{}", `{"stops": 1, "spent_ms": -1}`, `{"stops": 1, "spent_ms": 1e300}`, `{"stops": 1, "spent_ms": 1, "score": 3}`,
		`{"stops": 1, "spent_ms": 1, "next": 1}`, `{"stops": 1, "spent_ms": 1, "metrics": {"score": 1}, "pairs": [{}, {}], "next": 1}`, `{"stops": 1, "spent_ms": 90000000}`,
	} {
		if g, err := readProgress([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, g)
		}
	}
}

// Of a duel that is stopped the pairs that have ended count. The pair under way is played
// again, and nothing of it goes on: neither side gets a second try of a pair that has ended.
func TestResumeOfADuel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const bench = `import json, os
assert os.environ["AGON_SPENT"] == "0.000" and not os.path.exists(os.environ["AGON_STATE"])
open(os.environ["AGON_STATE"], "w").write("x")
os.makedirs("out", exist_ok=True)
json.dump({"score": float(open("submission/score.txt").read())}, open("out/result.json", "w"))
`
	toml := edit(oneTask, "time_budget_seconds = 20", "time_budget_seconds = 20\nresumable = true", "metric_direction = \"maximize\"", "metric_direction = \"minimize\"") + "[rules]\nband = 0.5\n"
	w.task(toml, with(oneBase, "bench.py", bench))
	old := w.submission(scorePatch("3"), Claim{})
	s := &stopping{world: w, after: 7} // the first number, two pairs, one side of the third: the other side begins
	r := w.run()
	r.Rival = &agon.Rival{Submission: "old", Digest: old.Digest, Round: 1, Pairs: 3}
	sub := w.submission(scorePatch("2"), Claim{})
	_, _, err := s.play(sub, r)
	if err == nil || s.kept == nil {
		t.Fatalf("stopped: %v, kept %+v", err, s.kept)
	}
	g, err := readProgress(s.kept.Doc)
	if err != nil || len(g.Pairs) < 1 || len(g.Pairs) > 2 || g.Next != len(g.Pairs) || len(s.kept.State) > 0 {
		t.Fatalf("kept %s and %d bytes: %v", s.kept.Doc, len(s.kept.State), err)
	}
	before := len(w.names)
	obs, log, err := s.play(sub, r)
	if err != nil || len(obs.Duel) != 3 || obs.Metrics["score"] != 2 {
		t.Fatalf("gone on: %v %+v\n%s", err, obs, log)
	}
	for i, p := range obs.Duel {
		if p.Seed != DuelSeed(w.tasks["test/one"].Digest, r, i) || p.Pair != (quorum.Pair{Challenger: 2, Incumbent: 3}) {
			t.Errorf("pair %d: %+v", i, p)
		}
	}
	played := 0
	for _, n := range w.names[before:] {
		if n == "benchmark" {
			played++
		}
	}
	if want := 2 * (3 - len(g.Pairs)); played != want {
		t.Errorf("%d benchmarks after the stop, want %d: both sides of the pairs that had not ended", played, want)
	}
}

// Preflight stops the base of a resumable task half way, and says what comes of it.
func TestPreflightResume(t *testing.T) {
	t.Parallel()
	const steps = `import json, os, time
state = os.environ["AGON_STATE"]
did = json.load(open(state)) if os.path.exists(state) else 0
while did < 12:
    time.sleep(0.1)
    did += 1
    json.dump(%s, open(state + ".new", "w"))
    os.rename(state + ".new", %s)
os.makedirs("out", exist_ok=True)
json.dump({"score": did}, open("out/result.json", "w"))
`
	for _, c := range []struct{ name, bench, status string }{
		{"goes on", fmt.Sprintf(steps, "did", "state"), "ok"},
		{"another number", fmt.Sprintf(steps, "did + 20", "state"), "fail"},
		{"no state", fmt.Sprintf(steps, "did", "state + \".elsewhere\""), "fail"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			toml := edit(oneTask, "time_budget_seconds = 20", "time_budget_seconds = 20\nresumable = true\n", "baseline = 1.0", "baseline = 12.0")
			w.task(toml, with(oneBase, "bench.py", c.bench))
			rep, err := w.kind.Preflight(t.Context(), w, w.run())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, x := range rep.Checks {
				if x.Name == "resume" {
					got = x.Status
				}
			}
			if got != c.status {
				t.Errorf("resume is %q, want %q: %+v", got, c.status, rep.Checks)
			}
		})
	}
}
