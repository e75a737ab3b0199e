package kindtest

import (
	"context"
	"testing"
	"time"

	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
	"github.com/agon-arena/agon/validator"
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
}
