package probe

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

func TestMain(m *testing.M) {
	netns.MaybeChild()
	os.Exit(m.Run())
}

func TestProbe(t *testing.T) {
	ctx := context.Background()
	root, err := rootfs.Ensure(ctx, rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "runc", "bwrap"} {
		t.Run("want "+want, func(t *testing.T) {
			if want == "runc" && os.Geteuid() != 0 {
				t.Skip("LOUD: runc needs root, this test runs without")
			}
			dir := t.TempDir()
			d, reports, err := Probe(ctx, Config{Rootfs: root, StateDir: dir, Want: want})
			for _, r := range reports {
				t.Logf("%s %s ok=%v %s", r.Driver.Name, r.Driver.Version, r.OK, r.Err)
				for _, c := range r.Checks {
					t.Logf("  %-20s %v %s", c.Name, c.OK, c.Detail)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if want != "" && d.Info().Name != want {
				t.Fatalf("got %s", d.Info().Name)
			}
			last := reports[len(reports)-1]
			if len(last.Checks) < 15 {
				t.Fatalf("only %d checks", len(last.Checks))
			}
			if ents, _ := os.ReadDir(dir + "/boxes"); len(ents) != 0 {
				t.Fatalf("left behind: %v", ents)
			}
		})
	}
}

func TestProbeRefuses(t *testing.T) {
	// A machine without any of the programs.
	t.Setenv("PATH", t.TempDir())
	d, reports, err := Probe(context.Background(), Config{Rootfs: "/", StateDir: t.TempDir()})
	if d != nil || !errors.Is(err, sandbox.ErrNoDriver) || !strings.Contains(err.Error(), "apt-get install") {
		t.Fatalf("%v, %v", d, err)
	}
	if len(reports) != 2 {
		t.Fatalf("%+v", reports)
	}
	if _, _, err := Probe(context.Background(), Config{Want: "none"}); !errors.Is(err, sandbox.ErrNoDriver) {
		t.Fatal(err)
	}
}
