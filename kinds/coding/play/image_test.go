package play

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/rootfs/rootfstest"
)

// A task whose image has no git, no shell and no Python is played and graded in
// it, by agon's own programs, under every driver of this machine.
func TestTaskInAnImage(t *testing.T) {
	t.Parallel()
	k, _ := newKind(t)
	images := rootfs.OpenImages(t.TempDir(), nil)
	// What the agent sees of the image: its file, its variable.
	ref := rootfstest.Layout(t, map[string]string{"srv/word": "of the image", "etc/passwd": "app:x:4321:4321::/:/bin/sh\n"},
		&v1.Config{Env: []string{"PATH=/nowhere", "FROM_IMAGE=yes", "TZ=Mars/Olympus"}, User: "app", WorkingDir: "/srv"})
	for _, name := range []string{"runsc", "runc", "bwrap"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := driverNamed(t, k.cfg.Rootfs, name)
			e := newEnv(t, d, smallTask(t, "semver"), "import os, sys\n"+sample(t, "repair")+`
print("seen", open("/srv/word").read(), os.environ["FROM_IMAGE"], os.environ["TZ"], os.getuid(), sys.executable, os.path.exists("/usr/bin/python3"))
`)
			tk := *e.task
			tk.Config.Environment.Image = ref
			e.task = &tk
			e.roots = rootfs.NewRoots(k.cfg.Rootfs, images)
			rec, s := playAndJudge(t, e, k, &tk)
			if !s.Solved {
				t.Errorf("%s %s: %s\n%s\n%s", rec.Outcome, rec.Detail, s.Detail, rec.Files[FileStdout], rec.Files[FileStderr])
			}
			if out := string(rec.Files[FileStdout]); !strings.Contains(out, "seen of the image yes UTC 4321 /opt/agon/bin/python3 False") {
				t.Errorf("%s", out)
			}
		})
	}
}

// An image that cannot be had is an error that says which and why.
func TestTaskWithoutItsImage(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	e := newEnv(t, d, smallTask(t, "semver"), sample(t, "repair"))
	tk := *e.task
	tk.Config.Environment.Image = "oci:/nowhere@sha256:" + strings.Repeat("ab", 32)
	e.task, e.roots = &tk, rootfs.NewRoots(k.cfg.Rootfs, rootfs.OpenImages(t.TempDir(), nil))
	r := runSpec()
	if _, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r); !errors.Is(err, rootfs.ErrImage) || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("%v", err)
	}
}

// driverNamed is one driver, or a test that did not run and says so.
func driverNamed(t *testing.T, root, name string) sandbox.Driver {
	t.Helper()
	d, reports, err := probe.Probe(context.Background(), probe.Config{Rootfs: root, StateDir: state, Want: name})
	if errors.Is(err, sandbox.ErrNoDriver) && os.Getenv("AGON_DRIVER") != name {
		t.Skipf("LOUD: this machine cannot have %s, this test did not run: %+v", name, reports)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}
