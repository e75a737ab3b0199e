// Package harbor is the kind whose tasks are Harbor task directories: an agent
// works in a box with the task's files, and the task's own verifier, in a fresh
// box, says what the work is worth. README.md says what is trusted and why.
package harbor

import (
	"embed"
	"path/filepath"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/harbor/commands"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// files are the kind's own: samples/NAME are agents that the demo enters,
// template is what `agon agent new harbor` writes, tasks/SET/TASK are the tasks.
//
//go:embed all:samples all:template all:tasks
var files embed.FS

// arena is what `agon up --arena harbor.toml` opens.
//
//go:embed harbor.toml
var arena []byte

// Kit is what a binary knows of the kind.
func Kit() kit.Kit {
	return kit.Kit{
		Kind:      name,
		New:       func(p kit.Parts) kind.Kind { return made(p) },
		EntryName: agentFile,
		Data:      files,
		Sets:      []string{"basic"},
		Samples:   []kit.Sample{{Name: "solver"}, {Name: "forger"}, {Name: "shell", Model: true}},
		Script:    func() []byte { return kit.SampleScript(files, "shell") },
		CheckTask: checkTask,
		Adopts:    adopts,
		TaskInit:  initTask,
		Commands: func(a *cli.App, l kit.List) []cli.Extra {
			return commands.Of(a, l, commands.Tasks{Check: checkTask, NeedsImage: needsImage, Unbuilt: unbuilt}, writeTools)
		},
		Page: page(),
		Demo: kit.ShippedArena(arena),
	}
}

func made(p kit.Parts) harbor {
	h := harbor{rootfs: p.Rootfs, layers: filepath.Join(kit.CacheDir(p.Options), "layers")}
	switch names := kit.ModelNames(p.Model); {
	case len(names) > 0:
		h.model = names[0]
	case !p.Keyed:
		h.model = agon.Script
	}
	return h
}
