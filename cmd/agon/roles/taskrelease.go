package roles

import (
	"context"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// taskFromRelease makes tasks of releases by the kind that can.
func taskFromRelease(ctx context.Context, o kit.Options, r cli.TaskReleaseOptions) ([]cli.TaskMade, error) {
	var own kit.Kit
	for _, k := range o.Kits {
		if k.TaskFromRelease != nil {
			own = k
			break
		}
	}
	if own.TaskFromRelease == nil {
		return nil, &agon.Error{Code: "unknown_kind", Status: 422, Field: "kind", Message: "no kind here makes tasks of releases"}
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	work, err := tempdir.Make("release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	ks := o.Kinds(root)
	p, err := kit.NewPlayer(ctx, o, d, root, ks, blobs, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return own.TaskFromRelease(ctx, o, d, root, ks[own.Kind], func(s agon.RunSpec) (kind.Env, func()) { return p.Env(s) }, r)
}
