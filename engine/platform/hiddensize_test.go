package platform

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// playedHidden is an arena with one task, hidden, of so many bytes; one submission was played on it.
func playedHidden(t *testing.T, size int) (f *fixture, s *client.Submission, task agon.Digest) {
	t.Helper()
	f = newFixture(t, 1, func(c *Config, a *agon.Arena) {
		text := bytes.Repeat([]byte("hidden words "), size/13+1)
		d, err := blob.PutFiles(bg, c.Blobs, []blob.File{{Path: "task.toml", Content: text}}, blob.TreeLimits{})
		must(t, err)
		_, err = c.Blobs.Put(bg, text)
		must(t, err)
		a.Tasks[0].Digest, a.Tasks[0].Hidden = d, true
		task = agon.Sum(text)
	})
	s = f.submit(miner1, "x")
	l := f.claim(val1)
	r := scored(l, 0)
	r.Reason = strings.Repeat("what the task said ", size>>18+1)
	r.Scores[0].Detail = r.Reason
	f.result(val1, l, r)
	return f, s, task
}

var drawn = regexp.MustCompile(`"seed":[0-9]+`)

// replies are what who may not read hidden tasks gets to read about them.
func replies(t *testing.T, f *fixture, c Caller, s *client.Submission) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	put := func(name string, v any, err error) {
		t.Helper()
		must(t, err)
		b, err := json.Marshal(v)
		must(t, err)
		out[name] = drawn.ReplaceAll(b, []byte(`"seed":0`)) // one in ten has a digit less than another
	}
	a, err := f.Arena(bg, "demo")
	put("arena", a, err)
	b, err := f.Board(bg, "demo")
	put("board", b, err)
	v, err := f.Submission(bg, c, s.ID)
	put("submission", v, err)
	runs, err := f.Runs(bg, c, "demo", s.ID, "", "", 10)
	put("runs", runs, err)
	for _, r := range runs.Items {
		x, err := f.Run(bg, c, r.Run.Run)
		put("run", x, err)
		e, err := f.Events(bg, c, r.Run.Run, 0, 0, 0)
		put("events", e, err)
	}
	return out
}

// A hidden task of 4 MB and one of 100 bytes are answered alike: to the byte, and in the same time.
func TestRepliesDoNotTellSizes(t *testing.T) {
	small, s1, smallTask := playedHidden(t, 100)
	large, s2, largeTask := playedHidden(t, 4<<20)
	for _, c := range []Caller{{}, {Hotkey: miner1}, {Hotkey: miner2}} {
		a, b := replies(t, small, c, s1), replies(t, large, c, s2)
		for name := range a {
			if len(a[name]) != len(b[name]) {
				t.Errorf("%s as %q: %d bytes and %d\n%s\n%s", name, c.Hotkey, len(a[name]), len(b[name]), a[name], b[name])
			}
		}
		if len(a) != len(b) || len(a) < 5 {
			t.Errorf("%d and %d replies", len(a), len(b))
		}
	}
	// Who guesses a hidden task's bytes is answered as if they were not there. The least of many
	// takes: the machine does other things, too.
	absent := agon.Sum([]byte("not there"))
	least := map[string]time.Duration{}
	ask := func(name string, f *fixture, d agon.Digest) {
		start := time.Now()
		_, err := f.Blob(bg, Caller{Hotkey: miner2}, d)
		took := time.Since(start)
		var e *agon.Error
		if !errors.As(err, &e) || e.Status != 404 || strings.ReplaceAll(e.Message, string(d), "") != strings.ReplaceAll(noBlob(d).Error(), string(d), "") {
			t.Fatalf("%s: %v", name, err)
		}
		if old, ok := least[name]; !ok || took < old {
			least[name] = took
		}
	}
	for range 200 {
		ask("small", small, smallTask)
		ask("large", large, largeTask)
		ask("absent", small, absent)
		ask("absent in the other", large, absent)
	}
	const bound = time.Millisecond
	for name, d := range least {
		if diff := d - least["absent"]; diff > bound || diff < -bound {
			t.Errorf("%s is answered in %v, what is absent in %v", name, d, least["absent"])
		}
	}
	t.Logf("%v", least)
}

// A secret is shown once: the next sweeps change neither when nor what, nor say so again.
func TestRevealedOnce(t *testing.T) {
	f := newFixture(t, 1)
	f.clock.add(DefaultPeriod + time.Second)
	must(t, f.periods(bg))
	first, err := f.Seeds(bg, "demo")
	must(t, err)
	ended := first[len(first)-1]
	if ended.Secret == "" {
		t.Fatalf("it is not shown: %+v", ended)
	}
	f.clock.add(time.Hour)
	must(t, f.periods(bg))
	again, err := f.Seeds(bg, "demo")
	must(t, err)
	if old := again[len(again)-1]; old.Secret != ended.Secret || !old.RevealedAt.Equal(*ended.RevealedAt) {
		t.Errorf("%+v, then %+v", ended, old)
	}
	err = f.cfg.Store.Write(bg, func(tx *store.Tx) error {
		return tx.RevealPeriod("demo", ended.Period, f.clock.Now())
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("shown twice: %v", err)
	}
}
