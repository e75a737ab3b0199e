package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// New scripts are compared with what came before them by each validator, once it answers:
// a duplicate is not played, whatever else is, and nobody is asked of the first one.
func TestVotes(t *testing.T) {
	for _, c := range []struct {
		class, outcome, kept string
		silent               int // how often it answers nothing first
		played               int
	}{
		{"duplicate", "fail", "", 2, 1},
		{"near_duplicate", "pass", "near_duplicate", 0, 2},
		{"novel", "pass", "novel", 1, 2},
		{"excellent", "undecided", "", 0, 2}, // no class at all
		{"novel", "undecided", "", voteRounds, 2},
	} {
		w, _, ids := pulling(t)
		w.cfg.Driver = Driver{Key: w.keys['o'], Private: true}
		p, h, err := NewPlatform(w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.h = h
		asked := 0
		var said map[string]any
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if asked++; asked <= c.silent {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			b, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(b, &said)
			if !strings.HasSuffix(r.URL.Path, "/similarity") || !strings.HasPrefix(r.Header.Get("Authorization"), `Bittensor ss58="`+w.keys['o'].SS58()) {
				t.Errorf("asked %s as %s", r.URL.Path, r.Header.Get("Authorization"))
			}
			fmt.Fprintf(rw, `{"classification":%q,"model":"m","provider":"p"}`, c.class)
		}))
		send(t, w.h, w.keys['v'], "POST", "/v1/validators/register", `{"base_url":"`+srv.URL+`/"}`)
		w.tasks(4)
		batch := w.begin(p)
		srv.Close()
		if said != nil && (said["candidate_artifact_id"] != ids["two"] || said["incumbent_artifact_id"] != ids["one"] || said["incumbent_script"] != "one" || !strings.Contains(said["candidate_diff"].(string), "+two")) {
			t.Errorf("%s: asked %v", c.class, said)
		}
		d, _, err := p.driven(batch)
		if err != nil {
			t.Fatal(err)
		}
		if x := d.Votes[ids["two"]]; x == nil || x.Outcome != c.outcome || x.Class != c.kept {
			t.Errorf("%s: %+v", c.class, x)
		}
		if x := d.Votes[ids["one"]]; x == nil || x.Outcome != "pass" || x.Class != "novel" || len(x.Votes) != 0 {
			t.Errorf("the first: %+v", x)
		}
		if got := len(w.tasks(4)); got != 2*c.played {
			t.Errorf("%s: %d tasks", c.class, got)
		}
	}
}

// A vote decides only where most of those who were asked have answered: one liar alone
// neither votes a script out nor gets it paid.
func TestVotesOfMost(t *testing.T) {
	said := func(classes ...string) map[string]vote {
		out := map[string]vote{}
		for i, c := range classes {
			out[fmt.Sprint(i)] = vote{Class: c}
			if c == "" {
				out[fmt.Sprint(i)] = vote{Error: "it answers 503"}
			}
		}
		return out
	}
	for _, c := range []struct {
		votes          map[string]vote
		outcome, class string
	}{
		{said("duplicate", "", ""), "undecided", ""},
		{said("novel", "", ""), "undecided", ""},
		{said("novel", ""), "undecided", ""},
		{said("novel"), "pass", "novel"},
		{said("duplicate", "novel", ""), "pass", "near_duplicate"},
		{said("duplicate", "duplicate", ""), "fail", ""},
	} {
		x := ballot{Reference: "r", Votes: c.votes}
		if err := x.count(len(c.votes)); err != nil || x.Outcome != c.outcome || x.Class != c.class {
			t.Errorf("%v: %s %q %v", c.votes, x.Outcome, x.Class, err)
		}
	}
}
