package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

func whole(t *testing.T) (*cli.App, *iostreams.Buffer) {
	t.Helper()
	s, _, errOut := iostreams.Test("")
	home, kits := t.TempDir(), kinds.All()
	return &cli.App{
		IO: s, Now: time.Now, Services: app.Services(kits), Extras: kits.Commands(),
		Env: config.Env{Getenv: func(string) string { return "" }, Dir: home, Home: home, UserCacheDir: home},
	}, errOut
}

// The references in docs are those of this binary: `make docs` writes them.
func TestDocs(t *testing.T) {
	a, errOut := whole(t)
	dir := t.TempDir()
	if code := a.Main(t.Context(), []string{"docs", dir}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, name := range []string{"cli.md", "openapi.json", "environments.openapi.json"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("docs/%s is not what this binary says of itself: make docs writes it anew", name)
		}
	}
}

// Each command of a kind has a short text and an example that shows it, as those of agon itself.
func TestEveryCommandOfAKindHelps(t *testing.T) {
	a, _ := whole(t)
	n := 0
	for _, f := range a.Extras {
		for _, x := range f(a) {
			var walk func(c *cobra.Command)
			walk = func(c *cobra.Command) {
				n++
				if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.RunE == nil || !strings.Contains(c.Example, strings.TrimSpace(x.Parent+" "+c.CommandPath())) {
					t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
				}
				for _, sub := range c.Commands() {
					walk(sub)
				}
			}
			if x.Command != nil {
				walk(x.Command)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d commands", n)
	}
}
