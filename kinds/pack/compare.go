package pack

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// priced are options for comparing costs: a script has a price, and the outcome says
// that it answered. With a tape nobody is asked.
func priced(o kit.Options, tape string) kit.Options {
	o.ScriptPrice = true
	if tape == "" {
		return o
	}
	env := o.Getenv
	o.Getenv = func(name string) string {
		switch name {
		case "AGON_LLM_CASSETTE":
			return tape
		case "AGON_LLM_BASE_URL", "AGON_LLM_API_KEY":
			return "" // a tape that is played asks nobody
		}
		return env(name)
	}
	return o
}

// Compare plays packs on the same scenarios and says what each costs against the first.
func Compare(ctx context.Context, kits kit.List, c commands.CompareOptions) (*commands.Comparison, error) {
	return RunCompare(ctx, kits.Options(c.Common, c.Driver), c)
}

// measure is one episode as it is compared.
type measure struct{ usd, score, calls, output float64 }

// measures are what is compared of two packs, in the order of the answer.
var measures = []struct {
	name string
	of   func(measure) float64
}{
	{"usd_per_episode", func(m measure) float64 { return m.usd }},
	{"score", func(m measure) float64 { return m.score }},
	{"tool_calls", func(m measure) float64 { return m.calls }},
	{"output_tokens", func(m measure) float64 { return m.output }},
}

// RunCompare is Compare with options that are given.
func RunCompare(ctx context.Context, o kit.Options, c commands.CompareOptions) (*commands.Comparison, error) {
	o = priced(o, c.Cassette)
	b, err := newBench(ctx, o, c.Scenarios, c.User, c.Seed)
	if err != nil {
		return nil, err
	}
	defer b.close()
	out := &commands.Comparison{PerDay: c.PerDay, Scripted: c.Cassette == "" && b.o.Getenv("AGON_LLM_BASE_URL") == "", Differences: []commands.Difference{}, More: []commands.Further{}}
	paths := append([]string{c.A, c.B}, c.More...)
	total, done := len(paths)*c.Rounds*len(b.set.Scenarios), 0
	var first []measure
	for i, path := range paths {
		side, got, err := b.side(ctx, path, c, func() {
			done++
			b.o.Show(progress.State{Label: "playing", Total: total, Done: done})
		})
		if err != nil {
			return nil, err
		}
		switch i {
		case 0:
			out.A, first = *side, got
		case 1:
			out.B = *side
			for _, m := range measures {
				out.Differences = append(out.Differences, difference(m.name, m.of, first, got, c))
			}
			out.Saving, out.CI = saving(out.Differences[0])
		default:
			f := commands.Further{Side: *side}
			f.Saving, f.CI = saving(difference(measures[0].name, measures[0].of, first, got, c))
			out.More = append(out.More, f)
		}
	}
	return out, nil
}

// side plays one pack on every scenario, as often as there are rounds.
func (b *bench) side(ctx context.Context, path string, c commands.CompareOptions, played func()) (*commands.Side, []measure, error) {
	p, err := readPack(path)
	if err != nil {
		return nil, nil, err
	}
	side := &commands.Side{Pack: path, Hash: p.Hash, ByTask: map[string]float64{}, Models: []commands.Share{}}
	var got []measure
	calls, models := 0, map[string]*commands.Share{}
	for _, sc := range b.set.Scenarios {
		for range c.Rounds {
			e, err := b.play(ctx, sc, p, "", c.Timeout)
			if err != nil {
				return nil, nil, err
			}
			m := measure{score: e.Score, calls: float64(e.ToolCalls)}
			if e.Cost != nil {
				m.usd, m.output = e.Cost.USD, float64(e.Cost.Output)
				for _, x := range e.Cost.Models {
					if models[x.Model] == nil {
						models[x.Model] = &commands.Share{Model: x.Model}
					}
					models[x.Model].Share += float64(x.Count)
					models[x.Model].USD += float64(x.Micros) / 1e6
					calls += x.Count
				}
			}
			got = append(got, m)
			side.Episodes++
			if e.Qualified {
				side.Qualified++
			}
			side.PerUSD += m.usd
			side.Score += m.score
			side.Calls += m.calls
			side.ByTask[sc.Name] += m.usd / float64(c.Rounds)
			played()
		}
	}
	n := float64(side.Episodes)
	side.PerUSD, side.Score, side.Calls = side.PerUSD/n, side.Score/n, side.Calls/n
	side.MonthUSD = side.PerUSD * c.PerDay * 30
	for _, m := range models {
		m.Share, m.USD = m.Share/float64(calls), m.USD/n
		side.Models = append(side.Models, *m)
	}
	slices.SortFunc(side.Models, func(a, b commands.Share) int { return strings.Compare(a.Model, b.Model) })
	return side, got, nil
}

// difference compares one measure of two packs that played the same episodes in the
// same order, all rounds of a scenario after each other. The interval counts scenarios: the rounds of
// one scenario are alike, and on a tape they are equal, so counting rounds would narrow it without limit.
func difference(name string, of func(measure) float64, a, b []measure, c commands.CompareOptions) commands.Difference {
	d := commands.Difference{Measure: name}
	var diffs []float64
	for i := range a {
		x, y := of(a[i]), of(b[i])
		d.A, d.B = d.A+x/float64(len(a)), d.B+y/float64(len(a))
		diffs = append(diffs, y-x)
	}
	var means []float64
	for rounds := range slices.Chunk(diffs, max(1, c.Rounds)) {
		means = append(means, score.Mean(rounds).Mean)
	}
	if len(means) > 1 || c.Cassette != "" {
		diffs = means // of one scenario that a model plays, rounds are all there is
	}
	band := score.Mean(diffs)
	d.Diff, d.Low, d.High = band.Mean, band.Low, band.High
	if math.IsInf(d.Low, 0) { // one pair says nothing about noise
		d.Low, d.High = -math.MaxFloat64, math.MaxFloat64
	}
	d.Beyond = d.Low > 0 || d.High < 0
	return d
}

// saving is the share of the first pack's cost that another saves, and its
// interval; nil where the first costs nothing, and where one pair says nothing about noise.
func saving(d commands.Difference) (*float64, *[2]float64) {
	if !(d.A > 0) {
		return nil, nil
	}
	s := -d.Diff / d.A
	if d.High == math.MaxFloat64 {
		return &s, nil
	}
	return &s, &[2]float64{min(1, -d.High/d.A), min(1, -d.Low/d.A)} // nothing saves more than all
}
