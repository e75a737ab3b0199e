package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/internal/cgroup"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runsc"
)

func TestMain(m *testing.M) {
	netns.MaybeChild()
	if dir := os.Getenv("AGON_TEST_CRASH"); dir != "" {
		crash(dir, os.Getenv("AGON_TEST_DRIVER"), os.Getenv("AGON_TEST_ROOTFS"))
	}
	os.Exit(m.Run())
}

// crash starts a box with a busy command in it and waits to be killed.
func crash(dir, driver, root string) {
	ctx := context.Background()
	d, _, err := Probe(ctx, Config{Rootfs: root, StateDir: dir, Want: driver})
	if err != nil {
		log.Fatal(err)
	}
	b, err := d.Start(ctx, sandbox.Spec{Name: "crash", Rootfs: root, Mounts: []sandbox.Mount{
		{Kind: sandbox.MountOverlay, Source: dir, Target: "/repo"}, {Kind: sandbox.MountScratch, Target: "/work"},
	}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "echo up; sleep 1000 & sleep 1000"}, Stdout: os.Stdout})
	log.Fatal(err)
}

// A killed process leaves boxes; they end by themselves and Sweep removes them,
// but never those of a living process.
func TestSweep(t *testing.T) {
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for _, driver := range []string{"runc", "bwrap"} {
		t.Run(driver, func(t *testing.T) {
			if driver == "runc" && os.Geteuid() != 0 {
				t.Skip("LOUD: runc needs root, this test runs without")
			}
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Env = append(os.Environ(), "AGON_TEST_CRASH="+dir, "AGON_TEST_DRIVER="+driver, "AGON_TEST_ROOTFS="+root)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if l, err := bufio.NewReader(out).ReadString('\n'); l != "up\n" {
				t.Fatalf("%q, %v", l, err)
			}
			ents, err := os.ReadDir(dir + "/boxes")
			if err != nil || len(ents) != 1 {
				t.Fatalf("%v, %v", ents, err)
			}
			if _, err := Sweep(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(dir + "/boxes/" + ents[0].Name() + "/owner"); err != nil {
				t.Fatalf("swept the box of a living process: %v", err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			h, err := cgroup.Detect()
			if err != nil {
				t.Fatal(err)
			}
			g := h.Group(ents[0].Name())
			procs := g.Procs()
			if n, err := Sweep(dir); n < 1 || err != nil { // others may have left some too
				t.Fatalf("swept %d, %v", n, err)
			}
			for _, p := range procs {
				if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p)); err == nil && strings.Contains(string(b), "sleep") {
					t.Errorf("process %d is still there", p)
				}
			}
			if left, _ := os.ReadDir(dir + "/boxes"); len(left) != 0 {
				t.Errorf("left %v", left)
			}
			if b, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(b), dir) {
				t.Error("left mounts")
			}
			if slices.Contains(h.List(), ents[0].Name()) {
				t.Error("left a cgroup")
			}
			if _, err := Sweep(dir); err != nil {
				t.Errorf("second sweep: %v", err)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	ctx := context.Background()
	root, err := rootfs.Ensure(ctx, rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "runsc", "runc", "bwrap"} {
		t.Run("want "+want, func(t *testing.T) {
			if want != "bwrap" && want != "" && os.Geteuid() != 0 {
				t.Skipf("LOUD: %s needs root, this test runs without", want)
			}
			if _, built := runsc.Find(runsc.BuildConfig{}); want == "runsc" && !built {
				t.Skip("LOUD: gVisor is not built here; run make setup")
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
	d, reports, err := Probe(context.Background(), Config{Rootfs: "/", StateDir: t.TempDir(), Runsc: t.TempDir() + "/runsc"})
	if d != nil || !errors.Is(err, sandbox.ErrNoDriver) || !strings.Contains(err.Error(), "apt-get install") {
		t.Fatalf("%v, %v", d, err)
	}
	if len(reports) != 3 {
		t.Fatalf("%+v", reports)
	}
	if _, _, err := Probe(context.Background(), Config{Want: "none"}); !errors.Is(err, sandbox.ErrNoDriver) {
		t.Fatal(err)
	}
}
