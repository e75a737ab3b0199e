package commands_test

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agon-arena/agon/kinds/research/commands"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agon": func() {
		env, err := config.System()
		if err != nil {
			panic(err)
		}
		app := &cli.App{IO: iostreams.System(os.Getenv), Env: env, Extras: []func(*cli.App) []cli.Extra{func(a *cli.App) []cli.Extra { return commands.Of(a, nil, nil) }}}
		os.Exit(app.Main(context.Background(), os.Args[1:]))
	}})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("NO_COLOR", "1")
			e.Setenv("GORACE", "atexit_sleep_ms=0") // the detector would sleep a second at each exit
			return os.MkdirAll(e.WorkDir+"/home", 0o700)
		},
	})
}
