package roles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runsc"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// Setup prepares what the first play needs: the root file system and the tasks
// made from published packages. It says what it could not get; only a missing
// sandbox is an error.
func Setup(ctx context.Context, o kit.Options) error {
	if _, err := runsc.Ensure(ctx, runsc.BuildConfig{Dir: kit.CacheDir(o), Log: o.Writer()}); err != nil {
		o.Sayf("boxes go without gVisor: %v", err)
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return err
	}
	o.Sayf("boxes: %s %s", d.Info().Name, d.Info().Version)
	gone, err := rootfs.Prune(filepath.Dir(root), rootfs.DefaultQuota, root)
	if err != nil {
		o.Log.Warn("the cache of root file systems is not pruned", "error", err)
	}
	for _, g := range gone {
		o.Sayf("removed %s, which was used least recently (%d MB)", filepath.Base(g.Dir), g.Bytes>>20)
	}
	if images, err := rootfs.OpenImages(kit.ImagesDir(o), nil).Prune(ctx, rootfs.DefaultQuota); err != nil {
		o.Log.Warn("the cache of images is not pruned", "error", err)
	} else if len(images.Images) > 0 {
		o.Sayf("removed %d images, which were used least recently (%d MB)", len(images.Images), images.Bytes>>20)
	}
	if sets, err := datasets.Open(kit.DatasetsDir(o), nil).Prune(ctx, datasets.DefaultQuota); err != nil {
		o.Log.Warn("the cache of data sets is not pruned", "error", err)
	} else if len(sets.Datasets) > 0 {
		o.Sayf("removed %d data sets, which were used least recently (%d MB)", len(sets.Datasets), sets.Bytes>>20)
	}
	if _, err := rootfs.Prune(filepath.Join(kit.CacheDir(o), "libraries"), rootfs.DefaultQuota); err != nil {
		o.Log.Warn("the cache of agents' libraries is not pruned", "error", err)
	}
	return prepareSets(ctx, o, d, root)
}

// prepareSets fetches the tasks made from published packages that the demo arenas
// play and that are not here yet; agon task fetch gets the others. An index that cannot be reached is said, not an error: the rest is played.
func prepareSets(ctx context.Context, o kit.Options, d sandbox.Driver, root string) error {
	all, err := o.Recipes()
	if err != nil {
		return err
	}
	for _, t := range all {
		if _, err := task.Fetched(t, kit.TasksDir(o)); err == nil || !inDemo(o, t) {
			continue
		}
		o.Sayf("fetching %s", t.Key)
		err := task.Fetch(ctx, d, root, t, kit.TasksDir(o), func(s string) { o.Sayf("  %s", s) })
		if errors.Is(err, task.ErrIndexUnreachable) {
			set, _, _ := strings.Cut(t.Key, "/")
			o.Sayf("the package index cannot be reached: the set %s stays incomplete and is played as far as it is here", set)
			return nil
		}
		if err != nil {
			return fmt.Errorf("fetch %s: %w", t.Key, err)
		}
	}
	return nil
}

// inDemo reports whether a demo arena plays the set of a task.
func inDemo(o kit.Options, t *task.Task) bool {
	set, _, _ := strings.Cut(t.Key, "/")
	own, ok := o.Kits.Of(t.Config.Agon.Kind)
	return !ok || own.Demo == nil || slices.Contains(own.Demo().Sets, set)
}

// Doctor looks at everything that a play needs on this machine.
func Doctor(ctx context.Context, o kit.Options) []cli.Check {
	var out []cli.Check
	add := func(name, status, detail, mend string) {
		out = append(out, cli.Check{Name: name, Status: status, Detail: detail, Mend: mend})
	}

	dir := o.Data
	if err := os.MkdirAll(dir, 0o700); err != nil {
		add("data directory", "fail", err.Error(), "choose another with --data")
	} else {
		add("data directory", "ok", dir, "")
	}
	// Before openDriver, which sweeps them.
	if left, err := probe.Leftovers(kit.StateDir(o)); err != nil {
		add("leftovers", "warn", err.Error(), "")
	} else if dirs, err := tempdir.Abandoned(""); err != nil {
		add("leftovers", "warn", err.Error(), "")
	} else if n := len(left) + len(dirs); n > 0 {
		add("leftovers", "warn", fmt.Sprintf("%d boxes and %d temporary directories of killed processes", len(left), len(dirs)), "they were removed just now; the next start does it too")
	} else {
		add("leftovers", "ok", "none", "")
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		var e *agon.Error
		mend := "run make setup"
		if errors.As(err, &e) {
			mend = e.Mend
		}
		add("sandbox", "fail", err.Error(), mend)
	} else {
		i := d.Info()
		add("root file system", "ok", root, "")
		add("sandbox", "ok", fmt.Sprintf("%s %s enforces %v", i.Name, i.Version, i.Limits), "")
		bin, _ := runsc.Find(runsc.BuildConfig{Dir: kit.CacheDir(o)})
		for _, r := range probe.Examine(ctx, probe.Config{Rootfs: root, StateDir: kit.StateDir(o), Runsc: bin}) {
			switch {
			case r.OK:
				add("driver "+r.Driver.Name, "ok", fmt.Sprintf("%s, %d checks passed, enforces %v", r.Driver.Version, len(r.Checks), r.Driver.Limits), "")
			case r.Driver.Name == "runsc":
				add("driver runsc", "warn", r.Err, "run make setup as root; boxes go with a weaker sandbox until then")
			default:
				add("driver "+r.Driver.Name, "warn", r.Err, "needed only where no stronger one works")
			}
		}
		if trees, err := rootfs.List(filepath.Dir(root)); err == nil {
			var n int64
			for _, t := range trees {
				n += t.Bytes
			}
			status, mend := "ok", ""
			if n > rootfs.DefaultQuota {
				status, mend = "warn", "run agon setup: it removes those that were not used for longest"
			}
			add("cache", status, fmt.Sprintf("root file systems: %d, %d MB of %d", len(trees), n>>20, int64(rootfs.DefaultQuota)>>20), mend)
		}
	}
	here, missing := 0, 0
	all, err := o.Recipes()
	for _, t := range all {
		if _, err := task.Fetched(t, kit.TasksDir(o)); err == nil || !inDemo(o, t) {
			here++
		} else {
			missing++
		}
	}
	if err != nil {
		add("released tasks", "fail", err.Error(), "run agon setup")
	} else if missing > 0 {
		add("released tasks", "warn", fmt.Sprintf("%d here, %d missing", here, missing), "run agon setup where the package index can be reached")
	} else if here > 0 {
		add("released tasks", "ok", fmt.Sprintf("%d here", here), "")
	}
	if _, keyed, err := openai.FromEnv(o.Getenv); err != nil {
		add("model", "fail", err.Error(), "set AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL, or none of them")
	} else if keyed {
		add("model", "ok", o.Getenv("AGON_LLM_MODEL"), "")
	} else {
		add("model", "warn", "no key: model calls are answered by a script", "set AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL for a real one")
	}
	if ln, err := net.Listen("tcp", o.Listen); err != nil {
		if c, derr := net.DialTimeout("tcp", o.Listen, time.Second); derr == nil {
			c.Close()
			add("address", "ok", o.Listen+" is served already", "")
		} else {
			add("address", "fail", err.Error(), "choose another with --listen")
		}
	} else {
		ln.Close()
		add("address", "ok", o.Listen+" is free", "")
	}
	return out
}

// configOf holds the rules of admission, the same for the leader and its followers: a
// validator that one of them refuses finds no way in at another.
func configOf(o kit.Options, d *kit.Data, st *store.Store, blobs blob.Store, ks map[string]kind.Kind, foreign *foreign) (c platform.Config, err error) {
	c = platform.Config{
		Store: st, Blobs: blobs, Kinds: ks, Log: o.Log, Now: o.Now, Lease: o.Lease,
		Ledgers:    func(name string) platform.Ledger { return kit.Chain{Ledger: foreign.of(name)} },
		Incentives: o.Kits.Incentives(), Coordinators: o.Kits.Coordinators(), Gauged: kit.Gauges(d.Dir).Records,
	}
	if c.UploadPerDay, err = uploadPerDay(o.Getenv); err != nil {
		return c, err
	}
	c.ProviderWaits, err = providerWaits(o.Getenv)
	return c, err
}
