// Command build makes runsc at the pinned version, or does nothing if it is
// cached, and prints its path; with -all also those of the programs beside it
// (the first process of each box, the launcher), which a machine without a go tool needs too. scripts/runsc.sh runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/agon-arena/agon/sandbox/internal/entry"
	"github.com/agon-arena/agon/sandbox/runsc"
)

func main() {
	all := flag.Bool("all", false, "print the paths of the programs beside it, too")
	flag.Parse()
	if err := build(context.Background(), *all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build(ctx context.Context, all bool) error {
	bin, err := runsc.Ensure(ctx, runsc.BuildConfig{Log: os.Stderr})
	if err != nil {
		return err
	}
	fmt.Println(bin)
	if !all {
		return nil
	}
	for _, ensure := range []func(context.Context, string) (string, error){entry.Ensure, entry.Launcher} {
		program, err := ensure(ctx, "")
		if err != nil {
			return err
		}
		fmt.Println(program)
	}
	return nil
}
