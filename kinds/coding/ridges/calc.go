package ridges

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
)

type pairIn struct {
	Score      float64  `json:"score"`
	Cost       *float64 `json:"cost"`
	Leader     *float64 `json:"leader_score"`
	LeaderCost *float64 `json:"leader_cost"`
}

type improvementOut struct {
	Qualified bool     `json:"qualified"`
	Score     *float64 `json:"performance_delta"`
	Cost      *float64 `json:"cost_delta"`
	Units     float64  `json:"units"`
}

type rewardIn struct {
	Hotkey string  `json:"hotkey"`
	Reward float64 `json:"reward"`
}

// shares are the parts of rewards by hotkey; the owner has all where nobody has any.
func shares(list []rewardIn, owner string) (map[string]float64, error) {
	sum, out := 0.0, map[string]float64{}
	for _, r := range list {
		if !(r.Reward >= 0) || math.IsInf(r.Reward, 0) {
			return nil, fmt.Errorf("rewards: the reward of %.60q must be a number from 0, got %v", r.Hotkey, r.Reward)
		}
		sum += r.Reward
	}
	for _, r := range list {
		if r.Reward > 0 {
			out[r.Hotkey] += r.Reward / sum
		}
	}
	if len(out) == 0 {
		out[owner] = 1
	}
	return out, nil
}

type thresholdIn struct {
	Leader     *float64 `json:"leader"`
	Before     *float64 `json:"before"`
	Innovation float64  `json:"innovation"`
	Epochs     float64  `json:"epochs"`
	Score      *float64 `json:"score"`
	Top        *float64 `json:"top"`
	// Given instead of what they follow from.
	Floor *float64 `json:"floor"`
	Start *float64 `json:"t0"`
	K     *float64 `json:"k"`
}

type thresholdOut struct {
	Floor     float64  `json:"floor"`
	Start     float64  `json:"t0"`
	K         float64  `json:"k"`
	Threshold float64  `json:"threshold"`
	Decision  string   `json:"decision,omitempty"`
	Epochs    *float64 `json:"epochs"` // after which the bar has fallen to the score; null: never, or no score
}

// What the threshold of version A2 says of a score.
const (
	ApproveNow   = "now"
	ApproveLater = "future"
	Reject       = "reject"
)

// Decide says whether a score is approved after x epochs: now, later where it is
// above every other score, or not.
func (t Threshold) Decide(score float64, top *float64, x float64) string {
	switch {
	case score >= t.At(x):
		return ApproveNow
	case (top == nil || score > *top) && t.K > 0 && !math.IsInf(t.When(score), 1):
		return ApproveLater
	}
	return Reject
}

func calcThreshold(in thresholdIn) (thresholdOut, error) {
	t := ThresholdOf(in.Leader, in.Before, in.Innovation)
	for _, x := range []struct{ from, to *float64 }{{in.Floor, &t.Floor}, {in.Start, &t.Start}, {in.K, &t.K}} {
		if x.from != nil {
			*x.to = *x.from
		}
	}
	fixed := in.Leader == nil && in.Floor == nil // nobody is approved: it does not fall
	x := in.Epochs
	if fixed {
		x = 0
	}
	out := thresholdOut{Floor: t.Floor, Start: t.Start, K: t.K, Threshold: t.At(x)}
	if in.Score == nil {
		return out, nil
	}
	out.Decision = t.Decide(*in.Score, in.Top, x)
	if fixed && out.Decision == ApproveLater {
		out.Decision = Reject
	}
	if w := t.When(*in.Score); !math.IsInf(w, 0) && !fixed {
		out.Epochs = &w
	}
	return out, nil
}

type digestIn struct {
	Files []struct {
		Path string `json:"path"`
		Mode string `json:"mode"` // octal
		Text string `json:"text,omitempty"`
		Data string `json:"base64,omitempty"`
	} `json:"files"`
}

func calcDigest(in digestIn) (map[string]string, error) {
	var files []File
	for i, f := range in.Files {
		mode, err := strconv.ParseUint(f.Mode, 8, 12)
		if err != nil {
			return nil, fmt.Errorf("files[%d].mode: want octal permission bits, got %.20q", i, f.Mode)
		}
		data := []byte(f.Text)
		if f.Data != "" {
			if data, err = base64.StdEncoding.DecodeString(f.Data); err != nil || f.Text != "" {
				return nil, fmt.Errorf("files[%d].base64: want base64, and no text beside it", i)
			}
		}
		files = append(files, File{f.Path, uint32(mode), data})
	}
	return map[string]string{"digest": TaskDigest(files)}, nil
}

type ticketOut struct {
	Valid  bool    `json:"valid"`
	Reason string  `json:"reason,omitempty"`
	Text   string  `json:"signed_text,omitempty"`
	Ticket *Ticket `json:"ticket,omitempty"`
}

// Calc are the rules for agon calc.
func Calc() []calc.Rule {
	improve := func(in pairIn) Improvement { return Improve(in.Score, in.Cost, in.Leader, in.LeaderCost) }
	return []calc.Rule{
		calc.Func("ridges.improvement", "{score, cost?, leader_score?, leader_cost?} -> {qualified, performance_delta|null, cost_delta|null, units}", func(in pairIn) (improvementOut, error) {
			return improvementOut(improve(in)), nil
		}),
		calc.Func("ridges.prefilter", "{score, cost?, leader_score?, leader_cost?} -> {passes}: is it worth a review", func(in pairIn) (map[string]bool, error) {
			return map[string]bool{"passes": improve(in).Qualified}, nil
		}),
		calc.Func("ridges.time_multiplier", "{hours} -> {multiplier}: since the leader's approval", func(in struct {
			Hours float64 `json:"hours"`
		},
		) (map[string]float64, error) {
			return map[string]float64{"multiplier": TimeMultiplier(in.Hours)}, nil
		}),
		calc.Func("ridges.decay", "{reward, hours} -> {reward}: half of it each 336 hours", func(in struct {
			Reward float64 `json:"reward"`
			Hours  float64 `json:"hours"`
		},
		) (map[string]float64, error) {
			return map[string]float64{"reward": Decayed(in.Reward, in.Hours)}, nil
		}),
		calc.Func("ridges.weights", "{rewards: [{hotkey, reward}], owner} -> {weights: {hotkey: share}}: the owner has all where nobody has any", func(in struct {
			Rewards []rewardIn `json:"rewards"`
			Owner   string     `json:"owner"`
		},
		) (map[string]any, error) {
			w, err := shares(in.Rewards, in.Owner)
			return map[string]any{"weights": w}, err
		}),
		calc.Func("ridges.seed", "{problem} -> {seed}: of model calls", func(in struct {
			Problem string `json:"problem"`
		},
		) (map[string]int64, error) {
			return map[string]int64{"seed": Seed(in.Problem)}, nil
		}),
		calc.Func("ridges.agent_id", "{source} -> {agent_id}: source is \"<block hash>:<index>\" or \"credit:<id>:0\"", func(in struct {
			Source string `json:"source"`
		},
		) (map[string]string, error) {
			return map[string]string{"agent_id": AgentID(in.Source)}, nil
		}),
		calc.Func("ridges.task_digest", "{files: [{path, mode, text|base64}]} -> {digest}: mode in octal", calcDigest),
		calc.Func("ridges.alias", "{family?, problem, salt?, test?, category?} -> {alias, test_alias?}", func(in struct {
			Family   *string `json:"family"`
			Problem  string  `json:"problem"`
			Salt     string  `json:"salt,omitempty"`
			Test     string  `json:"test,omitempty"`
			Category string  `json:"category,omitempty"`
		},
		) (map[string]string, error) {
			family := ""
			if in.Family != nil {
				family = *in.Family
			}
			out := map[string]string{"alias": ProblemAlias(family, in.Problem, in.Salt)}
			if in.Test != "" {
				out["test_alias"] = TestAlias(family, in.Problem, in.Category, in.Test, in.Salt)
			}
			return out, nil
		}),
		incentive.TakeoverCalc("ridges.takeover15"),
		calc.Func("ridges.threshold_a2", "{leader?, before?, innovation, epochs, score?, top?, floor?, t0?, k?} -> {floor, t0, k, threshold, decision, epochs|null}", calcThreshold),
		calc.Func("ridges.retry", "{code, attempts, stopped, done} -> {retryable, attempt}: the next attempt's number, 0 for none", func(in struct {
			Code     int  `json:"code"`
			Attempts int  `json:"attempts"`
			Stopped  bool `json:"stopped,omitempty"`
			Done     bool `json:"done,omitempty"`
		},
		) (any, error) {
			return struct {
				Retryable bool `json:"retryable"`
				Attempt   int  `json:"attempt"`
			}{Retryable(in.Code), Grant(in.Code, in.Attempts, in.Stopped, in.Done)}, nil
		}),
		calc.Func("ridges.consensus", "{problems, solved: {validator: [problem]}} -> {validators, counted, score|null, comparable}", func(in struct {
			Problems int                 `json:"problems"`
			Solved   map[string][]string `json:"solved"`
		},
		) (any, error) {
			if in.Problems < 1 {
				return nil, errors.New("problems: want at least 1")
			}
			c := ConsensusOf(in.Problems, in.Solved)
			return struct {
				Validators int      `json:"validators"`
				Counted    int      `json:"counted"`
				Score      *float64 `json:"score"`
				Comparable bool     `json:"comparable"`
			}{c.Validators, c.Counted, c.Score, c.Comparable}, nil
		}),
		calc.Func("ridges.hidden", "{agents: [{score|null, benchmark?, out?}]} -> {cut|null, hidden: [bool]}: whose code is not shown", func(in struct {
			Agents []Coded `json:"agents"`
		},
		) (any, error) {
			cut, hidden := HiddenCode(in.Agents)
			return struct {
				Cut    *float64 `json:"cut"`
				Hidden []bool   `json:"hidden"`
			}{cut, hidden}, nil
		}),
		calc.Func("ridges.ticket", "{ticket} -> {valid, reason?, signed_text?, ticket?}: of an upload", func(in struct {
			Ticket string `json:"ticket"`
		},
		) (ticketOut, error) {
			t, err := ParseTicket(in.Ticket)
			if err != nil {
				return ticketOut{Reason: err.Error()}, nil
			}
			return ticketOut{Valid: true, Text: t.Text(), Ticket: t}, nil
		}),
	}
}

// hours between two times, as a number.
func hours(from, to time.Time) float64 { return to.Sub(from).Hours() }
