package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/harbor/session"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// envToken is the token of those who may use the boxes.
const envToken = "AGON_BOXES_TOKEN"

type boxFlags struct {
	at, door, driver    string
	boxes               int
	memoryMB, storageMB int64
	idle                time.Duration
}

func boxCmd(a *cli.App, kits kit.List, tools func(dir string) error) *cobra.Command {
	top := &cobra.Command{
		Use:     "box",
		Short:   "Boxes of this machine for other programs",
		Example: "  agon box serve",
		Args:    cli.Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var f boxFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Hand boxes of this machine to Harbor, Inspect and verifiers, over HTTP",
		Long: `Hand boxes of this machine to other programs over HTTP until interrupted. Harbor runs its
tasks in them without Docker (harbor run --environment-import-path agon_boxes.harbor:AgonEnvironment),
Inspect and verifiers take them as a sandbox and a runtime: kinds/harbor/sdk/README.md.

Whoever holds the token may do in a box what root may, and nothing outside it. The token is
AGON_BOXES_TOKEN, else one that is made and kept in the data directory (boxes.token, 0600).
Boxes have no network but --door. One that nobody asks for --idle is closed.`,
		Example: "  agon box serve\n  agon box serve --at 127.0.0.1:8950 --door http://127.0.0.1:8901 --boxes 8",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.CheckBoxes(f.boxes); err != nil {
				return err
			}
			if f.memoryMB < 64 || f.storageMB < 64 {
				return output.Usage("memory-mb", "give 64 or more", "--memory-mb %d, --storage-mb %d: out of range", f.memoryMB, f.storageMB)
			}
			if f.idle < time.Second {
				return output.Usage("idle", "give a time such as 1h", "--idle %s: out of range", f.idle)
			}
			if u, err := url.Parse(f.door); f.door != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
				return output.Usage("door", "give a URL such as http://127.0.0.1:8901", "--door %q is not a URL", f.door)
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			return cli.EndOfService(cmd.Context(), serveBoxes(cmd.Context(), kits.Options(common, f.driver), f, tools))
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.at, "at", "127.0.0.1:8950", "`address` to listen on")
	fl.StringVar(&f.door, "door", "", "a `URL`, such as a gateway's, that boxes reach at 127.0.0.1:8000")
	fl.IntVar(&f.boxes, "boxes", 0, "so `many` boxes at a time at most (default 32)")
	fl.Int64Var(&f.memoryMB, "memory-mb", 4096, "memory of a box at most, in `MiB`")
	fl.Int64Var(&f.storageMB, "storage-mb", 10240, "what a box may write at most, in `MiB`")
	fl.DurationVar(&f.idle, "idle", time.Hour, "close a box that nobody asks for so `long`")
	cli.DriverFlag(cmd, &f.driver)
	top.AddCommand(cmd)
	return top
}

func serveBoxes(ctx context.Context, o kit.Options, f boxFlags, tools func(dir string) error) error {
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return err
	}
	token, where, err := boxToken(o)
	if err != nil {
		return err
	}
	tmp, err := tempdir.Make("boxes")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	dir := filepath.Join(tmp, "tools")
	if err := tools(dir); err != nil {
		return err
	}
	s, err := session.New(session.Config{
		Driver: d, Roots: rootfs.NewRoots(root, rootfs.OpenImages(kit.ImagesDir(o), o.Writer())), Token: token, Max: f.boxes, Idle: f.idle,
		Door: f.door, Tools: dir, Log: o.Log, Now: time.Now,
		Most: agon.Limits{
			WallMS: session.MaxWall * 1000, CPUMilli: int64(runtime.NumCPU()) * 1000, MemoryBytes: f.memoryMB << 20, Pids: 1024,
			DiskBytes: f.storageMB << 20, Inodes: 1 << 20,
		},
	})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.at)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	o.Sayf("boxes by %s at AGON_BOXES_URL=http://%s; %s", d.Info().Name, l.Addr(), where)
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	ended := make(chan struct{})
	inner, cancel := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		s.Run(inner)
	}()
	err = srv.Serve(l)
	cancel()
	<-ended // no box outlives the process
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return ctx.Err()
}

// boxToken is the token and how a client learns it.
func boxToken(o kit.Options) (token, where string, err error) {
	if t := o.Getenv(envToken); t != "" {
		return t, "the token is that of " + envToken, nil
	}
	if err := os.MkdirAll(o.Data, 0o700); err != nil {
		return "", "", fmt.Errorf("make data directory: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(o.Data, "boxes.token"))
	if err != nil {
		return "", "", err
	}
	where = "AGON_BOXES_TOKEN_FILE=" + path
	b, err := os.ReadFile(path)
	if t := strings.TrimSpace(string(b)); err == nil && t != "" {
		return t, where, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", fmt.Errorf("read the boxes' token: %w", err)
	}
	token = rand.Text() + rand.Text()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", "", fmt.Errorf("write the boxes' token: %w", err)
	}
	return token, where, nil
}
