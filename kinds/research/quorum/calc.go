package quorum

import (
	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
)

// Names of the rules of contests, as decisions name them.
const (
	AgreeRule = "research.agree"
	DuelRule  = "research.duel"
	TrustRule = "research.trust"
)

type agreeIn struct {
	Contest agon.Contest `json:"contest"`
	Replays []Replay     `json:"replays"`
}

type duelIn struct {
	Contest agon.Contest `json:"contest"`
	Attempt int          `json:"attempt"`
	Pairs   []Pair       `json:"pairs"`
}

type trustIn struct {
	Contest  agon.Contest `json:"contest"`
	Canaries []Canary     `json:"canaries"`
}

type trustOut struct {
	Trust float64 `json:"trust"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func(AgreeRule, "{contest, replays [{run, verdict 0|1|2, value, trust}]} -> {decided, verdict, value, runs, spread, support, more}: which replays agree, and their median",
			func(in agreeIn) (Agreement, error) {
				if err := CheckContest(in.Contest); err != nil {
					return Agreement{}, err
				}
				return Agree(in.Contest, in.Replays, len(in.Replays)), nil
			}),
		calc.Func(DuelRule, "{contest, attempt, pairs [{challenger, incumbent, challenger2, incumbent2}]} -> {done, wins, evidence, need, ...}: does a challenger take the best",
			func(in duelIn) (Duel, error) {
				if err := CheckContest(in.Contest); err != nil {
					return Duel{}, err
				}
				return RunDuel(in.Contest, in.Attempt, in.Pairs), nil
			}),
		calc.Func(TrustRule, "{contest, canaries [{known, observed, verdict, want}]} -> {trust}: how far a validator is believed",
			func(in trustIn) (trustOut, error) { return trustOut{Trust(in.Contest, in.Canaries)}, nil }),
	}
}
