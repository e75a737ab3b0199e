package play

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// BenchmarkGrade grades the reference of a task with its twins and without, in
// turns, and reports the medians and their ratio.
func BenchmarkGrade(b *testing.B) {
	for _, name := range []string{"semver", "template-loops", "lru-cache"} {
		b.Run(name, func(b *testing.B) { benchGrade(b, smallTask(b, name)) })
	}
	// As in most tasks that are made of releases, two tests decide, which are played in one box more.
	b.Run("two tests decide", func(b *testing.B) {
		tk := smallTask(b, "lru-cache")
		c := &tk.Config.Agon
		c.FailToPass, c.PassToPass = c.FailToPass[:2], slices.Concat(c.FailToPass[2:], c.PassToPass)
		benchGrade(b, tk)
	})
}

func benchGrade(b *testing.B, tk *task.Task) {
	k, d := newKind(b)
	env, pol := newEnv(b, d, tk, ""), runSpec().Policy
	fix, err := tk.SolutionPatch()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := k.twinsOf(b.Context(), env, tk, pol); err != nil { // once a task, not once a grade
		b.Fatal(err)
	}
	a, err := k.apply(b.Context(), env, tk, pol, fix)
	if err != nil {
		b.Fatal(err)
	}
	var with, without []time.Duration
	for b.Loop() {
		g, err := buildGrading(tk, a.changed, a.exec)
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		v := &Verdict{}
		if err := k.gradeWithTwins(b.Context(), env, tk, pol, g, v); err != nil || len(v.Forged) > 0 || len(v.Tests) == 0 {
			b.Fatalf("%v %+v", err, v)
		}
		with = append(with, time.Since(start))
		start = time.Now()
		s, err := k.newBench(b.Context(), env, tk, pol, g)
		if err != nil {
			b.Fatal(err)
		}
		got, _, err := s.run(b.Context(), g.modules, listed(tk))
		if s.close(); err != nil || len(got) == 0 {
			b.Fatal(err)
		}
		without = append(without, time.Since(start))
	}
	x, y := median(with), median(without)
	b.ReportMetric(float64(x)/float64(y), "x")
	b.ReportMetric(float64(x.Milliseconds()), "ms-twins")
	b.ReportMetric(float64(y.Milliseconds()), "ms-plain")
}

// BenchmarkSleepers plays 50 agents at once, each of which waits 10 s for a model that it calls.
func BenchmarkSleepers(b *testing.B) {
	const agents, wait = 50, 10 * time.Second
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select { // a model that takes its time
		case <-time.After(wait):
		case <-r.Context().Done():
		}
	}))
	b.Cleanup(up.Close)
	k, d := newKind(b)
	tk := smallTask(b, "semver")
	for b.Loop() {
		var work errgroup.Group
		start := time.Now()
		for range agents {
			e := newEnv(b, d, tk, "import json, os, urllib.request\n\ndef agent_main(input):\n    urllib.request.urlopen(os.environ['SANDBOX_PROXY_URL'] + '/api/inference', data=json.dumps(input).encode()).read()\n    return ''\n")
			e.door = up.URL
			work.Go(func() error {
				rec, err := k.Play(b.Context(), e, agon.Submission{Digest: agentDigest}, runSpec())
				if err == nil && rec.Outcome != agon.OutcomeEmpty {
					err = fmt.Errorf("%s %s: %s", rec.Outcome, rec.Detail, rec.Files[FileStderr])
				}
				return err
			})
		}
		if err := work.Wait(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s")
	}
}

func median(l []time.Duration) time.Duration {
	slices.Sort(l)
	return l[len(l)/2]
}
