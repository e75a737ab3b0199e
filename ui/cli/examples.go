package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Names of a kind and of an arena that examples show. The commands do not know
// which there are: root puts in those that this binary ships first.
const (
	exampleKind  = "{kind}"
	exampleArena = "{arena}"
)

// fillExamples puts names into the examples of cmd and all below it.
func (a *App) fillExamples(cmd *cobra.Command) {
	a.example = strings.NewReplacer(exampleKind, "KIND", exampleArena, "ARENA")
	if list := a.Services.Kinds.List; list != nil {
		for _, k := range list() {
			if k.Arena != "" {
				a.example = strings.NewReplacer(exampleKind, k.Kind, exampleArena, k.Arena)
				break
			}
		}
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Example = a.example.Replace(c.Example)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(cmd)
}
