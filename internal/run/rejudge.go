package run

import (
	"context"
	"fmt"
	"os"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// rejudge judges stored evidence again, on this machine, with nobody's account.
func rejudge(ctx context.Context, r cli.RejudgeOptions) ([]agon.Score, error) {
	o := options(r.Common, r.Driver)
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	ks := kinds(o, root)
	k, ok := ks[r.Kind]
	if !ok {
		return nil, fmt.Errorf("this agon does not judge %s", r.Kind)
	}
	work, err := tempdir.Make("verify")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	source, err := remoteSource(r.Client, work)
	if err != nil {
		return nil, err
	}
	p, err := newPlayer(ctx, o, d, root, ks, source, work+"/trees")
	if err != nil {
		return nil, err
	}
	defer p.close()
	env, done := p.Env(r.Run)
	defer done()
	return k.Judge(ctx, env, r.Run, r.Record)
}
