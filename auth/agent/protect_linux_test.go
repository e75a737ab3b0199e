package agent

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A protected process dumps no core and cannot be traced; where its memory could
// not be locked, that is said.
func TestProtect(t *testing.T) {
	if os.Getenv("AGON_TEST_PROTECT") != "" {
		err := Protect()
		dumpable, perr := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		var core unix.Rlimit
		lerr := unix.Getrlimit(unix.RLIMIT_CORE, &core)
		if perr != nil || dumpable != 0 || lerr != nil || core.Max != 0 || core.Cur != 0 {
			t.Errorf("dumpable %d %v, core %+v %v", dumpable, perr, core, lerr)
		}
		status, rerr := os.ReadFile("/proc/self/status")
		if rerr != nil {
			t.Fatal(rerr)
		}
		locked := !strings.Contains(string(status), "VmLck:\t       0 kB")
		if locked == (err != nil && strings.Contains(err.Error(), "lock memory")) {
			t.Errorf("locked %v, and said: %v", locked, err)
		}
		if err != nil && (strings.Contains(err.Error(), "core") || strings.Contains(err.Error(), "tracing")) {
			t.Error(err)
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestProtect$", "-test.v")
	cmd.Env = append(os.Environ(), "AGON_TEST_PROTECT=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
