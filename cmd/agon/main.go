// Command agon runs agent arenas. It only puts the parts together: the
// commands (package cli) and the work they start (package internal/run).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/cli/config"
	"github.com/agon-arena/agon/cli/iostreams"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/samples"
)

// commit is the revision that was built; the linker sets it.
var commit string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, the second ends at once.
	context.AfterFunc(ctx, stop)
	env, err := config.System()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return cli.CodeFailed
	}
	app := &cli.App{IO: iostreams.System(os.Getenv), Env: env, Commit: commit, Services: services()}
	return app.Main(ctx, os.Args[1:])
}

// services brings the work behind the commands. A part that is left out makes
// its command say that this binary lacks it.
func services() cli.Services {
	return cli.Services{
		Calc:      calc.New(slices.Concat(auth.Rules(), incentive.Rules(), ledger.Rules())...),
		Templates: samples.Templates(),
	}
}
