package web

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
)

// What a first visit to a page may cost: bytes on the wire with all that it
// loads, and time that this process works.
// The bytes are a limit; the time is told beside its aim of 50 ms and fails
// nothing, since other work on the same cores and the race detector multiply it.
const (
	budgetBytes = 100 << 10
	aimTime     = 50 * time.Millisecond
)

// weigh reads an address as a browser does and returns the bytes that came.
func weigh(t *testing.T, c *http.Client, url string) int64 {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	must(t, err)
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.Do(req)
	must(t, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d", url, resp.StatusCode)
	}
	return n
}

// Pages of an arena of thousands of submissions, and of a run of thousands of
// steps, keep their budgets. The page of tasks is left out: it adds up every play,
// which takes longer, once a second for all readers.
func TestBudgets(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"}, agon.TaskRef{Key: "small/two"})
	f.crowd(2000)
	a, b := f.submit(miner, "long", "x = 2"), f.submit(rival, "other", "x = 3")
	runs := map[string]string{}
	for l := f.claim(); l != nil; l = f.claim() {
		if l.Run.Tasks[0].Key == "small/one" {
			runs[l.Submission.ID] = l.Run.Run
			for i := int64(0); i < 2000; i += 500 {
				var evs []agon.Event
				for j := range int64(500) {
					n := i + j + 1
					switch n % 4 {
					case 0:
						evs = append(evs, event(n, agon.EventOutput, "small/one", kind.Output{Stream: "output", Text: "a line of what was printed\n", Marks: [][2]int64{{n, 27}}}))
					default:
						evs = append(evs, event(n, agon.EventTool, "small/one", map[string]any{"tool": map[string]any{"tool": "bash", "outcome": "ok", "request": map[string]any{"command": "ls -l some/where", "n": n % 7}}}))
					}
				}
				f.beat(l, evs...)
			}
		}
		f.score(l, 0.5, "")
	}
	c, op := f.browser(miner), f.browser(boss) // a signed-in reader's page is made for each request
	statics := int64(0)
	for _, at := range []string{"agon.css", "agon.js", "agon.svg", "uplot-1.6.32/uPlot.js", "uplot-1.6.32/uPlot.css"} {
		statics += weigh(t, c, f.url+"/static/"+at)
	}
	for _, x := range []struct {
		c  *http.Client
		at string
	}{
		{c, "/"},
		{c, "/arenas/demo"},
		{c, "/arenas/demo/race"},
		{c, "/submissions/" + a.ID + "/with/" + b.ID},
		{c, "/runs/" + runs[a.ID]},
		{c, "/runs/" + runs[a.ID] + "/with/" + runs[b.ID]},
		{c, "/desk"},
		{op, "/operator"},
	} {
		first := statics + weigh(t, x.c, f.url+x.at)
		least := time.Hour
		for range 4 {
			from := cpu(t)
			weigh(t, x.c, f.url+x.at)
			least = min(least, cpu(t)-from)
		}
		t.Logf("%-90s %4d KB, %v of %v", x.at, first>>10, least.Round(100*time.Microsecond), aimTime)
		if first > budgetBytes {
			t.Errorf("%s: a first visit takes %d KB of %d", x.at, first>>10, budgetBytes>>10)
		}
	}
}
