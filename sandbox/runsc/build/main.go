// Command build makes runsc at the pinned version, or does nothing if it is
// cached, and prints its path. scripts/runsc.sh runs it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/agon-arena/agon/sandbox/runsc"
)

func main() {
	bin, err := runsc.Ensure(context.Background(), runsc.BuildConfig{Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(bin)
}
