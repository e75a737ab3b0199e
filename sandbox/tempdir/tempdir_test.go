package tempdir

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	mine, err := Make("grade")
	if err != nil {
		t.Fatal(err)
	}
	// A process that was killed, and one that has its number now.
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	dead := filepath.Join(tmp, "agon-try-"+strconv.Itoa(pid)+"-123-456")
	reused := filepath.Join(tmp, "agon-try-"+strconv.Itoa(os.Getpid())+"-1-456")
	other := []string{"agon-try-1", "agon", "someone-1-2-3"}
	for _, d := range append([]string{dead, reused}, filepath.Join(tmp, other[0]), filepath.Join(tmp, other[1]), filepath.Join(tmp, other[2])) {
		if err := os.MkdirAll(filepath.Join(d, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n, err := Sweep("")
	if err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	for _, d := range []string{mine, filepath.Join(tmp, other[0]), filepath.Join(tmp, other[1]), filepath.Join(tmp, other[2])} {
		if _, err := os.Stat(d); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}
