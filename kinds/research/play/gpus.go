package play

import (
	"context"
	"errors"

	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox/gpu"
)

// maxVoid is how many pairs of a duel may be made again because the machine's GPU was
// slowed or its clock moved. With more the machine is too unsteady to compare on.
const maxVoid = 3

// span runs f and watches the attempt's GPUs meanwhile, where it has any.
func (p *player) span(ctx context.Context, timed bool, f func() error) (kind.GPUSpan, error) {
	if a, ok := p.env.(kind.Accelerated); ok {
		return a.Span(ctx, timed, f)
	}
	return kind.GPUSpan{}, f()
}

// void says why spans cannot be compared; "": they can.
func (p *player) void(spans []kind.GPUSpan) string {
	if a, ok := p.env.(kind.Accelerated); ok {
		return a.Void(spans...)
	}
	return ""
}

// upset reports that a machine became unsteady while one side ran: it was steady as the side
// began, and while the other ran. Such a pair must not be made again for a challenger, who
// could else load the cards until they slow down whenever it sees that it was slow.
func (p *player) upset(its, others []kind.GPUSpan) bool {
	var begin []kind.GPUSpan
	for _, s := range its {
		var first [][]gpu.Sample
		for _, list := range s.Samples {
			first = append(first, list[:min(1, len(list))])
		}
		begin = append(begin, kind.GPUSpan{Samples: first})
	}
	return p.void(its) != "" && p.void(begin) == "" && p.void(others) == ""
}

// giveUp ends a duel of which too many pairs were void, as the validator's fault.
func (p *player) giveUp() error {
	if a, ok := p.env.(kind.Accelerated); ok {
		return a.GiveUp()
	}
	return errors.New("too many pairs were void")
}
