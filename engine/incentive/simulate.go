package incentive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
)

// Tries is how often a copier of the simulation enters.
const Tries = 5

// Simulation plays a rule against copies of the champion and against challengers
// that are truly better, with drawn outcomes.
//
// On a share of the tasks two plays of one agent differ like two throws of a
// coin, on the others never; Discordance is the chance that a pair of identical
// agents differs. A challenger that is better by Effect wins more of the coins.
type Simulation struct {
	Name    string
	Rule    Rule
	Numbers map[string]float64 // of the arena
	Tasks   int                // of its set; 50 where it is 0

	Copies      int     // copiers, each with Tries entries; and as many better challengers
	Effect      float64 // true gain, besides those of Gains
	Discordance float64
	Noise       float64 // standard deviation of what is added to every value
	Validators  int     // 0: as the rule's numbers say
	Liars       int     // of them: each says what helps the copy, or what harms the better one
	History     []HistoryPair
	PlayUSD     float64 // money that one side of a pair costs
	Seed        uint64
	// Progress is called with how many of the simulated entries are done; at times, from one goroutine at a time.
	Progress func(done, total int)
}

// Gains are the true gains whose power a simulation always tells.
var Gains = []float64{0.005, 0.05, 0.1}

// Simulated is what a simulation found.
type Simulated struct {
	Rule        string  `json:"rule"`
	Copies      int     `json:"copies"`
	Discordance float64 `json:"discordance"`
	Noise       float64 `json:"noise"`
	Effect      float64 `json:"effect"`
	Tasks       int     `json:"tasks"`
	Validators  int     `json:"validators"`
	Liars       int     `json:"liars"`
	// Copy1 and Copy5 are the shares of identical copies that took the seat in one
	// try and in five; Low and High bound them with 95 % from both sides, Upper5 with 95 % from above.
	Copy1  float64 `json:"copy_1"`
	Low1   float64 `json:"low_1"`
	High1  float64 `json:"high_1"`
	Copy5  float64 `json:"copy_5"`
	Low5   float64 `json:"low_5"`
	High5  float64 `json:"high_5"`
	Upper5 float64 `json:"upper_5"`
	// Power is the share of first attempts of a better challenger that took the seat, by true gain.
	Power map[string]float64 `json:"power"`
	// PairsMean and MoneyMean are what one entry of a copier took: pairs of all
	// validators together, and dollars.
	PairsMean float64 `json:"pairs_mean"`
	MoneyMean float64 `json:"money_mean"`
	// PairsBy is the same for better challengers, by true gain.
	PairsBy map[string]float64 `json:"pairs_by_gain"`
	// Emission is the share of the reward that a copier has after its tries, in the mean.
	Emission float64 `json:"emission"`
	Pairs    int64   `json:"pairs"` // simulated in all
	Seed     uint64  `json:"seed"`
}

func (s *Simulation) fill() error {
	if s.Tasks == 0 {
		s.Tasks = 50
	}
	share := func(name string, v float64) error {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("%s: want 0 to 1, got %v", name, v)
		}
		return nil
	}
	for _, err := range []error{share("effect", s.Effect), share("discordance", s.Discordance), share("noise", s.Noise)} {
		if err != nil {
			return err
		}
	}
	switch {
	case s.Copies < 1 || s.Copies > 1_000_000:
		return fmt.Errorf("copies: want 1 to 1000000, got %d", s.Copies)
	case s.Tasks < 1 || s.Tasks > 100_000:
		return fmt.Errorf("tasks: want 1 to 100000, got %d", s.Tasks)
	case s.Validators < 0 || s.Validators > 99:
		return fmt.Errorf("validators: want 0 to 99, got %d", s.Validators)
	case s.Discordance > 0.5 && s.Rule.Pairing == nil:
		return fmt.Errorf("discordance: two plays of one agent differ in half of the tasks at most, got %v", s.Discordance)
	case !(s.PlayUSD >= 0 && s.PlayUSD <= 1e6):
		return fmt.Errorf("play-usd: want 0 to 1e6, got %v", s.PlayUSD)
	}
	if s.PlayUSD == 0 {
		for _, p := range s.History {
			s.PlayUSD += p.USD / 2 / float64(len(s.History))
		}
	}
	if err := s.Rule.CheckNumbers(s.Numbers); err != nil {
		return err
	}
	s.Numbers = s.Rule.Of(s.Numbers)
	if s.Rule.Pairing != nil {
		if s.Validators > 0 {
			s.Numbers[NumValidators] = float64(s.Validators)
			s.Numbers[NumAgree] = float64(s.Validators/2 + 1)
		}
		s.Validators = int(s.Numbers[NumValidators])
	}
	s.Validators = max(s.Validators, 1)
	if s.Liars < 0 || s.Liars > s.Validators {
		return fmt.Errorf("liars: want 0 to %d, the validators, got %d", s.Validators, s.Liars)
	}
	return nil
}

// coin is one pair of a challenger that is better by gain: which side has more.
func (s *Simulation) coin(r *rand.Rand, gain float64) Pair {
	if len(s.History) > 0 {
		p := s.History[r.IntN(len(s.History))].Pair
		// Under the null the sides are alike: each pair is as likely mirrored. A
		// gain tips the balance of those that differ.
		up := 0.5
		if gain > 0 && s.spread() > 0 {
			up = min(1, (1+gain/s.spread())/2)
		}
		if (p.Challenger > p.Incumbent) != (r.Float64() < up) {
			p.Challenger, p.Incumbent = p.Incumbent, p.Challenger
		}
		return p
	}
	d := max(s.Discordance, gain)
	u, p := r.Float64(), Pair{}
	switch win := (d + gain) / 2; {
	case u < win:
		p.Challenger = 1
	case u < d:
		p.Incumbent = 1
	case r.IntN(2) == 0:
		p = Pair{1, 1}
	}
	if s.Noise > 0 {
		p.Challenger = clamp(p.Challenger + s.Noise*r.NormFloat64())
		p.Incumbent = clamp(p.Incumbent + s.Noise*r.NormFloat64())
	}
	return p
}

// spread is the mean difference of the history's pairs.
func (s *Simulation) spread() float64 {
	sum := 0.0
	for _, p := range s.History {
		sum += math.Abs(p.Challenger - p.Incumbent)
	}
	return sum / float64(len(s.History))
}

func clamp(v float64) float64 { return max(0, min(1, v)) }

// contest is one challenge by pairs; lie is what a liar says of a pair.
func (s *Simulation) contest(r *rand.Rand, attempt int, gain float64, lie func() Pair) (seated bool, pairs int) {
	cfg, err := AttemptConfig(s.Numbers, attempt)
	if err != nil {
		return false, 0
	}
	n := s.Numbers
	streams := make([]Contest, s.Validators)
	batch, agree := int(n[NumBatch]), int(n[NumAgree])
	open := make([]string, s.Validators)
	for v := range open {
		open[v] = OutcomeMore
	}
	more := cfg.Max
	for {
		for v := range streams {
			c := &streams[v]
			if open[v] != OutcomeMore {
				continue
			}
			for range max(1, min(batch, more)) {
				if v < s.Liars {
					c.take(lie(), cfg)
				} else {
					c.take(s.coin(r, gain), cfg)
				}
				pairs++
			}
			c.look(cfg)
		}
		open, more = standing(streams, cfg, agree)
		count := map[string]int{}
		for _, o := range open {
			count[o]++
		}
		if o := joint(count, s.Validators, agree); o != OutcomeMore {
			return o == OutcomeSeated, pairs
		}
		if n[NumMaxUSD] > 0 && float64(2*pairs)*s.PlayUSD >= n[NumMaxUSD] {
			return false, pairs
		}
	}
}

func always(p Pair) func() Pair { return func() Pair { return p } }

// entry draws the plays of one entry on the set, for rules by scores.
func (s *Simulation) entry(r *rand.Rand, id, miner string, gain float64, at time.Time, lie *float64) Entry {
	e := Entry{Submission: id, Miner: miner, Total: s.Tasks, At: at}
	share := min(1, 2*max(s.Discordance, gain)) // of the tasks that are coins
	fixed := func(u float64, t int) bool { return t%2 == 0 }
	if s.Discordance == 0 { // then a gain is the same in every play
		share, fixed = 0, func(u float64, _ int) bool { return s.Rule.Plays || u < 0.5+gain }
	}
	win := 0.5
	if share > 0 {
		win = min(1, 0.5+gain/share)
	}
	for t := range s.Tasks {
		u := (float64(t) + 0.5) / float64(s.Tasks) // which task is a coin is the same for all
		v := 0.0
		switch {
		case lie != nil && r.IntN(s.Validators) < s.Liars:
			v = *lie
		case len(s.History) > 0:
			p := s.History[r.IntN(len(s.History))].Pair
			if v = p.Challenger; r.IntN(2) == 0 {
				v = p.Incumbent
			}
			v = clamp(v + gain)
		case u < share:
			if r.Float64() < win {
				v = 1
			}
		case fixed(u, t):
			v = 1
		}
		cost := 1000.0 * (1 - gain)
		if s.Noise > 0 {
			v = clamp(v + s.Noise*r.NormFloat64())
			cost *= max(0.01, 1+s.Noise*r.NormFloat64())
		}
		if v >= 0.5 {
			e.Solved++
		}
		e.Score += v / float64(s.Tasks)
		if s.Rule.Plays {
			e.Plays = append(e.Plays, Play{
				Task: "t" + strconv.Itoa(t), Value: v, Solved: v >= 0.5, Metrics: map[string]float64{"cost_micros": cost, "weight": 1},
			})
		}
	}
	return e
}

// challenge plays up to tries entries of one miner against a champion under a
// rule by scores, and says at which of them the first seat was taken, or any
// where many are paid (0: none).
func (s *Simulation) challenge(r *rand.Rand, a agon.Arena, tries int, gain float64, lie *float64) (at int, emission float64) {
	now := time.Unix(1_700_000_000, 0).UTC()
	entered := []Entry{s.entry(r, "champion", "champion", 0, now, nil)}
	for try := 1; try <= tries && at == 0; try++ {
		now = now.Add(time.Hour)
		c := Challenge{Arena: a, Numbers: s.Numbers, Challenger: s.entry(r, "copy"+strconv.Itoa(try), "copier", gain, now, lie), At: now}
		c.Seats = s.Rule.Sit(s.Numbers, entered)
		if v := s.Rule.Decide(c); v.Takes {
			entered = append(entered, c.Challenger)
			if s.Rule.ManyPaid {
				at = try
			}
		}
		if seats := s.Rule.Sit(s.Numbers, entered); len(seats) > 0 && seats[0].Miner == "copier" {
			at = try
		}
	}
	seats := s.Rule.Sit(s.Numbers, entered)
	shares, _, err := s.Rule.Split(s.Numbers, seats, now)
	if err == nil {
		for i, e := range seats {
			if e.Miner == "copier" {
				emission += shares[i]
			}
		}
	}
	return at, emission
}

// arena is the arena that rules by scores see.
func (s *Simulation) arena() agon.Arena {
	a := agon.Arena{ID: "simulated", Incentive: s.Name, IncentiveNumbers: s.Numbers}
	for t := range s.Tasks {
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: "t" + strconv.Itoa(t), Hidden: s.Rule.Seats != nil})
	}
	return a
}

// first is the i-th first attempt with a true gain.
func (s *Simulation) first(i int, a agon.Arena, gain float64) bool {
	r := rand.New(rand.NewPCG(s.Seed, uint64(i))) //nolint:gosec // reproducible by its seed
	if s.Rule.Pairing != nil {
		won, _ := s.contest(r, 1, gain, always(Pair{Incumbent: 1}))
		return won
	}
	at, _ := s.challenge(r, a, 1, gain, nil)
	return at == 1
}

// Run simulates. The same simulation gives the same numbers on every machine.
func (s Simulation) Run(ctx context.Context) (Simulated, error) {
	if err := s.fill(); err != nil {
		return Simulated{}, err
	}
	gains := slices.Clone(Gains)
	if s.Effect > 0 && !slices.Contains(gains, s.Effect) {
		gains = append(gains, s.Effect)
	}
	a := s.arena()
	out := Simulated{
		Rule: s.Name, Copies: s.Copies, Discordance: s.Discordance, Noise: s.Noise, Effect: s.Effect, Tasks: s.Tasks,
		Validators: s.Validators, Liars: s.Liars, Power: map[string]float64{}, PairsBy: map[string]float64{}, Seed: s.Seed,
	}
	type result struct {
		first, any int
		entries    int64
		pairs      int64
		emission   float64
	}
	total := s.Copies * (1 + len(gains))
	var done atomic.Int64
	var told sync.Mutex
	// each runs one trial of s.Copies for every copier, on all cores. A trial's
	// numbers follow from its own seed, so that their order does not matter.
	each := func(domain uint64, trial func(r *rand.Rand) result) (sum result, err error) {
		results := make([]result, s.Copies)
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), s.Copies) {
			wg.Go(func() {
				for {
					i := int(next.Add(1)) - 1
					if i >= s.Copies || ctx.Err() != nil {
						return
					}
					results[i] = trial(rand.New(rand.NewPCG(s.Seed^domain<<32, uint64(i)))) //nolint:gosec // reproducible by its seed
					if n := int(done.Add(1)); s.Progress != nil && (n%64 == 0 || n == total) {
						told.Lock()
						s.Progress(n, total)
						told.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for _, x := range results {
			sum.first += x.first
			sum.any += x.any
			sum.entries += x.entries
			sum.pairs += x.pairs
			sum.emission += x.emission
		}
		return sum, ctx.Err()
	}
	most, least := 1.0, 0.0
	copies, err := each(1, func(r *rand.Rand) (x result) {
		if s.Rule.Pairing == nil {
			lie := &most
			if s.Liars == 0 {
				lie = nil
			}
			at, emission := s.challenge(r, a, Tries, 0, lie)
			x.entries, x.emission = Tries, emission
			if at > 0 {
				x.any, x.entries = 1, int64(at)
			}
			if at == 1 {
				x.first = 1
			}
			x.pairs = x.entries * int64(s.Tasks)
			return x
		}
		for try := 1; try <= Tries; try++ {
			seated, pairs := s.contest(r, try, 0, always(Pair{Challenger: 1}))
			x.entries++
			x.pairs += int64(pairs)
			if seated {
				x.any, x.emission = 1, 1
				if try == 1 {
					x.first = 1
				}
				break
			}
		}
		return x
	})
	if err != nil {
		return out, err
	}
	n := s.Copies
	out.Copy1, out.Copy5 = float64(copies.first)/float64(n), float64(copies.any)/float64(n)
	out.Low1, out.High1 = Limits(copies.first, n, 0.025)
	out.Low5, out.High5 = Limits(copies.any, n, 0.025)
	_, out.Upper5 = Limits(copies.any, n, 0.05)
	out.PairsMean = float64(copies.pairs) / float64(copies.entries)
	sides := 2.0
	if s.Rule.Pairing == nil {
		sides = 1 // the champion's old score stands
	}
	out.MoneyMean = sides * out.PairsMean * s.PlayUSD
	out.Emission = copies.emission / float64(n)
	out.Pairs = copies.pairs
	for i, g := range gains {
		better, err := each(uint64(2+i), func(r *rand.Rand) (x result) {
			won := false
			if s.Rule.Pairing == nil {
				lie := &least
				if s.Liars == 0 {
					lie = nil
				}
				at, _ := s.challenge(r, a, 1, g, lie)
				won, x.pairs = at == 1, int64(s.Tasks)
			} else {
				var pairs int
				won, pairs = s.contest(r, 1, g, always(Pair{Incumbent: 1}))
				x.pairs = int64(pairs)
			}
			if won {
				x.first = 1
			}
			return x
		})
		if err != nil {
			return out, err
		}
		key := strconv.FormatFloat(g, 'f', -1, 64)
		out.Power[key] = float64(better.first) / float64(n)
		out.PairsBy[key] = float64(better.pairs) / float64(n)
		out.Pairs += better.pairs
	}
	return out, nil
}

// Limits are the exact (Clopper-Pearson) limits of a share, k of n; each is
// passed with the chance tail at most.
func Limits(k, n int, tail float64) (low, high float64) {
	// below is the chance of at most k successes at p.
	below := func(k int, p float64) float64 {
		if k < 0 {
			return 0
		}
		if k >= n || p <= 0 {
			return 1
		}
		if p >= 1 {
			return 0
		}
		sum, ln := 0.0, float64(n)*math.Log1p(-p)
		odds := math.Log(p) - math.Log1p(-p)
		for i := 0; i <= k; i++ {
			sum += math.Exp(ln)
			ln += math.Log(float64(n-i)) - math.Log(float64(i+1)) + odds
		}
		return min(1, sum)
	}
	find := func(left func(p float64) bool) float64 {
		a, b := 0.0, 1.0
		for range 50 {
			if m := (a + b) / 2; left(m) {
				b = m
			} else {
				a = m
			}
		}
		return (a + b) / 2
	}
	if k > 0 {
		low = find(func(p float64) bool { return 1-below(k-1, p) >= tail })
	}
	high = 1
	if k < n {
		high = find(func(p float64) bool { return below(k, p) <= tail })
	}
	return low, high
}

// HistoryPair is one pair that was played.
type HistoryPair struct {
	Pair
	USD float64
}

// maxHistory bounds a history, in lines and in bytes of one.
const (
	maxHistory     = 1_000_000
	maxHistoryLine = 64 << 10
)

// ReadHistory reads pairs that were played, a JSON object a line: {"pair": 1,
// "challenger": 0.5, "incumbent": 1, "usd": 0.01}. Pairs are numbered from 1
// without gaps. The error names the first line that is wrong.
func ReadHistory(r io.Reader) ([]HistoryPair, error) {
	type row struct {
		Pair       *int     `json:"pair"`
		Task       string   `json:"task"`
		Seed       *int64   `json:"seed"`
		Challenger *float64 `json:"challenger"`
		Incumbent  *float64 `json:"incumbent"`
		USD        float64  `json:"usd"`
	}
	var out []HistoryPair
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 4096), maxHistoryLine)
	line := 0
	for sc.Scan() {
		line++
		bad := func(format string, args ...any) ([]HistoryPair, error) {
			return nil, fmt.Errorf("line %d: "+format, append([]any{line}, args...)...)
		}
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		var x row
		d := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&x); err != nil {
			return bad("%v", err)
		}
		switch want := len(out) + 1; {
		case x.Pair == nil || x.Challenger == nil || x.Incumbent == nil:
			return bad("want the fields pair, challenger and incumbent")
		case *x.Pair >= 1 && *x.Pair < want:
			return bad("pair %d has two results", *x.Pair)
		case *x.Pair != want:
			return bad("pair %d: a gap, pair %d is missing", *x.Pair, want)
		case want > maxHistory:
			return bad("more than %d pairs", maxHistory)
		case !(x.USD >= 0 && x.USD <= 1e6):
			return bad("usd: want 0 to 1e6, got %v", x.USD)
		}
		for name, v := range map[string]float64{"challenger": *x.Challenger, "incumbent": *x.Incumbent} {
			if !(v >= 0 && v <= 1) {
				return bad("%s: want a score of 0 to 1, got %v", name, v)
			}
		}
		out = append(out, HistoryPair{Pair{*x.Challenger, *x.Incumbent}, x.USD})
	}
	switch err := sc.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: longer than %d bytes", line+1, maxHistoryLine)
	case err != nil:
		return nil, fmt.Errorf("read history: %w", err)
	case len(out) == 0:
		return nil, errors.New("line 1: the history has no pair")
	}
	return out, nil
}
