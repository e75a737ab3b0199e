// Package sprout is an arena of the kind sprout: agents are shown numbers and
// must return their sum. README.md says what to change.
package sprout

import (
	"embed"

	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
)

// files are the kind's own: samples/NAME are agents that the demo enters,
// template is what `agon agent new sprout` writes, tasks/SET/TASK are the tasks.
//
//go:embed all:samples all:template all:tasks
var files embed.FS

// arena is what `agon up --arena sprout.toml` opens.
//
//go:embed sprout.toml
var arena []byte

// Kit is what a binary knows of the kind. Only Kind and New are required; every
// other ability is a field of kit.Kit, with a comment that says what it does.
func Kit() kit.Kit {
	return kit.Kit{
		Kind:      name,
		New:       func(p kit.Parts) kind.Kind { return sprout{rootfs: p.Rootfs} },
		EntryName: agentFile,
		Data:      files,
		Sets:      []string{"first"},
		Samples:   []kit.Sample{{Name: "adder"}},
		// Names and sizes. A function of yours may also read the files, with Task.ReadFile.
		CheckTask: task.Form{Files: []string{inputFile, answerFile}, Limit: maxTaskFile}.Check,
		Demo:      kit.ShippedArena(arena),
	}
}
