package probe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox/rootfs"
)

// container does what an engine does for the image of deploy/ with its one
// option: own mounts, processes, IPC and host name, an own /proc with the parts
// covered that engines cover (unless $1 is bare), no cgroup to write, uid 1000
// without any capability or the way to one.
const container = `
set -e
mount --make-rprivate /
mount -t proc proc /proc
if [ "$1" = covered ]; then
	for p in bus fs irq sys sysrq-trigger; do [ -e /proc/$p ] || continue; mount --bind /proc/$p /proc/$p; mount -o remount,bind,ro /proc/$p; done
	for p in acpi scsi; do [ ! -d /proc/$p ] || mount -t tmpfs -o ro tmpfs /proc/$p; done
	for p in kcore keys timer_list; do [ ! -e /proc/$p ] || mount --bind /dev/null /proc/$p; done
fi
shift
mount -t tmpfs -o ro tmpfs /sys/fs/cgroup
mount -t tmpfs -o mode=1777 tmpfs /tmp
exec setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs "$@"
`

// The shipped binary finds a sandbox in a container without privileges.
func TestBinaryInAContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("LOUD: making the container needs root; this test did not run")
	}
	if _, err := rootfs.Ensure(t.Context(), rootfs.Config{Dir: "/var/cache/agon/rootfs", Log: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "agon-container-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bin, home := filepath.Join(dir, "agon"), filepath.Join(dir, "home")
	build := exec.Command("go", "build", "-o", bin, "github.com/agon-arena/agon/cmd/agon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	for proc, want := range map[string]bool{"covered": true, "bare": false} {
		cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", "--kill-child", "sh", "-c", container, "sh", proc, bin, "doctor", "-o", "json")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "AGON_DATA=" + home + "/data"}
		out, _ := cmd.Output() // other things than the sandbox may be missing there
		var checks []struct{ Name, Status, Detail string }
		if err := json.Unmarshal(out, &checks); err != nil {
			t.Fatalf("%s /proc: %v: %.500s", proc, err, out)
		}
		found := ""
		for _, c := range checks {
			if c.Name == "sandbox" {
				found = c.Status + " " + c.Detail
			}
		}
		t.Log(proc, found)
		if !strings.HasPrefix(found, "ok bwrap") || strings.Contains(found, "no_proc") != want {
			t.Errorf("%s /proc: %q", proc, found)
		}
	}
}
