package roles

import (
	"context"

	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/gpu"
	"github.com/agon-arena/agon/ui/cli"
)

// inspectGPUs says what GPUs this machine has, what of them boxes can be given and
// what is missing.
func inspectGPUs(ctx context.Context, o kit.Options) (out []cli.Check) {
	cards, locks, err := kit.OpenGPUs(o)
	if err != nil {
		return []cli.Check{{Name: "gpu", Status: cli.CheckFail, Detail: err.Error()}}
	}
	m := gpu.Machine{Locks: locks}
	// What is wrong with the box driver stands in the checks before these.
	if d, _, err := kit.OpenDriver(ctx, o); err == nil {
		m.Boxes = d
		if x, ok := d.(interface {
			SupportsNvidia(ctx context.Context, version string) (bool, error)
		}); ok {
			m.Supported = x.SupportsNvidia
		}
	}
	for _, f := range cards.Inspect(ctx, m) {
		out = append(out, cli.Check{Name: "gpu " + f.Name, Status: f.State, Detail: f.Detail, Mend: f.Mend})
	}
	return out
}
