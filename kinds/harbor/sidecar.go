package harbor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Containers beside a task's are boxes of their own, which the agent's box reaches
// at 127.0.0.1 under their names, by doors to their ports of TCP, and nothing else
// of them. No process of the agent's lives in them, and the verifier does not see them.

// sidecars are the running containers beside a task's.
type sidecars struct {
	doors  []sandbox.Door
	names  []string
	cancel context.CancelFunc
	end    []func() // in the order in which they were opened
}

func (c *sidecars) close() {
	c.cancel()
	for _, f := range slices.Backward(c.end) {
		f()
	}
}

// startAt is how long a service without a health check may take to listen.
const startAt = time.Minute

// sidecars starts what a task names. What fails here is the task's failure.
func (h harbor) sidecars(ctx context.Context, env kind.Env, r agon.RunSpec, s *stage) (_ *sidecars, err error) {
	ctx, cancel := context.WithCancel(ctx)
	out := &sidecars{cancel: cancel}
	defer func() {
		if err != nil {
			out.close()
		}
	}()
	for _, v := range s.services {
		if err := h.sidecar(ctx, env, r, s, v, out); err != nil {
			return nil, fmt.Errorf("service %s: %w", v.name, err)
		}
	}
	return out, nil
}

func (h harbor) sidecar(ctx context.Context, env kind.Env, r agon.RunSpec, s *stage, v service, out *sidecars) (err error) {
	at := &stage{task: s.task, conf: &conf{}, dir: v.dir, env: v.env}
	if v.image != "" {
		if at.root, err = env.Root(ctx, v.image); err != nil {
			return err
		}
		if at.dir == "" {
			at.dir = at.root.WorkingDir
		}
	} else {
		at.root = rootfs.NewRoots(h.rootfs, nil).Own()
	}
	if at.dir == "" || at.dir == "/" {
		at.dir = defaultDir
	}
	if !workable(at.dir) {
		return fmt.Errorf("work directory %.200q: want one like /app", at.dir)
	}
	if v.built != nil && len(v.built.copies) > 0 {
		if err := at.copy(v.built, v.from); err != nil {
			return err
		}
		out.end = append(out.end, at.close)
	} else if dir := filepath.Join(at.root.Dir, at.dir); v.image != "" && isDir(dir) {
		at.base = dir
	}
	at.open = opened(at.root.Dir, at.dir)
	spec := at.spec("beside", s.conf.Environment.limits(r.Policy.Agent, s.conf.Agent.TimeoutSec))
	box, err := env.Box(ctx, spec)
	if err != nil {
		return err
	}
	out.end = append(out.end, func() { _ = box.Close() })
	if err := prepare(ctx, box, names(nil)); err != nil {
		return err
	}
	printed := kind.NewPrintout(maxLog)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// How it ends shows in what it no longer answers.
		_, _ = box.Exec(ctx, sandbox.Cmd{Args: v.args, Dir: at.dir, Stdout: printed, Stderr: printed})
	}()
	out.end = append(out.end, func() { <-ended })
	if v.check != nil {
		err = at.healthy(ctx, box, v.check)
	} else {
		err = listens(ctx, box, v.ports, ended)
	}
	if err != nil {
		return fmt.Errorf("%w; it printed: %s", err, plain.Short(strings.TrimSpace(string(printed.Bytes())), 1000))
	}
	for _, p := range v.ports {
		out.doors = append(out.doors, sandbox.Door{
			Listen: "127.0.0.1:" + strconv.Itoa(p),
			Dial:   func(ctx context.Context) (net.Conn, error) { return box.Dial(ctx, p) },
		})
	}
	out.names = append(out.names, v.name)
	return nil
}

// listens waits until something listens at all ports.
func listens(ctx context.Context, box sandbox.Box, ports []int, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startAt)
	defer cancel()
	for _, p := range ports {
		for {
			c, err := box.Dial(ctx, p)
			if err == nil {
				_ = c.Close()
				break
			}
			again := time.NewTimer(100 * time.Millisecond)
			select {
			case <-ended:
				again.Stop()
				return errors.New("it ended before it listened")
			case <-ctx.Done():
				again.Stop()
				return fmt.Errorf("nothing listens at port %d: %w", p, err)
			case <-again.C:
			}
		}
	}
	return nil
}

// doorBeside is where the gateway is seen: at the usual port, unless a service is there.
func (s *stage) doorBeside() string {
	host, usual, _ := net.SplitHostPort(door)
	for p, _ := strconv.Atoi(usual); ; p++ {
		if !slices.ContainsFunc(s.services, func(v service) bool { return slices.Contains(v.ports, p) }) {
			return net.JoinHostPort(host, strconv.Itoa(p))
		}
	}
}
