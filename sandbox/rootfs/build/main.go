// Command build makes the boxes' root file system and prints its directory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/agon-arena/agon/sandbox/rootfs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := rootfs.Config{Log: os.Stderr}
	if len(os.Args) > 1 {
		c.Image = os.Args[1]
	}
	dir, err := rootfs.Ensure(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
