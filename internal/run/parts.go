package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runsc"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/task"
)

// newGateway starts a gateway on loopback: a real upstream where one is
// configured, else the script of the samples. Its books and its key live in dir.
func newGateway(ctx context.Context, o Options, dir string) (*gateway.Gateway, error) {
	prices, err := gateway.LoadPrices()
	if err != nil {
		return nil, err
	}
	cfg := gateway.Config{Prices: prices, Log: o.Log}
	oc, keyed, err := openai.FromEnv(o.Getenv)
	if err != nil {
		return nil, err
	}
	var up provider.Upstream
	if keyed {
		for _, m := range oc.Models {
			note, err := prices.Operator(m, o.Getenv)
			if err != nil {
				return nil, err
			}
			if note != "" {
				o.say("%s", note)
			}
		}
		if up, err = openai.New(oc); err != nil {
			return nil, err
		}
	} else {
		script, err := demoScript()
		if err != nil {
			return nil, err
		}
		up = scripted.New(script)
		if o.scriptPrice {
			p := prices[scripted.Name]
			p.In, p.Out, p.Version = 1_000_000, 3_200_000, "made-up"
			if err := prices.Set(scripted.Name, p); err != nil {
				return nil, err
			}
		}
		o.say("no model key is set (AGON_LLM_BASE_URL, AGON_LLM_API_KEY, AGON_LLM_MODEL): model calls are answered by a script, labelled scripted")
	}
	if cfg.Upstreams, err = withOthers(o, prices, up); err != nil {
		return nil, err
	}
	if cfg.Tools, err = gatewayTools(o); err != nil {
		return nil, err
	}
	if err := openBooks(ctx, &cfg, dir); err != nil {
		return nil, err
	}
	gw, err := gateway.New(cfg)
	if err == nil {
		err = gw.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, cfg.AfterStop())
	}
	return gw, nil
}

// openDriver makes sure of the root file system and picks the strongest
// sandbox that works. There is no falling back to none.
func openDriver(ctx context.Context, o Options) (sandbox.Driver, string, error) {
	root, err := rootfs.Ensure(ctx, rootfs.Config{Dir: filepath.Join(cacheDir(o), "rootfs"), Image: o.Getenv("AGON_ROOTFS_IMAGE"), Log: sayWriter{&o}})
	if err != nil {
		return nil, "", &agon.Error{
			Code: "no_rootfs", Status: 503, Fault: agon.FaultValidator, Message: "the boxes' root file system could not be prepared: " + err.Error(),
			Mend: "run make setup, or name an OCI image in AGON_ROOTFS_IMAGE",
		}
	}
	// What killed processes left, before the first box of this one.
	if n, err := probe.Sweep(stateDir(o)); err != nil {
		o.Log.Warn("leftovers of killed processes stay", "error", err)
	} else if n > 0 {
		o.say("removed what killed processes left of %d boxes", n)
	}
	if _, err := tempdir.Sweep(""); err != nil {
		o.Log.Warn("temporary directories of killed processes stay", "error", err)
	}
	if err := rootfs.Used(root, time.Now()); err != nil {
		o.Log.Warn("the use of the root file system is not noted", "error", err)
	}
	bin, _ := runsc.Find(runsc.BuildConfig{Dir: cacheDir(o)})
	d, reports, err := probe.Probe(ctx, probe.Config{Rootfs: root, StateDir: stateDir(o), Want: o.Getenv("AGON_DRIVER"), Runsc: bin})
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

// stateDir is where drivers keep what boxes need while they live. Its path is
// short and neutral: boxes can see parts of it in their mount tables.
func stateDir(o Options) string { return filepath.Join(cacheDir(o), "boxes") }

type sayWriter struct{ o *Options }

func (w sayWriter) Write(b []byte) (int, error) {
	w.o.say("%s", string(b))
	return len(b), nil
}

// Setup prepares what the first play needs: the root file system and the tasks
// made from published packages. It says what it could not get; only a missing
// sandbox is an error.
func Setup(ctx context.Context, o Options) error {
	if _, err := runsc.Ensure(ctx, runsc.BuildConfig{Dir: cacheDir(o), Log: sayWriter{&o}}); err != nil {
		o.say("boxes go without gVisor: %v", err)
	}
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return err
	}
	o.say("boxes: %s %s", d.Info().Name, d.Info().Version)
	gone, err := rootfs.Prune(filepath.Dir(root), rootfs.DefaultQuota, root)
	if err != nil {
		o.Log.Warn("the cache of root file systems is not pruned", "error", err)
	}
	for _, g := range gone {
		o.say("removed %s, which was used least recently (%d MB)", filepath.Base(g.Dir), g.Bytes>>20)
	}
	return prepareSet(ctx, o, d, root)
}

// prepareSet fetches the tasks of the released set that are not here yet. An
// index that cannot be reached is said, not an error: the rest is played.
func prepareSet(ctx context.Context, o Options, d sandbox.Driver, root string) error {
	all, err := shippedSet(o, "coding", releasedSet)
	if err != nil {
		return err
	}
	for _, t := range all {
		if !t.Recipe() {
			continue
		}
		if _, err := task.Fetched(t, tasksDir(o)); err == nil {
			continue
		}
		o.say("fetching %s", t.Key)
		err := task.Fetch(ctx, d, root, t, tasksDir(o), func(s string) { o.say("  %s", s) })
		if errors.Is(err, task.ErrIndexUnreachable) {
			o.say("the package index cannot be reached: the set %s stays incomplete, the small set is played alone", releasedSet)
			return nil
		}
		if err != nil {
			return fmt.Errorf("fetch %s: %w", t.Key, err)
		}
	}
	return nil
}

// Doctor looks at everything that a play needs on this machine.
func Doctor(ctx context.Context, o Options) []cli.Check {
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
	if left, err := probe.Leftovers(stateDir(o)); err != nil {
		add("leftovers", "warn", err.Error(), "")
	} else if dirs, err := tempdir.Abandoned(""); err != nil {
		add("leftovers", "warn", err.Error(), "")
	} else if n := len(left) + len(dirs); n > 0 {
		add("leftovers", "warn", fmt.Sprintf("%d boxes and %d temporary directories of killed processes", len(left), len(dirs)), "they were removed just now; the next start does it too")
	} else {
		add("leftovers", "ok", "none", "")
	}
	d, root, err := openDriver(ctx, o)
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
		bin, _ := runsc.Find(runsc.BuildConfig{Dir: cacheDir(o)})
		for _, r := range probe.Examine(ctx, probe.Config{Rootfs: root, StateDir: stateDir(o), Runsc: bin}) {
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
			add("cache", status, fmt.Sprintf("%d root file systems, %d MB of %d", len(trees), n>>20, int64(rootfs.DefaultQuota)>>20), mend)
		}
	}
	if list, missing, err := loadSet(o, "coding", releasedSet); err != nil {
		add("released tasks", "fail", err.Error(), "run agon setup")
	} else if missing > 0 {
		add("released tasks", "warn", fmt.Sprintf("%d here, %d missing", len(list), missing), "run agon setup where the package index can be reached")
	} else {
		add("released tasks", "ok", fmt.Sprintf("%d here", len(list)), "")
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
