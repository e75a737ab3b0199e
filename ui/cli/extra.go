package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Extra is a command that a kind adds to the command line.
type Extra struct {
	// Parent is the command below which it stands, as words ("task generate");
	// "" is agon itself. An extra before it in the list may have made the parent.
	Parent string
	// Group is the heading below which `agon --help` lists it: play, run or own.
	// Only without a parent.
	Group string
	// Command is added to the parent, if it is not nil; where the parent has one of
	// its name, the commands below it are added to that.
	Command *cobra.Command
	// Extend changes the parent itself: it may add flags, and a branch in front of
	// its RunE.
	Extend func(parent *cobra.Command)
}

// merged adds the commands below c to those below a command of the same name that
// another kind has put there: kinds may share a noun.
func merged(at, c *cobra.Command) bool {
	for _, there := range at.Commands() {
		if there.Name() == c.Name() && c.HasSubCommands() {
			there.Example += "\n" + c.Example
			there.AddCommand(c.Commands()...)
			return true
		}
	}
	return false
}

// addExtras puts the kinds' commands into the tree.
func addExtras(root *cobra.Command, list []Extra) {
	for _, x := range list {
		at := root
		for word := range strings.FieldsSeq(x.Parent) {
			var next *cobra.Command
			for _, c := range at.Commands() {
				if c.Name() == word {
					next = c
				}
			}
			if next == nil {
				panic("cli: no command " + x.Parent) // a programming error
			}
			at = next
		}
		if x.Command != nil {
			if at == root {
				x.Command.GroupID = x.Group
			}
			if !merged(at, x.Command) {
				at.AddCommand(x.Command)
			}
		}
		if x.Extend != nil {
			x.Extend(at)
		}
	}
}
