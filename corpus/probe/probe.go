// Package probe asks whether a model has seen tasks that it must not know: canaries
// of tasks in what it says, and whether held tasks are more familiar to it than
// public ones of the same maker, as log-probabilities or, where a door tells none,
// as what it goes on to say (docs/training.md).
package probe

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
)

// Config says what to ask whom. Zero values mean the default named.
type Config struct {
	Door *Door
	// Reference is a model that has seen neither held nor public tasks, such as the
	// base: what a text is worth to it is taken off. Optional.
	Reference    *Door
	Held, Public []Text
	Canaries     []string // marks besides those in the held tasks' files
	Samples      int      // continuations of each beginning; 4
	Texts        int      // that are asked of each side; 256
	Alpha        float64  // from what p on the model is caught; 0.01
	Seed         int64
	// BySamples leaves log-probabilities out though the door may tell them.
	BySamples bool
	// Progress is called with how many texts of how many were asked. Optional.
	Progress func(done, of int)
}

// Report is what was found. P is null where nothing could be tested.
type Report struct {
	Method string `json:"method"` // logprobs or samples
	Held   int    `json:"held"`   // texts that were asked
	Public int    `json:"public"`
	// MeanHeld and MeanPublic are of the mean log-probability of a token (less the
	// reference's), or of the share of a text's second half that was said in a row.
	MeanHeld   float64  `json:"mean_held"`
	MeanPublic float64  `json:"mean_public"`
	P          *float64 `json:"p"` // one-sided: that chance makes held texts so much more familiar
	Alpha      float64  `json:"alpha"`
	// Ranks are of canaries among made ones of the same form; RankP that chance puts them so far up.
	Ranked   int      `json:"canaries_ranked"`
	RankP    *float64 `json:"canary_p"`
	Canaries int      `json:"canaries"`
	Found    []Found  `json:"found"`
	Copied   []string `json:"copied"` // by samples: held tasks whose second half was said word by word
	Samples  int      `json:"samples"`
	Caught   bool     `json:"caught"`
	Why      []string `json:"why"` // what caught it; else what could not be tested
}

// Found is a canary in what the model said.
type Found struct {
	Task   string `json:"task"` // empty: of the list that was given
	Canary string `json:"canary"`
	After  string `json:"after"` // the end of what it was asked with; empty: unasked
}

const (
	draws    = 99_999 // of the permutation test: p is at least 1e-5
	least    = 8      // texts of a side that a test needs
	rivals   = 99     // made canaries that a true one is ranked among
	maxRank  = 16     // canaries that are ranked
	maxFound = 100
	copied   = 8 // words in a row that chance does not give
)

type run struct {
	cfg  Config
	rng  *rand.Rand
	out  *Report
	done int
	of   int
}

// Audit asks the model. Catching a model is not an error.
func Audit(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Samples == 0 {
		cfg.Samples = 4
	}
	if cfg.Texts == 0 {
		cfg.Texts = 256
	}
	if cfg.Alpha == 0 {
		cfg.Alpha = .01
	}
	if !(cfg.Alpha > 0 && cfg.Alpha < 1) || cfg.Samples < 0 || cfg.Samples > 1024 || cfg.Texts < 0 {
		return nil, &agon.Error{Code: "bad_field", Status: 422, Field: "alpha", Message: "alpha is between 0 and 1, samples 1 to 1,024"}
	}
	r := &run{cfg: cfg, rng: rand.New(rand.NewPCG(uint64(cfg.Seed), 0x61676f6e)), out: &Report{Method: "logprobs", Alpha: cfg.Alpha, Found: []Found{}, Copied: []string{}, Why: []string{}}} //nolint:gosec // a draw that can be made again
	held, public := r.some(cfg.Held), r.some(cfg.Public)
	if len(held) == 0 {
		return nil, &agon.Error{Code: "bad_field", Status: 422, Field: "held", Message: fmt.Sprintf("there is no held task with a text of %d words", minWords)}
	}
	for _, h := range held { // a task on both sides would hide itself
		if slices.ContainsFunc(public, func(p Text) bool { return p.Text == h.Text }) {
			return nil, &agon.Error{Code: "bad_field", Status: 422, Field: "public", Message: fmt.Sprintf("the held task %.80s stands among the public ones, too", h.Task)}
		}
	}
	r.out.Held, r.out.Public = len(held), len(public)
	r.of = len(held) + len(public)
	told := false
	if !cfg.BySamples {
		var err error
		if told, err = r.logprobs(ctx, held, public); err != nil {
			return nil, err
		}
	}
	if err := r.samples(ctx, held, public, told); err != nil {
		return nil, err
	}
	r.judge()
	return r.out, nil
}

// some are at most Texts of a list, drawn by the seed.
func (r *run) some(list []Text) []Text {
	list = slices.DeleteFunc(slices.Clone(list), func(t Text) bool { return len(strings.Fields(t.Text)) < minWords })
	slices.SortFunc(list, func(a, b Text) int { return strings.Compare(a.Task, b.Task) })
	r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(len(list), r.cfg.Texts)]
}

func (r *run) step() {
	if r.done++; r.cfg.Progress != nil {
		r.cfg.Progress(min(r.done, r.of), r.of)
	}
}

// halves parts a text in the middle of its words.
func halves(text string) (first string, second []string) {
	words := strings.Fields(text)
	n := len(words) / 2
	return strings.Join(words[:n], " "), words[n:]
}

// run of words that two texts share, the longest.
func longest(said, want []string) int {
	best := 0
	last := make([]int, len(want)+1)
	for _, w := range said {
		now := make([]int, len(want)+1)
		for j, x := range want {
			if w == x {
				now[j+1] = last[j] + 1
				best = max(best, now[j+1])
			}
		}
		last = now
	}
	return best
}

// samples has the model go on from what stands before canaries, and from nothing; where
// log-probabilities are not told, also from the beginnings of texts.
func (r *run) samples(ctx context.Context, held, public []Text, told bool) error {
	marks := map[string]string{} // canary -> task
	for _, t := range r.cfg.Held {
		for _, c := range t.Canaries {
			marks[c.Mark] = t.Task
		}
	}
	for _, c := range r.cfg.Canaries {
		marks[strings.ToLower(c)] = ""
	}
	r.out.Canaries = len(marks)
	seen := map[string]bool{}
	ask := func(prompt string, n, tokens int, temperature float64) ([]string, error) {
		got, err := r.cfg.Door.Continue(ctx, prompt, n, tokens, temperature, r.rng.Int64N(1<<31))
		if err != nil {
			return nil, err
		}
		r.out.Samples += len(got)
		told := strings.ToLower(prompt)
		for _, s := range got {
			low := strings.ToLower(s)
			for m, task := range marks {
				if !seen[m] && len(r.out.Found) < maxFound && strings.Contains(low, m) && !strings.Contains(told, m) {
					seen[m] = true
					r.out.Found = append(r.out.Found, Found{Task: task, Canary: m, After: prompt[max(0, len(prompt)-80):]})
				}
			}
		}
		return got, nil
	}
	if _, err := ask(" ", r.cfg.Samples*4, 64, 1); err != nil {
		return err
	}
	asked := 0
	for _, t := range r.cfg.Held {
		for _, c := range t.Canaries {
			if asked++; asked > r.cfg.Texts {
				break
			}
			if _, err := ask(c.Before, 1, 48, 0); err != nil {
				return err
			}
		}
	}
	if told {
		return nil
	}
	r.done = 0
	score := func(list []Text, note bool) ([]float64, error) {
		var out []float64
		for _, t := range list {
			first, second := halves(t.Text)
			n := 2*len(second) + 16
			got, err := ask(first, 1, n, 0)
			if err != nil {
				return nil, err
			}
			if r.cfg.Samples > 1 {
				more, err := ask(first, r.cfg.Samples-1, n, .7)
				if err != nil {
					return nil, err
				}
				got = append(got, more...)
			}
			best := 0
			for _, s := range got {
				words := strings.Fields(s)
				best = max(best, longest(words[:min(len(words), 4*len(second)+64)], second))
			}
			if note && best >= copied && best == len(second) {
				r.out.Copied = append(r.out.Copied, t.Task)
			}
			out = append(out, float64(best)/float64(len(second)))
			r.step()
		}
		return out, nil
	}
	h, err := score(held, true)
	if err != nil {
		return err
	}
	p, err := score(public, false)
	if err != nil {
		return err
	}
	r.compare("samples", h, p)
	return nil
}

// compare tests whether the scores of held texts are above those of public ones.
func (r *run) compare(method string, held, public []float64) {
	r.out.Method, r.out.MeanHeld, r.out.MeanPublic, r.out.P = method, mean(held), mean(public), nil
	if len(held) >= least && len(public) >= least {
		p := r.permuted(held, public)
		r.out.P = &p
	}
}

func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

// permuted is the share of draws of as many scores out of both sides whose mean is at
// least that of the held ones (one-sided permutation test), the sides' own among them.
func (r *run) permuted(held, public []float64) float64 {
	all := append(slices.Clone(held), public...)
	want := 0.0
	for _, v := range held {
		want += v
	}
	want -= 1e-12 * float64(len(all)) * (1 + math.Abs(want))
	n := 0
	for range draws {
		s := 0.0
		for i := range held { // the first of a shuffle
			j := i + r.rng.IntN(len(all)-i)
			all[i], all[j] = all[j], all[i]
			s += all[i]
		}
		if s >= want {
			n++
		}
	}
	return float64(n+1) / float64(draws+1)
}

// logprobs compares how likely texts are to the model, where its door tells.
func (r *run) logprobs(ctx context.Context, held, public []Text) (told bool, err error) {
	score := func(list []Text) ([]float64, bool, error) {
		var out []float64
		for _, t := range list {
			x, _, ok, err := r.cfg.Door.Logprob(ctx, t.Text)
			if err != nil || !ok {
				return nil, false, err
			}
			if r.cfg.Reference != nil {
				y, _, ok, err := r.cfg.Reference.Logprob(ctx, t.Text)
				if err != nil || !ok {
					return nil, false, err
				}
				x -= y
			}
			out = append(out, x)
			r.step()
		}
		return out, true, nil
	}
	h, ok, err := score(held)
	if err != nil || !ok {
		return false, err
	}
	p, ok, err := score(public)
	if err != nil || !ok {
		return false, err
	}
	r.compare("logprobs", h, p)
	return true, r.rank(ctx)
}

// rank puts canaries among made ones of the same form (exposure: Carlini et al. 2019).
// A model that never saw them has each place with the same chance, whatever else it was
// trained on.
func (r *run) rank(ctx context.Context) error {
	sum := 0.0
	for _, t := range r.cfg.Held {
		for _, c := range t.Canaries {
			if r.out.Ranked == maxRank {
				break
			}
			own, _, ok, err := r.cfg.Door.Logprob(ctx, c.Before+c.Mark)
			if err != nil || !ok {
				return err
			}
			above := 0
			for range rivals {
				x, _, ok, err := r.cfg.Door.Logprob(ctx, c.Before+r.rival(c.Mark))
				if err != nil || !ok {
					return err
				}
				if x >= own {
					above++
				}
			}
			sum += -2 * math.Log(float64(above+1)/float64(rivals+1))
			r.out.Ranked++
		}
	}
	if r.out.Ranked > 0 {
		p := chi2(sum, r.out.Ranked)
		r.out.RankP = &p
	}
	return nil
}

// rival is a mark of the same form: its hexadecimal digits are drawn anew.
func (r *run) rival(mark string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' {
			return c
		}
		return rune("0123456789abcdef"[r.rng.IntN(16)])
	}, mark)
}

// chi2 is the chance of a chi-square of 2k degrees of freedom to be at least x (Fisher's sum of k p-values).
func chi2(x float64, k int) float64 {
	term, sum := 1.0, 1.0
	for i := 1; i < k; i++ {
		term *= x / 2 / float64(i)
		sum += term
	}
	return min(1, math.Exp(-x/2)*sum)
}

// judge says whether the model is caught, and by what.
func (r *run) judge() {
	o := r.out
	slices.SortFunc(o.Found, func(a, b Found) int { return strings.Compare(a.Canary, b.Canary) })
	if len(o.Found) > 0 {
		o.Why = append(o.Why, fmt.Sprintf("it says %d canaries", len(o.Found)))
	}
	// Both tests may find something by chance: each has half of alpha.
	if o.P != nil && *o.P <= o.Alpha/2 {
		o.Why = append(o.Why, fmt.Sprintf("held tasks are more familiar than public ones: p = %.2g by %s", *o.P, o.Method))
	}
	if o.RankP != nil && *o.RankP <= o.Alpha/2 {
		o.Why = append(o.Why, fmt.Sprintf("canaries are more likely than made ones: p = %.2g", *o.RankP))
	}
	if o.Caught = len(o.Why) > 0; o.Caught {
		return
	}
	if o.P == nil {
		o.Why = append(o.Why, fmt.Sprintf("not tested: whether held tasks are more familiar than public ones, for want of %d of each", least))
	}
	if o.Canaries == 0 {
		o.Why = append(o.Why, "not tested: canaries, since no held task has one")
	}
}
