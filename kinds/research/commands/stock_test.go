package commands_test

import (
	"slices"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/commands"
	"github.com/agon-arena/agon/ui/cli"
)

// Under the name of the public client the binary is this client, else it is agon.
func TestProgram(t *testing.T) {
	list := kit.List{{Kind: "other"}, {Kind: "research", Programs: []kit.Program{commands.Stock()}}}
	for path, want := range map[string]struct {
		args []string
		code int
	}{
		"/usr/local/bin/bitsota-research-agent": {[]string{"research", "list-tasks"}, 1},
		"agon":                                  {[]string{"list-tasks"}, cli.CodeRefused},
		"bitsota-research-agent/agon":           {[]string{"list-tasks"}, cli.CodeRefused},
	} {
		p := list.Program(path)
		if got := p.Args([]string{"list-tasks"}); !slices.Equal(got, want.args) {
			t.Errorf("%s: %q, want %q", path, got, want.args)
		}
		if got := p.Exit(cli.CodeRefused); got != want.code {
			t.Errorf("%s: exit code %d, want %d", path, got, want.code)
		}
		if got := p.Exit(cli.CodeOK); got != 0 {
			t.Errorf("%s: exit code %d of a success", path, got)
		}
	}
}
