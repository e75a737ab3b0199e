package play

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

type silent struct{}

func (silent) Record(string, string, any) {}

// The model is asked through the session that the platform pays, which is
// opened once and only when it is needed.
func TestModelJudge(t *testing.T) {
	script, err := scripted.Parse([]byte(`{"version":1,"fallback":"not JSON","rule":[
		{"last":"fourteen metres","content":"{\"rationale\":\"same facts\",\"support_ok\":true}"},
		{"last":"guess","content":"{\"rationale\":\"no facts\",\"support_ok\":false}"}]}`), "json")
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
	j := ModelJudge{Sleep: func(context.Context, time.Duration) error { return nil }}
	if v := j.Version(); !strings.HasPrefix(v, "support+support.1-") || !strings.HasPrefix(New(Config{Judge: j}).Scorer(), "claim-1+"+v) {
		t.Errorf("version %q", v)
	}
	opens := 0
	open := func() (gateway.Session, error) {
		opens++
		p := j.Policy()
		p.Run, p.Attempt, p.Payer, p.Task = "r", opens, "platform", "t"
		return gw.Open(t.Context(), p, silent{})
	}
	in := SupportInput{Claim: "c", ReferenceOption: "Pass", ReferenceJustification: "It was dredged.", Option: "Pass"}
	for said, want := range map[string]bool{"It is fourteen metres deep.": true, "I guess so.": false} {
		in.Justification = said
		v, err := j.Support(t.Context(), open, in)
		if err != nil || v.OK != want || v.Rationale == "" {
			t.Errorf("%q: %+v %v", said, v, err)
		}
	}
	if opens != 2 {
		t.Errorf("%d sessions for 2 questions", opens)
	}
	in.Justification = "something else"
	if v, err := j.Support(t.Context(), open, in); err == nil {
		t.Errorf("a reply that is not a verdict became one: %+v", v)
	}
	broken := errors.New("no session")
	if _, err := j.Support(t.Context(), func() (gateway.Session, error) { return nil, broken }, in); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// Both orders are asked: a better answer wins both, a judge that prefers a
// position gives one, and a reply in no form is never a verdict.
func TestModelPairs(t *testing.T) {
	script, err := scripted.Parse([]byte(`{"version":1,"fallback":"not JSON","rule":[
		{"last":"biased","content":"{\"rationale\":\"first\",\"preferred_position\":\"first\"}"},
		{"last":"\"first\",\"answer_text\":\"right","content":"{\"rationale\":\"r\",\"chosen_answer\":\"first\"}"},
		{"last":"\"first\",\"answer_text\":\"wrong","content":"{\"rationale\":\"r\",\"preferred_position\":\"second\"}"},
		{"last":"neither","content":"{\"rationale\":\"r\",\"preferred_position\":\"both\"}"}]}`), "json")
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
	j := ModelPairs{ModelJudge{Sleep: func(context.Context, time.Duration) error { return nil }}}
	pol := j.Policy()
	pol.Run, pol.Attempt, pol.Task, pol.Payer = "r", 1, "t", "platform"
	for _, c := range []struct {
		query, answer, reference string
		wins                     int
		none                     bool
	}{
		{"q", "right", "wrong", 2, false},
		{"q", "wrong", "right", 0, false},
		{"biased", "right", "wrong", 1, false},
		{"neither", "x", "y", 0, true},
	} {
		open := func() (gateway.Session, error) { return gw.Open(t.Context(), pol, silent{}) }
		v, err := j.Compare(t.Context(), open, judge.PairCase{Query: c.query, Answer: judge.PairAnswer{Text: c.answer}, Reference: judge.PairAnswer{Text: c.reference}})
		if c.none != errors.Is(err, judge.ErrNoVerdict) || v.Wins != c.wins {
			t.Errorf("%s against %s: %+v %v", c.answer, c.reference, v, err)
		}
	}
}

// What a miner may have written himself is marked for the judge: by the tool that found it,
// whatever host its operator allows, and by its address, however that is written.
func TestOriginIsMarked(t *testing.T) {
	p := func(s string) *string { return &s }
	receipts := []Receipt{
		{ReceiptID: "r", SessionID: "s", Outcome: "ok", Tool: "get_repo_file", Results: []Result{{ResultID: "a", URL: p("https://git.example/me/mine/blob/1/a.md"), Note: p("planted")}}},
		{ReceiptID: "w", SessionID: "s", Outcome: "ok", Tool: "search_web", Results: []Result{{ResultID: "b", URL: p("https://port.example/report"), Note: p("found")}}},
	}
	got := HydrateSeed([]Citation{{ReceiptID: "r", ResultID: "a"}, {ReceiptID: "w", ResultID: "b"}}, "s", receipts)
	if len(got) != 2 || !strings.HasPrefix(citationLine(got[0]), "(from a code repository") || citationLine(got[1]) != "found" {
		t.Errorf("%+v", got)
	}
	for _, u := range []string{"https://github.com/x/y", "http://GitHub.com/x", "https://www.github.com/x", "https://x.github.io/page", "https://raw.githubusercontent.com/x/y/z", "https://GITLAB.com:443/x", "https://gist.github.com./x"} {
		if h := (Hydrated{URL: &u}); h.origin() == "" {
			t.Errorf("%s is not marked", u)
		}
	}
	for _, u := range []string{"https://notgithub.com/x", "https://example.com/github.com", ""} {
		if h := (Hydrated{URL: &u}); h.origin() != "" {
			t.Errorf("%s is marked", u)
		}
	}
}
