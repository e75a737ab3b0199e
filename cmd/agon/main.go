// Command agon runs agent arenas. It only puts the parts together: the
// commands (package cli) and the work they start (package internal/run).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/cli/config"
	"github.com/agon-arena/agon/cli/iostreams"
	"github.com/agon-arena/agon/internal/run"
	"github.com/agon-arena/agon/sandbox/netns"
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
	app := &cli.App{IO: iostreams.System(os.Getenv), Env: env, Commit: commit, Services: run.Services()}
	args, stock := cli.StockArgs(os.Args[0], os.Args[1:])
	code := app.Main(ctx, args)
	if stock {
		return cli.StockExit(code)
	}
	return code
}
