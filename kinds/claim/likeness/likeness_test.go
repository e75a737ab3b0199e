package likeness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/claim/query"
)

type silent struct{}

func (silent) Record(string, string, any) {}

// The class follows from the three statuses; a reply in another form gives none.
func TestCompare(t *testing.T) {
	script, err := scripted.Parse([]byte(`{"version":1,"fallback":"It looks new to me.","rule":[
		{"last":"renamed only","content":"{\"rationale\":\"the same\",\"primary_controller\":\"preserved\",\"evidence_state_and_flow\":\"preserved\",\"answer_production_path\":\"preserved\"}"},
		{"last":"another prompt","content":"{\"rationale\":\"one place\",\"primary_controller\":\"preserved\",\"evidence_state_and_flow\":\"localized_change\",\"answer_production_path\":\"preserved\"}"},
		{"last":"a new planner","content":"{\"rationale\":\"much\",\"primary_controller\":\"replaced\",\"evidence_state_and_flow\":\"preserved\",\"answer_production_path\":\"preserved\"}"},
		{"last":"all of it","content":"{\"rationale\":\"all\",\"primary_controller\":\"replaced\",\"evidence_state_and_flow\":\"replaced\",\"answer_production_path\":\"replaced\"}"},
		{"last":"says novel","content":"{\"rationale\":\"x\",\"classification\":\"novel\"}"}]}`), "json")
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
	s, err := gw.Open(t.Context(), gateway.Policy{
		Run: "r", Attempt: 1, Payer: "platform", Task: "t", Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI}, Budget: agon.Budget{Micros: 1_000_000, Calls: 100},
	}, silent{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := judge.New(judge.Config{Session: s, Model: scripted.Name, Sleep: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for diff, want := range map[string]string{
		"+ renamed only": query.Duplicate, "+ another prompt": query.NearDuplicate, "+ a new planner": query.NotableChange, "+ all of it": query.Novel, "+ says novel": "", "+ nothing of these": "",
	} {
		v, err := Compare(t.Context(), j, Case{Reference: "x = 1\n", Diff: diff})
		if v.Class != want || (err == nil) != (want != "") || want == "" && !errors.Is(err, judge.ErrNoVerdict) {
			t.Errorf("%s: %+v %v", diff, v, err)
		}
		if want != "" && (v.Model == "" || v.Rationale == "") {
			t.Errorf("%s: %+v", diff, v)
		}
	}
	if _, err := Compare(t.Context(), j, Case{Reference: strings.Repeat("x", 1<<20), Diff: "+"}); !errors.Is(err, judge.ErrInput) {
		t.Errorf("too long: %v", err)
	}
}

func TestPromptPinned(t *testing.T) {
	if got, want := Prompt().ID(), "likeness.1-a9bd3d52"; got != want {
		t.Errorf("the prompt is %s, was %s: give it a new version", got, want)
	}
}
