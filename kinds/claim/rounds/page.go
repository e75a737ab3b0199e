package rounds

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/kinds/claim/supply"
)

// Shown is what the page of an arena says of its rounds.
type Shown struct {
	Next   time.Time // when the next begins; zero: nobody can date it
	Rounds []Round   // those that have begun, the newest first
}

// Round is one of them.
type Round struct {
	Period int64
	supply.Report
}

// WrongPercent is how much of it the script got wrong that sat when it was drawn.
func (r Round) WrongPercent() int { return int(100*r.Wrong + .5) }

// Open are the supplies of a process, by arena.
type Open struct {
	mu   sync.Mutex
	list map[string]*Supply // guarded by mu
}

// Add adds one.
func (o *Open) Add(x *Supply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.list == nil {
		o.list = map[string]*Supply{}
	}
	o.list[x.Arena] = x
}

// Shown is what is shown of an arena's rounds; nil: it has none.
func (o *Open) Shown(ctx context.Context, arena string) *Shown {
	o.mu.Lock()
	x := o.list[arena]
	o.mu.Unlock()
	if x == nil {
		return nil
	}
	a, err := x.Server.Platform.Arena(ctx, arena)
	if err != nil || a.Seeds == nil || a.Seeds.Period == nil {
		return nil
	}
	out := &Shown{}
	if now := a.Seeds.Period; now.ClosesBlock == 0 {
		out.Next = now.Closes
	}
	for _, r := range x.reports() {
		if r.Period <= a.Seeds.Period.Period {
			out.Rounds = append(out.Rounds, r)
		}
	}
	slices.Reverse(out.Rounds)
	out.Rounds = out.Rounds[:min(len(out.Rounds), 20)]
	return out
}

// reports are those of all rounds that are drawn, oldest first. Each is read once.
func (x *Supply) reports() []Round {
	list, err := os.ReadDir(x.root())
	if err != nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []Round
	for _, e := range list {
		name, _, _ := strings.Cut(e.Name(), "-")
		n, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			continue
		}
		r, ok := x.read[e.Name()]
		if !ok {
			b, err := os.ReadFile(filepath.Join(x.root(), e.Name(), "set", "report.json"))
			r.Period = n
			if err != nil || json.Unmarshal(b, &r.Report) != nil {
				continue // it is being drawn
			}
			x.read[e.Name()] = r
		}
		out = append(out, r)
	}
	return out
}
