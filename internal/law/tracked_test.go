package law

import (
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repo is the root of the checkout.
const repo = "../.."

// tracked goes through the files that git knows by patterns: names from the root,
// and their bytes. What was removed and is still in git's index is passed over.
func tracked(t *testing.T, patterns ...string) iter.Seq2[string, []byte] {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", repo, "ls-files", "-z", "--"}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return func(yield func(string, []byte) bool) {
		for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
			b, err := os.ReadFile(filepath.Join(repo, name))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if !yield(name, b) {
				return
			}
		}
	}
}
