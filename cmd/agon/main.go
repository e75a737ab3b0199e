// Command agon runs agent arenas. It is package app over the kinds of this
// repository.
package main

import (
	"os"

	"github.com/agon-arena/agon/cmd/agon/app"
	_ "github.com/agon-arena/agon/internal/starting"
	"github.com/agon-arena/agon/kinds"
)

// commit is the revision that was built; the linker sets it.
var commit string

func main() { os.Exit(app.Main(commit, kinds.All())) }
