package pack_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/netns"
)

// The test binary is also a validator without a platform, in a process of its own.
func TestMain(m *testing.M) {
	netns.MaybeChild()
	if conf := os.Getenv("AGON_TEST_DISCOVER"); conf != "" {
		if err := discoverChild(conf); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func options(dir string) kit.Options { return kittest.Options(dir, kinds.All()) }
