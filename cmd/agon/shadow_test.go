package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A command that has a flag of a name that all have would hide it: what people type everywhere would
// mean something else there. Three commands write a file and say so: their -o names it, as their users know it.
func TestNoFlagHidesAnother(t *testing.T) {
	files := map[string]bool{"agon build": true, "agon pack build": true, "agon pack episode": true}
	a, _ := whole(t)
	root := a.Tree()
	seen := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			seen++
			if f.Name == "output" && files[c.CommandPath()] || c == root {
				return
			}
			for up := c.Parent(); up != nil; up = up.Parent() {
				if up.PersistentFlags().Lookup(f.Name) != nil || f.Shorthand != "" && up.PersistentFlags().ShorthandLookup(f.Shorthand) != nil {
					t.Errorf("%s: --%s (-%s) hides the flag of %s", c.CommandPath(), f.Name, f.Shorthand, up.CommandPath())
				}
			}
		})
		for _, s := range c.Commands() {
			walk(s)
		}
	}
	walk(root)
	if seen < 100 {
		t.Errorf("only %d flags were looked at", seen)
	}
}
