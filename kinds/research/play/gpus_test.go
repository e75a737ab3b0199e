package play

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox/gpu"
)

// cards is a world whose one card is read as a list says: clocks of each span, in order.
type cards struct {
	*world
	clocks [][]int64
	gaveUp bool
}

func (c *cards) Span(_ context.Context, _ bool, f func() error) (kind.GPUSpan, error) {
	list := []int64{1000, 1000}
	if len(c.clocks) > 0 {
		list, c.clocks = c.clocks[0], c.clocks[1:]
	}
	var s []gpu.Sample
	for _, mhz := range list {
		s = append(s, gpu.Sample{ClockMHz: mhz})
	}
	return kind.GPUSpan{Took: time.Second, Samples: [][]gpu.Sample{s}}, f()
}

func (c *cards) Void(spans ...kind.GPUSpan) string {
	var all []gpu.Sample
	for _, s := range spans {
		all = append(all, s.Samples[0]...)
	}
	return gpu.Unsteady(all)
}

func (c *cards) GiveUp() error { c.gaveUp = true; return errors.New("too many were void") }

// Who makes the card unsteady by its own program gains nothing: a challenger loses the
// pair, and for an incumbent the base stands in once it has done so too often. Where the card was
// unsteady before, or for both, neither loses and the pair is made again.
func TestPairsOnUnsteadyCards(t *testing.T) {
	calm, heated, before, slow := []int64{1000, 1000}, []int64{1000, 800}, []int64{800, 1000}, []int64{800, 800}
	for _, c := range []struct {
		name   string
		clocks [][]int64 // the challenger goes first in the first pair, the incumbent in the second
		want   string
		gaveUp bool
	}{
		{"steady", nil, "2.5:1.5 2.5:1.5", false},
		{"the challenger's run heats the card", [][]int64{heated, calm, calm, heated}, "1.5:1.5 1.5:1.5", false},
		{"it was hot before the challenger began", [][]int64{calm, calm, heated, before, heated, before}, "2.5:1.5 2.5:1.5", false},
		{"slow while one of them ran, as it began", [][]int64{slow, calm}, "2.5:1.5 2.5:1.5", false},
		{"the incumbent's run heats it once", [][]int64{calm, heated}, "2.5:1.5 2.5:1.5", false},
		{"the incumbent's runs heat it", [][]int64{calm, heated, calm, heated, calm, heated, calm, heated}, "2.5:1 2.5:1", false},
		{"it is never steady", [][]int64{heated, heated, heated, heated, heated, heated, heated, heated}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &cards{world: newWorld(t), clocks: c.clocks}
			w.task(oneTask, oneBase)
			rival := w.submission(scorePatch("1.5"), Claim{})
			r := w.run()
			r.Rival = &agon.Rival{Submission: "old", Digest: rival.Digest, Round: 1, Pairs: 2}
			p, done, err := w.kind.player(t.Context(), w, r)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			obs, _, err := p.play(t.Context(), w.submission(scorePatch("2.5"), Claim{}))
			if w.gaveUp != c.gaveUp || (err != nil) != c.gaveUp {
				t.Fatalf("gave up: %t, %v", w.gaveUp, err)
			}
			var got []string
			for _, x := range obs.Duel {
				got = append(got, fmt.Sprintf("%v:%v", x.Challenger, x.Incumbent))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s, want %s\n%s", s, c.want, p.log.bytes())
			}
		})
	}
}
