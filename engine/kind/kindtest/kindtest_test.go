package kindtest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

func TestFakeKind(t *testing.T) { Run(t, FakeCase()) }

func TestSolvedRunScores(t *testing.T) {
	c := FakeCase()
	p := &validator.Player{
		Driver: fake.New(fake.Config{Exec: c.Behave}), Gateway: noGateway{},
		Kinds: map[string]kind.Kind{"fake": c.Kind}, Trees: c.Trees, Now: time.Now,
	}
	a := p.Play(context.Background(), c.job())
	if a.Fault != "" || len(a.Scores) != 1 || !a.Scores[0].Solved {
		t.Fatalf("fault %q (%s), scores %+v", a.Fault, a.Reason, a.Scores)
	}
	Verdict(t, a, c.job())
	// The record tells the box: name, version and what was enforced; so does the first event.
	if a.Driver.Name == "" || a.Driver.Version == "" || len(a.Driver.Limits) == 0 || !bytes.Contains(a.Events()[0].Data, []byte(`"limits"`)) {
		t.Errorf("driver %+v, first event %s", a.Driver, a.Events()[0].Data)
	}
	// An arena demands a driver: another one never plays, and it is not the agent's fault.
	for demand, want := range map[string]agon.Fault{a.Driver.Name: "", "runsc": agon.FaultValidator} {
		j := c.job()
		j.Run.Policy.Driver = demand
		if a := p.Play(context.Background(), j); a.Fault != want || (want != "") != (len(a.Scores) == 0) {
			t.Errorf("%s demanded: fault %q (%s), %d scores", demand, a.Fault, a.Reason, len(a.Scores))
		}
	}
}
