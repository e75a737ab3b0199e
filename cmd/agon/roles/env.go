package roles

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/env"
)

// envRole is `agon env serve`.
func envRole(ctx context.Context, o kit.Options, c cli.EnvServeOptions) error {
	list, f, withheld, err := envTasks(o, c.Arena, c.Tasks)
	if err != nil {
		return err
	}
	var run *envRunner
	if c.Agent != "" {
		if run, err = newEnvRunner(ctx, o, list, f, c); err != nil {
			return err
		}
		defer run.close()
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return &agon.Error{Code: "listen", Status: 409, Field: "listen", Message: fmt.Sprintf("cannot listen on %s: %v", o.Listen, err), Mend: "choose another address with --listen"}
	}
	e, err := serveEnv(ctx, o, list, ln, c, run)
	if err != nil {
		_ = ln.Close() // nobody was served
		return err
	}
	defer e.stop()
	if err := c.Ready(cli.EnvReady{URL: e.url, Environment: e.name, Tasks: e.tasks, Withheld: withheld}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-e.done:
		return err
	}
}

// servedEnv is an environment that is being served.
type servedEnv struct {
	url, name string
	tasks     int
	done      <-chan error // why it ended
	stop      func()
}

// noEnvironment says that a kind cannot be played call by call.
func noEnvironment(o kit.Options, kind string) error {
	var can []string
	for _, k := range o.Kits {
		if k.Environment != nil {
			can = append(can, k.Kind)
		}
	}
	return &agon.Error{Code: "wrong_kind", Status: 422, Field: "arena", Message: fmt.Sprintf("agents of the kind %s own their loop: its tasks cannot be played call by call", kind), Mend: "the kinds that can: " + strings.Join(can, ", ") + "; --agent FILE plays a whole agent of any"}
}

// wholeEnv are tasks of a kind whose agents own their loop: they are listed, and
// played by POST /run only.
type wholeEnv struct {
	o    kit.Options
	kind string
	list []environment.Task
}

func newWholeEnv(o kit.Options, list []*task.Task) wholeEnv {
	e := wholeEnv{o: o, kind: list[0].Config.Agon.Kind}
	for _, t := range list {
		e.list = append(e.list, environment.Task{Key: t.Key, Prompt: t.Instruction})
	}
	return e
}

func (e wholeEnv) Name() string              { return e.kind }
func (e wholeEnv) Tasks() []environment.Task { return e.list }
func (e wholeEnv) Tools() []environment.Tool { return nil }
func (e wholeEnv) Open(context.Context, string, int64) (environment.Episode, error) {
	return nil, noEnvironment(e.o, e.kind)
}

// serveEnv serves tasks of one kind on ln until stop, within the limits of c. run
// plays whole agents on them; nil: none.
func serveEnv(ctx context.Context, o kit.Options, list []*task.Task, ln net.Listener, c cli.EnvServeOptions, run *envRunner) (*servedEnv, error) {
	k, _ := o.Kits.Of(list[0].Config.Agon.Kind)
	var e environment.Environment
	switch {
	case k.Environment != nil:
		var err error
		if e, err = k.Environment(ctx, o, list); err != nil {
			return nil, err
		}
	case run != nil:
		e = newWholeEnv(o, list)
	default:
		return nil, noEnvironment(o, list[0].Config.Agon.Kind)
	}
	sessions := environment.NewSessions(e, environment.Limits{Sessions: c.Sessions, Calls: c.Calls, Whole: c.Whole, Idle: c.Idle}, time.Now)
	ctx, cancel := context.WithCancel(ctx)
	swept := make(chan struct{})
	go func() { // ends with ctx
		sessions.Run(ctx)
		close(swept)
	}()
	s := &env.Server{Sessions: sessions, Log: o.Log, Whole: c.Whole}
	if run != nil {
		s.Runner = run
	}
	srv := &http.Server{Handler: s.Handler(), BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }() // ends with Close in stop
	return &servedEnv{"http://" + ln.Addr().String(), e.Name(), len(e.Tasks()), done, func() {
		cancel()
		_ = srv.Close()
		<-swept
	}}, nil
}

// envTasks are the public tasks of an arena or of directories, of one kind; f is the
// arena's file, nil for directories. withheld counts its hidden ones, which are not even
// read for their texts.
func envTasks(o kit.Options, arena string, dirs []string) (list []*task.Task, f *kit.ArenaFile, withheld int, err error) {
	if len(dirs) > 0 {
		if list, err = o.Kits.TasksIn(dirs); err != nil {
			return nil, nil, 0, err
		}
		for _, t := range list[1:] {
			if t.Config.Agon.Kind != list[0].Config.Agon.Kind {
				return nil, nil, 0, &agon.Error{Code: "bad_flag", Status: 422, Field: "tasks", Message: fmt.Sprintf("--tasks: %s is of the kind %s, %s of %s", list[0].Key, list[0].Config.Agon.Kind, t.Key, t.Config.Agon.Kind), Mend: "serve one kind at a time"}
			}
		}
		return list, nil, 0, nil
	}
	a, err := envArena(o, arena)
	if err != nil {
		return nil, nil, 0, err
	}
	if k, ok := o.Kits.Of(a.Kind); ok && k.Demo != nil {
		for _, name := range k.Demo().Hidden {
			if slices.Contains(a.Sets, name) {
				return nil, nil, 0, &agon.Error{Code: "hidden_task", Status: 422, Field: "sets", Message: fmt.Sprintf("%s is a hidden set of %s", name, k.Demo().ID), Mend: "hidden tasks are never served; name it in hidden, not in sets"}
			}
		}
	}
	for _, name := range a.Sets {
		got, _, err := kit.LoadSet(o, a.Kind, name)
		if err != nil {
			return nil, nil, 0, err
		}
		list = append(list, got...)
	}
	once := a.Distinct(o) // a hidden task that stands among the public ones, too, is refused as the arena would
	for _, t := range list {
		if err := once.Add("sets", t, false); err != nil {
			return nil, nil, 0, err
		}
	}
	for _, name := range a.Hidden {
		got, _, err := kit.LoadSet(o, a.Kind, name)
		if err != nil {
			continue // they are where the validators are
		}
		for _, t := range got {
			if err := once.Add("hidden", t, true); err != nil {
				return nil, nil, 0, err
			}
		}
		withheld += len(got)
	}
	if len(list) == 0 {
		return nil, nil, 0, &agon.Error{Code: "no_tasks", Status: 422, Field: "arena", Message: a.ID + " has no public task to serve", Mend: "hidden tasks are never served; name public ones with --tasks"}
	}
	for _, t := range list {
		if err := o.Kits.CheckTask(t); err != nil {
			return nil, nil, 0, err
		}
	}
	return list, &a, withheld, nil
}

// envArena reads an arena file, or takes the arena of this id that a kind ships.
func envArena(o kit.Options, arena string) (kit.ArenaFile, error) {
	for _, k := range o.Kits {
		if k.Demo != nil {
			if f := k.Demo(); f.ID == arena {
				return f, nil
			}
		}
	}
	return kit.LoadArenaFile(arena, o.Kits)
}
