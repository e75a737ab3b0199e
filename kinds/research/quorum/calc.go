package quorum

import (
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
)

// Names of the rules of contests, as decisions name them.
const (
	AgreeRule = "research.agree"
	DuelRule  = "research.duel"
	TrustRule = "research.trust"

	BandRule   = "research.band"
	GateRule   = "research.gate"
	SuiteRule  = "research.suite"
	CreditRule = "research.credit"
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

type bandIn struct {
	Contest   agon.Contest `json:"contest"`
	Incumbent float64      `json:"incumbent"`
}

type bandOut struct {
	Band float64 `json:"band"`
	Bar  float64 `json:"bar"` // the value that a challenger must pass
}

type suiteIn struct {
	Tasks []SuiteTask `json:"tasks"`
}

type creditOut struct {
	Credit float64 `json:"credit"`
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
		calc.Func(DuelRule, "{contest, attempt, pairs [{challenger, incumbent, challenger2, incumbent2, by}]} -> {done, wins, evidence, need, ...}: does a challenger take the best",
			func(in duelIn) (Duel, error) {
				if err := CheckContest(in.Contest); err != nil {
					return Duel{}, err
				}
				return RunDuel(in.Contest, in.Attempt, in.Pairs), nil
			}),
		calc.Func(TrustRule, "{contest, canaries [{known, observed, verdict, want}]} -> {trust}: how far a validator is believed",
			func(in trustIn) (trustOut, error) { return trustOut{Trust(in.Contest, in.Canaries)}, nil }),
		calc.Func(BandRule, "{contest, incumbent} -> {band, bar}: the noise that a gain over an incumbent's value must pass, and the value that it comes to",
			func(in bandIn) (bandOut, error) {
				if err := CheckContest(in.Contest); err != nil {
					return bandOut{}, err
				}
				if !finite(in.Incumbent) {
					return bandOut{}, errors.New("incumbent: want a finite number")
				}
				out := bandOut{Band: BandAt(in.Contest, in.Incumbent)}
				if out.Bar = in.Incumbent - out.Band; in.Contest.Direction == agon.Maximize {
					out.Bar = in.Incumbent + out.Band
				}
				return out, nil
			}),
		calc.Func(GateRule, "{direction, bound, alpha, values []} -> {passes, mean, se, p, seeds}: has a metric reached its bound over several seeds", Gate.Pass),
		calc.Func(SuiteRule, "{tasks [{name, reference, value, correct}]} -> {score, speedups, failed, passes}: the harmonic mean of speed-ups, where all are correct",
			func(in suiteIn) (Suite, error) { return SumSuite(in.Tasks) }),
		calc.Func(CreditRule, "{direction, baseline, band, from, to} -> {credit}: what a gain is worth, in one step or in many",
			func(in CreditIn) (creditOut, error) {
				v, err := Credit(in)
				return creditOut{v}, err
			}),
	}
}
