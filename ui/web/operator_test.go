package web

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

func TestAlarms(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		h    store.Lately
		want []string
	}{
		{store.Lately{Runs: 20, Scored: 20}, nil},
		{store.Lately{Scored: 5, Ours: map[agon.Fault]int64{agon.FaultValidator: 4}}, nil}, // too few to tell
		{store.Lately{Scored: 50, Ours: map[agon.Fault]int64{agon.FaultAgent: 40}}, nil},   // not ours
		{store.Lately{Scored: 18, Ours: map[agon.Fault]int64{agon.FaultValidator: 1, agon.FaultProvider: 3}}, []string{"4 of the last 22 runs", "fault of the provider"}},
		{store.Lately{Oldest: now.Add(-3 * time.Hour)}, []string{"waited for 3 h"}},
		{store.Lately{Oldest: now.Add(-time.Minute)}, nil},
	} {
		got := strings.Join(alarms("Demo", c.h, now), "\n")
		if (got == "") != (c.want == nil) {
			t.Errorf("%+v: %q", c.h, got)
		}
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%+v: %q, want %q", c.h, got, w)
			}
		}
	}
	list := []agon.Decision{{Challenger: "s1", Sentence: "it <b>knows</b>", Numbers: map[string]float64{"gap_alarm": 1, "gap": 0.9}}, {Numbers: map[string]float64{"gap_alarm": 0}}}
	if got := ruleAlarms("Demo", list, func(id string) string { return "named " + id }); len(got) != 1 || !strings.Contains(got[0], "gap alarm") {
		t.Errorf("%v", got)
	}
}

// The operator sees what each arena does, and puts a run back into the queue by
// the form that stands beside it; others do not get there.
func TestOperatorRequeues(t *testing.T) {
	f := newFixture(t)
	f.submit(miner, "stuck", "x = 1")
	l := f.claim()
	c := f.browser(boss)
	_, page := f.get(c, "/operator")
	for _, want := range []string{`formaction="/operator/requeue"`, "Failed by us", "Spent in a day", `id="a-demo"`} {
		if !strings.Contains(page, want) {
			t.Fatalf("%q is not on the page: %s", want, page)
		}
	}
	form := url.Values{"run": {l.Run.Run}, "reason": {"its box hangs"}}
	for _, who := range []struct {
		c    *http.Client
		want int
	}{{f.browser(""), http.StatusForbidden}, {f.browser(miner), http.StatusForbidden}, {c, http.StatusOK}, {c, http.StatusConflict}} {
		resp, err := who.c.PostForm(f.url+"/operator/requeue", form)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != who.want && !(who.want == http.StatusForbidden && resp.StatusCode == http.StatusUnauthorized) {
			t.Errorf("%d, want %d", resp.StatusCode, who.want)
		}
	}
	if _, page = f.get(c, "/operator"); !strings.Contains(page, "its box hangs") || !strings.Contains(page, "requeue") {
		t.Error("what was done is not written down on the page")
	}
}

// The operator stops an arena at once: what is under way goes back, the page says
// that the arena is held, what its submissions have so far, and how it goes on.
func TestOperatorHolds(t *testing.T) {
	f := newFixture(t)
	s := f.submit(miner, "stuck", "x = 1")
	f.claim()
	c := f.browser(boss)
	if _, page := f.get(c, "/operator"); !strings.Contains(page, "none of 2 tasks scored") || !strings.Contains(page, `value="held"`) {
		t.Error(page)
	}
	resp, err := c.PostForm(f.url+"/operator/arena", url.Values{"arena": {"demo"}, "state": {"held"}, "reason": {"the provider bills twice"}})
	must(t, err)
	resp.Body.Close()
	_, page := f.get(c, "/operator")
	for _, want := range []string{"is held: it takes and plays nothing, 2 runs waiting", "open to held", "the provider bills twice"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page: %s", want, page)
		}
	}
	if strings.Contains(page, "Is a validator running?") {
		t.Error("the page looks for a validator")
	}
	if _, page = f.get(c, "/submissions/"+s.ID); !strings.Contains(page, "The operator holds the arena") {
		t.Error(page)
	}
}

// The operator sees what other numbers would do before anything changes.
func TestOperatorPlansRetune(t *testing.T) {
	f := newFixture(t)
	f.submit(miner, "one", "x = 1")
	c := f.browser(boss)
	form := url.Values{"arena": {"demo"}, "attempts": {"4"}, "reason": {"the \"model\" is slow"}}
	for _, who := range []*http.Client{f.browser(""), f.browser(miner)} {
		resp, err := who.PostForm(f.url+"/operator/retune-plan", form)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d for who is not the operator", resp.StatusCode)
		}
	}
	resp, err := c.PostForm(f.url+"/operator/retune-plan", form)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	for _, want := range []string{"Nothing is changed yet", `name="attempts" value="4"`, "value=\"the &#34;model&#34; is slow\"", "runs that ended"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is not on the page: %s", want, b)
		}
	}
	if _, page := f.get(c, "/operator"); strings.Contains(page, "is slow") {
		t.Error("the plan was written down as done")
	}
}

// The operator is told when the blobs do not answer and when the disk is nearly full.
func TestStorageAlarms(t *testing.T) {
	for _, c := range []struct {
		in   platform.Storage
		want string // of the only alarm; "": none
	}{
		{platform.Storage{DiskFree: 50e9, DiskTotal: 100e9}, ""},
		{platform.Storage{}, ""},
		{platform.Storage{DiskFree: 4.9e9, DiskTotal: 100e9}, "4.9 GB of 100.0 GB are left"},
		{platform.Storage{Blobs: errors.New("no\x1b[31m route"), DiskFree: 50e9, DiskTotal: 100e9}, "does not answer: no"},
	} {
		got := storageAlarms(c.in)
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || c.want == "" || !strings.Contains(got[0], c.want) || strings.Contains(got[0], "\x1b") {
			t.Errorf("%+v: %q", c.in, got)
		}
	}
}
