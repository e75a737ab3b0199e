// Package app is the process agon over a list of kinds. Other modules import it
// to make a binary with kinds of their own (`agon build` writes such a main).
package app

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/cmd/agon/scaffold"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// Main is agon with these kinds. It returns the exit code of the process. Call
// it before anything else: boxes start the binary again as their helper.
// commit names the build; it may be "".
func Main(commit string, kits kit.List) int {
	netns.MaybeChild() // a helper process of boxes ends here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, the second ends at once.
	context.AfterFunc(ctx, stop)
	if err := kits.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "error: this binary's kinds:", err)
		return cli.CodeFailed
	}
	env, err := config.System()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return cli.CodeFailed
	}
	app := &cli.App{IO: iostreams.System(os.Getenv), Env: env, Commit: commit, Services: Services(kits), Extras: kits.Commands()}
	program := kits.Program(os.Args[0])
	return program.Exit(app.Main(ctx, program.Args(os.Args[1:])))
}

// Services is all the work that commands start.
func Services(kits kit.List) cli.Services {
	s := roles.Services(kits)
	s.Kinds = cli.Kinds{
		List:  func() []cli.KindInfo { return list(kits) },
		New:   func(o cli.KindNewOptions) (*cli.KindNew, error) { return scaffold.New(kits, o) },
		Build: scaffold.Build,
	}
	return s
}

func list(kits kit.List) []cli.KindInfo {
	out := []cli.KindInfo{}
	for _, k := range kits {
		x := cli.KindInfo{Kind: k.Kind, Sets: append([]string{}, k.Sets...), Samples: []string{}}
		if k.Demo != nil {
			x.Arena = k.Demo().ID
		}
		for _, s := range k.Samples {
			x.Samples = append(x.Samples, s.Name)
		}
		out = append(out, x)
	}
	return out
}
