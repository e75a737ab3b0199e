package roles

import (
	"context"
	"fmt"
	"os"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// rejudge judges stored evidence again, on this machine, with nobody's account.
func rejudge(ctx context.Context, kits kit.List, r cli.RejudgeOptions) ([]agon.Score, error) {
	o := kits.Options(r.Common, r.Driver)
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	ks := o.Kinds(root)
	k, ok := ks[r.Kind]
	if !ok {
		return nil, fmt.Errorf("this agon does not judge %s", r.Kind)
	}
	work, err := tempdir.Make("verify")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	source, err := kit.RemoteSource(r.Client, work)
	if err != nil {
		return nil, err
	}
	p, err := kit.NewPlayer(ctx, o, d, root, ks, source, work+"/trees")
	if err != nil {
		return nil, err
	}
	defer p.Close()
	env, done := p.Env(r.Run)
	defer done()
	return k.Judge(ctx, env, r.Run, r.Record)
}
