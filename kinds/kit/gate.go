package kit

import (
	"path/filepath"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
)

// JudgeFile is [judge] of an arena file. What is left out is the default.
type JudgeFile struct {
	Kappa        *float64 `toml:"kappa"`
	FalseAccepts *float64 `toml:"false_accepts"`
	Demo         bool     `toml:"demo"`
}

// gateOf is the gate of an arena's judges; nil: they do not err, and lack nothing.
func gateOf(k Kit, f ArenaFile, no func(field, format string, args ...any)) *agon.Gate {
	x := k.New(Parts{})
	_, errs := x.(kind.Gauged)
	_, lacks := x.(kind.Propped)
	if !errs && !lacks {
		if f.Judge != nil {
			no("judge", "the judge of the kind %s does not err: leave it out", k.Kind)
		}
		return nil
	}
	g := &agon.Gate{}
	if errs {
		g.Kappa, g.FalseAccepts = agon.DefaultGateKappa, agon.DefaultGateFalseAccepts
	}
	if x := f.Judge; x != nil {
		if !errs && (x.Kappa != nil || x.FalseAccepts != nil) {
			no("judge", "judges of the kind %s are not measured: only demo can stand here", k.Kind)
		}
		if x.Kappa != nil {
			g.Kappa = *x.Kappa
		}
		if x.FalseAccepts != nil {
			g.FalseAccepts = *x.FalseAccepts
		}
		g.Demo = x.Demo
	}
	if errs && !(g.Kappa > 0 && g.Kappa < 1) {
		no("judge.kappa", "%v: want more than 0 and less than 1", g.Kappa)
	}
	if errs && !(g.FalseAccepts >= 0 && g.FalseAccepts < 1) {
		no("judge.false_accepts", "%v: want 0 to less than 1", g.FalseAccepts)
	}
	return g
}

// Gate is the gate of the arena's judges; nil where they do not err, and lack nothing.
// The file was checked.
func (f ArenaFile) Gate() *agon.Gate { return f.gate }

// Gauges are the calibrations of judges that are kept in the data directory.
func Gauges(data string) *judge.Book { return judge.OpenBook(filepath.Join(data, "judges")) }

// Complete fills in what the kind of f says where f leaves it open. A mistake in f stays.
func (f ArenaFile) Complete(kits List) ArenaFile {
	f, _ = f.mistakes(kits)
	return f
}
