package research_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// The test binary is also a validator and the command line, in processes of their own.
func TestMain(m *testing.M) {
	netns.MaybeChild()
	if url := os.Getenv("AGON_TEST_VALIDATOR"); url != "" {
		if err := playAs(os.Getenv("AGON_TEST_AS"), url, os.Getenv("AGON_TEST_WALLETS"), os.Getenv("AGON_TEST_DATA")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("AGON_TEST_CLI") != "" {
		env, err := config.System()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(app(iostreams.System(os.Getenv), env).Main(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func app(s *iostreams.IO, env config.Env) *cli.App {
	kits := kinds.All()
	return &cli.App{IO: s, Env: env, Services: roles.Services(kits), Extras: kits.Commands()}
}

func options(dir string) kit.Options { return kittest.Options(dir, kinds.All()) }
