package platform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
)

// coded is a kind that numbers failures: it says what it was asked.
type coded struct{ *fakeKind }

func (coded) FailureCode(f kind.Failure) (int, string) {
	return 3000 + 10*int(f.Stage), fmt.Sprint("lost ", f.Lost)
}

// TestLostRunsAreNumbered: the reason of a lost lease has the kind's number of the stage
// that it was lost at, and the run is handed out again.
func TestLostRunsAreNumbered(t *testing.T) {
	for state, want := range map[agon.RunState]string{"": " (3000, lost true)", agon.RunPlaying: " (3020, lost true)", agon.RunJudging: " (3040, lost true)"} {
		f := newFixture(t, 1, func(c *Config, _ *agon.Arena) {
			c.Kinds["fake"] = coded{c.Kinds["fake"].(*fakeKind)}
		})
		f.submit(miner1, "x")
		l := f.claim(val1)
		if state != "" {
			_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token, State: state})
			must(t, err)
		}
		f.clock.add(time.Hour)
		must(t, f.Sweep(bg))
		r := f.run(l.Run.Run)
		if r.State != agon.RunQueued || !strings.HasSuffix(r.List[0].Reason, want) || !strings.HasPrefix(r.List[0].Reason, "lease expired") {
			t.Errorf("%s: %s, %q", state, r.State, r.List[0].Reason)
		}
	}
}
