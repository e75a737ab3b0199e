// Command agon runs agent arenas. It only puts the parts together: the commands
// (package cli, and those of the kinds) and the work they start (package roles).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// commit is the revision that was built; the linker sets it.
var commit string

func main() {
	netns.MaybeChild() // a helper process of boxes ends here
	os.Exit(start())
}

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, the second ends at once.
	context.AfterFunc(ctx, stop)
	env, err := config.System()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return cli.CodeFailed
	}
	kits := kinds.All()
	app := &cli.App{IO: iostreams.System(os.Getenv), Env: env, Commit: commit, Services: roles.Services(kits), Extras: kits.Commands()}
	program := kits.Program(os.Args[0])
	return program.Exit(app.Main(ctx, program.Args(os.Args[1:])))
}
