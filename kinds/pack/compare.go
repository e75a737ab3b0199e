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

func Compare(ctx context.Context, kits kit.List, c commands.CompareOptions) (*commands.Comparison, error) {
	o := kits.Options(c.Common, c.Driver)
	o = priced(o, c.Cassette)
	b, err := newBench(ctx, o, c.Scenarios, c.User, c.Seed)
	if err != nil {
		return nil, err
	}
	defer b.close()
	out := &commands.Comparison{PerDay: c.PerDay, Scripted: c.Cassette == "" && b.o.Getenv("AGON_LLM_BASE_URL") == "", Differences: []commands.Difference{}}
	type measure struct{ usd, score, calls, output float64 }
	var got [2][]measure
	total := 2 * c.Rounds * len(b.set.Scenarios)
	for i, side := range []*commands.Side{&out.A, &out.B} {
		path := []string{c.A, c.B}[i]
		p, err := readPack(path)
		if err != nil {
			return nil, err
		}
		side.Pack, side.Hash, side.ByTask, side.Models = path, p.Hash, map[string]float64{}, []commands.Share{}
		calls, models := 0, map[string]*commands.Share{}
		for _, sc := range b.set.Scenarios {
			for range c.Rounds {
				e, err := b.play(ctx, sc, p, "", c.Timeout)
				if err != nil {
					return nil, err
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
				got[i] = append(got[i], m)
				side.Episodes++
				if e.Qualified {
					side.Qualified++
				}
				side.PerUSD += m.usd
				side.Score += m.score
				side.Calls += m.calls
				side.ByTask[sc.Name] += m.usd / float64(c.Rounds)
				b.o.Show(progress.State{Label: "playing", Total: total, Done: len(got[0]) + len(got[1])})
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
	}
	for _, m := range []struct {
		name string
		of   func(measure) float64
	}{
		{"usd_per_episode", func(m measure) float64 { return m.usd }},
		{"score", func(m measure) float64 { return m.score }},
		{"tool_calls", func(m measure) float64 { return m.calls }},
		{"output_tokens", func(m measure) float64 { return m.output }},
	} {
		var diffs []float64
		d := commands.Difference{Measure: m.name}
		for i := range got[0] {
			x, y := m.of(got[0][i]), m.of(got[1][i])
			d.A, d.B = d.A+x/float64(len(got[0])), d.B+y/float64(len(got[0]))
			diffs = append(diffs, y-x)
		}
		band := score.Mean(diffs)
		d.Diff, d.Low, d.High = band.Mean, band.Low, band.High
		if math.IsInf(d.Low, 0) { // one pair says nothing about noise
			d.Low, d.High = -math.MaxFloat64, math.MaxFloat64
		}
		d.Beyond = d.Low > 0 || d.High < 0
		if m.name == "usd_per_episode" && d.A > 0 {
			s := -d.Diff / d.A
			out.Saving = &s
			if d.High < math.MaxFloat64 {
				out.CI = &[2]float64{-d.High / d.A, -d.Low / d.A}
			}
		}
		out.Differences = append(out.Differences, d)
	}
	return out, nil
}
