package play

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/probe"
)

// state is where boxes of this test process live.
var state string

// beside is how many tests run side by side, where the command does not say: a box
// waits for its parts longer than it works.
const beside = 6

func TestMain(m *testing.M) {
	netns.MaybeChild()
	flag.Parse()
	var err error
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		err = flag.Set("test.parallel", strconv.Itoa(beside))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if state, err = os.MkdirTemp("", "agon-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.Chmod(state, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(state)
	os.Exit(code)
}

var drivers struct {
	sync.Mutex
	made map[string]sandbox.Driver
}

// openDriver probes once per process. AGON_DRIVER names the driver; without it runc plays,
// whose boxes cost a third less than gVisor's, and where it cannot run the strongest.
func openDriver(t testing.TB, rootfs string) sandbox.Driver {
	t.Helper()
	drivers.Lock()
	defer drivers.Unlock()
	if d := drivers.made[rootfs]; d != nil {
		return d
	}
	want := os.Getenv("AGON_DRIVER")
	d, reports, err := probe.Probe(context.Background(), probe.Config{Rootfs: rootfs, StateDir: state, Want: cmp.Or(want, "runc")})
	if err != nil && want == "" {
		d, reports, err = probe.Probe(context.Background(), probe.Config{Rootfs: rootfs, StateDir: state})
	}
	if err != nil {
		t.Fatalf("no box, nothing can be tested: %v %+v", err, reports)
	}
	drivers.made = map[string]sandbox.Driver{rootfs: d}
	return d
}
