package law

import (
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
	n := 0
	for name, b := range tracked(t, "*.go") {
		top, _, _ := strings.Cut(name, "/")
		suite := strings.HasSuffix(filepath.Dir(name), "test") || strings.Contains(name, "test/")
		if strings.HasSuffix(name, "_test.go") || suite || top == "cmd" || top == "bench" || top == "interop" || strings.Contains(name, "/data/") {
			continue
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
