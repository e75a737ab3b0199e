package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/claim/likeness"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// likenessBudget is what one comparison may cost at most.
const likenessBudget agon.Micros = 1_000_000

// comparer compares scripts by the judge's models; nil without a real one. Votes decide
// about plays and pay, so only a judge that was measured and passed may vote.
func (s *seedPlayer) comparer(o kit.Options) func(context.Context, wire.Similarity) (wire.Likeness, error) {
	if kit.NoModel(o, "comparing scripts") != nil {
		return nil
	}
	return func(ctx context.Context, c wire.Similarity) (wire.Likeness, error) {
		// Asked each time: a calibration counts without a restart.
		if why, err := unmeasured(o); err != nil {
			return wire.Likeness{}, err
		} else if why != "" {
			return wire.Likeness{}, fmt.Errorf("%w: %s", wire.ErrNoJudge, why)
		}
		j, session, err := kit.JudgeSession(ctx, s.player.Own, "similarity-"+c.BatchID, c.Artifact, o.Models(kit.RoleJudge), 0, likenessBudget)
		if err != nil {
			return wire.Likeness{}, err
		}
		defer func() { _ = session.Close() }() // it is settled or not; the answer stands
		v, err := likeness.Compare(ctx, j, likeness.Case{Reference: c.Script, Diff: c.Diff})
		return wire.Likeness{Class: v.Class, Model: cmp.Or(v.Model, "default"), Provider: "gateway", Reasoning: v.Rationale}, err
	}
}

// unmeasured says why the judge's models may not vote, or "".
func unmeasured(o kit.Options) (string, error) {
	own := likeness.Scorer(o.Models(kit.RoleJudge))
	list, err := kit.Gauges(o.Data).Records()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, func(r judge.Record) bool { return r.Scorer == own })
	if i < 0 {
		return "its judge was never measured: " + judge.Measuring(likeness.Prompt().Name) + " does that", nil
	}
	if ok, why := list[i].Against(agon.Gate{Kappa: agon.DefaultGateKappa, FalseAccepts: agon.DefaultGateFalseAccepts}); !ok {
		return fmt.Sprintf("its judge (%s) did not pass: %s", strings.Join(o.Models(kit.RoleJudge), ", "), why), nil
	}
	return "", nil
}
