package play

import (
	"context"
	"errors"

	"github.com/agon-arena/agon/engine/kind"
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

// giveUp ends a duel of which too many pairs were void, as the validator's fault.
func (p *player) giveUp() error {
	if a, ok := p.env.(kind.Accelerated); ok {
		return a.GiveUp()
	}
	return errors.New("too many pairs were void")
}
