package law

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	readsClock = regexp.MustCompile(`\btime\.(Now|Until)\(`)
	realTime   = regexp.MustCompile(`Deadline\(|//nolint:forbidigo // \S`)
)

// A library has its clock from its Config, so that tests and replays can set it.
// Real time is left to deadlines of sockets, and to lines that say why.
func TestOneClock(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("git", "ls-files", "-z", "*.go")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	n := 0
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		top, _, _ := strings.Cut(name, "/")
		suite := strings.HasSuffix(filepath.Dir(name), "test") || strings.Contains(name, "test/")
		if strings.HasSuffix(name, "_test.go") || suite || top == "cmd" || top == "bench" || top == "interop" || strings.Contains(name, "/data/") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\npackage main\n") {
			continue
		}
		n++
		for i, line := range strings.Split(string(b), "\n") {
			if code, _, _ := strings.Cut(line, "//"); readsClock.MatchString(code) && !realTime.MatchString(line) {
				t.Errorf("%s:%d: a library reads the machine's clock: take Config.Now, or say why by //nolint:forbidigo // REASON", name, i+1)
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d files were read", n)
	}
}
