package kit

import (
	"context"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/libraries"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Player is the validator's side of a machine: driver, gateway, tool host, kinds.
type Player struct {
	*validator.Player
	Own  *gateway.Gateway
	stop func() // ends the tool host
}

// NewPlayer makes a player whose boxes stand on root, whose trees come from
// source and are cached in cache.
func NewPlayer(ctx context.Context, o Options, d sandbox.Driver, root string, ks map[string]kind.Kind, source blob.Store, cache string) (*Player, error) {
	return NewPlayerOver(ctx, o, d, root, ks, source, cache, nil)
}

// NewPlayerOver is newPlayer with documents of its own for search (Kit.ToolHost).
func NewPlayerOver(ctx context.Context, o Options, d sandbox.Driver, root string, ks map[string]kind.Kind, source blob.Store, cache string, docs any) (*Player, error) {
	gw, err := NewGateway(ctx, o, filepath.Dir(cache))
	if err != nil {
		return nil, err
	}
	host, stop := (*validator.ToolHost)(nil), func() {}
	for _, k := range o.Kits {
		if k.ToolHost == nil {
			continue
		}
		if host, stop, err = k.ToolHost(o, docs, d, root, gw); err != nil {
			gw.Stop()
			return nil, err
		}
		break
	}
	cards, locks, err := OpenGPUs(o)
	if err != nil {
		stop()
		gw.Stop()
		return nil, err
	}
	gpus := &validator.GPUs{Driver: cards, Locks: locks}
	if o.Cards != nil {
		gpus.Driver = o.Cards
	}
	return &Player{Own: gw, stop: stop, Player: &validator.Player{
		GPUs:   gpus,
		Keeps:  &validator.Keeps{Dir: filepath.Join(filepath.Dir(cache), "kept")},
		Driver: d, Gateway: gw, Kinds: ks, Now: time.Now, Tools: host, CheckTask: o.Kits.CheckTask,
		Roots:     rootfs.NewRoots(root, rootfs.OpenImages(ImagesDir(o), o.Writer())).Bounded(rootfs.DefaultQuota),
		Datasets:  datasets.Open(DatasetsDir(o), o.Writer()).Bounded(datasets.DefaultQuota),
		Libraries: &libraries.Store{Dir: filepath.Join(CacheDir(o), "libraries"), Own: root, Driver: d, Log: o.Writer()},
		Trees:     &validator.TreeCache{Dir: cache, Source: source, Log: o.Log},
	}}, nil
}

func (p *Player) Close() {
	p.stop()
	p.Own.Stop()
}

// blobQuota bounds the blobs that a validator keeps of its platform's, in bytes.
const blobQuota = 10 << 30

// RemoteSource reads blobs through to the platform.
func RemoteSource(c *client.Client, dir string) (blob.Store, error) {
	local, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{Cache: true, Quota: blobQuota})
	if err != nil {
		return nil, err
	}
	return validator.RemoteBlobs{Local: local, Remote: c}, nil
}
