package kit

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runsc"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// OpenDriver makes sure of the root file system and picks the strongest
// sandbox that works. There is no falling back to none.
func OpenDriver(ctx context.Context, o Options) (sandbox.Driver, string, error) {
	root, err := rootfs.Ensure(ctx, rootfs.Config{Dir: filepath.Join(CacheDir(o), "rootfs"), Image: o.Getenv("AGON_ROOTFS_IMAGE"), Log: o.Writer()})
	if err != nil {
		return nil, "", &agon.Error{
			Code: "no_rootfs", Status: 503, Fault: agon.FaultValidator, Message: "the boxes' root file system could not be prepared: " + err.Error(),
			Mend: "run make setup, or name an image in AGON_ROOTFS_IMAGE (agon image check says what it lacks)",
		}
	}
	// What killed processes left, before the first box of this one.
	if n, err := probe.Sweep(StateDir(o)); err != nil {
		o.Log.Warn("leftovers of killed processes stay", "error", err)
	} else if n > 0 {
		o.Sayf("removed what killed processes left of %d boxes", n)
	}
	if _, err := tempdir.Sweep(""); err != nil {
		o.Log.Warn("temporary directories of killed processes stay", "error", err)
	}
	if err := rootfs.Used(root, time.Now()); err != nil { //nolint:forbidigo // a mark on the disk
		o.Log.Warn("the use of the root file system is not noted", "error", err)
	}
	bin, _ := runsc.Find(runsc.BuildConfig{Dir: CacheDir(o)})
	d, reports, err := probe.Probe(ctx, probe.Config{Rootfs: root, StateDir: StateDir(o), Want: o.Getenv("AGON_DRIVER"), Runsc: bin})
	for _, r := range reports {
		o.Log.Debug("sandbox probed", "report", r)
	}
	if err != nil {
		return nil, "", &agon.Error{
			Code: "no_sandbox", Status: 503, Fault: agon.FaultValidator, Message: err.Error(),
			Mend: "install runc or bubblewrap (make setup does); agon never plays without a sandbox", Err: err,
		}
	}
	return d, root, nil
}

// OpenGPUs are this machine's accelerators. AGON_GPU_LOCKS is the directory that all
// validators of the machine lock them in, AGON_GPU_HOOKS names hooks of CDI files that
// run, separated by commas.
func OpenGPUs(o Options) (*gpu.Nvidia, gpu.Locks, error) {
	var hooks []string
	for h := range strings.SplitSeq(o.Getenv("AGON_GPU_HOOKS"), ",") {
		if h = strings.TrimSpace(h); h != "" {
			hooks = append(hooks, h)
		}
	}
	n, err := gpu.NewNvidia(gpu.Config{Libraries: filepath.Join(CacheDir(o), "gpu"), Hooks: hooks})
	return n, gpu.Locks{Dir: cmp.Or(o.Getenv("AGON_GPU_LOCKS"), gpu.DefaultLocks)}, err
}

// StateDir is where drivers keep what boxes need while they live. Its path is
// short and neutral: boxes can see parts of it in their mount tables.
func StateDir(o Options) string { return filepath.Join(CacheDir(o), "boxes") }

// Writer makes what is written to it lines for people.
func (o Options) Writer() io.Writer { return sayWriter{o} }

type sayWriter struct{ o Options }

func (w sayWriter) Write(b []byte) (int, error) {
	w.o.Sayf("%s", string(b))
	return len(b), nil
}

// CacheDir is where root file systems and fetched tasks are kept.
func CacheDir(o Options) string {
	if o.Cache != "" {
		return o.Cache
	}
	return filepath.Dir(rootfs.DefaultDir())
}

// DatasetsDir is where data sets are kept.
func DatasetsDir(o Options) string { return filepath.Join(CacheDir(o), "datasets") }

// ImagesDir is where images are kept.
func ImagesDir(o Options) string { return filepath.Join(CacheDir(o), "images") }

// TasksDir is where released tasks stand after agon setup.
func TasksDir(o Options) string { return filepath.Join(CacheDir(o), "tasks") }
