package harbor

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon/sandbox"
)

// A verifier that says as-agent has programs of the contestant run beside it, in its own box, as another user. Those
// may do with the work what they like while the verifier reads and writes there. So they can neither read the tests
// nor lead the verifier elsewhere: they make no links, no link that the contestant left leads out of the work wherever
// it is moved to, and what would reach the verifier's own programs cannot be written.

// agentd starts programs as the contestant's user, in the verifier's box.
//
//go:embed box/agentd.py
var agentdPy string

const (
	programUID = 60_999     // images have no user of this number
	shownTests = "as-agent" // a directory of the tests that programs may read
)

// startPrograms starts the helper behind as-agent. stop ends it.
func startPrograms(ctx context.Context, box sandbox.Box, s *stage) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	errs := &ending{limit: 1 << 10}
	go func() {
		defer close(done)
		// How it ends says nothing: programs of the contestant may kill it.
		_, _ = box.Exec(ctx, sandbox.Cmd{Args: []string{s.python(), "-I", "-S", "-c", agentdPy}, Dir: "/tmp", UID: programUID, Stdout: errs, Stderr: errs, Untrusted: true})
	}()
	stop = func() {
		cancel()
		<-done
	}
	wait := `i=0; while [ ! -e /tmp/.as-agent ]; do i=$((i+1)); [ $i -lt 600 ] || exit 1; sleep 0.05; done`
	if err := prepare(ctx, box, wait); err != nil {
		stop()
		return nil, fmt.Errorf("%w: as-agent: %s", err, errs.b)
	}
	return stop, nil
}

// hideTests lays the tests of dir out in a box, below a directory of the verifier's: programs read only what they are shown.
func hideTests(ctx context.Context, box sandbox.Box, dir string) error {
	files, err := tarFS(os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("lay out tests: %w", err)
	}
	script := fmt.Sprintf("umask 022; tar -C %[1]s -xf - && find %[1]s -mindepth 1 -maxdepth 1 ! -name %[2]s -exec chmod -R go-rwx,u-w {} + && chmod 711 %[1]s", testsDir, shownTests)
	if err := prepareFrom(ctx, box, script, bytes.NewReader(files)); err != nil {
		return fmt.Errorf("lay out tests: %w", err)
	}
	return nil
}

// settled tells whether a link still leads to work after a program has moved it, or has moved another link of its path.
func settled(to string) bool {
	rest := strings.Split(to, "/")
	for len(rest) > 0 && (rest[0] == "" || rest[0] == "." || rest[0] == "..") {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return false // of a directory above: moved up, it is the root
	}
	for _, name := range rest {
		if name == ".." || slices.Contains([]string{"proc", "dev", "logs", "tests", "solution", "verifier", path.Base(agentDir)}, name) {
			return false
		}
	}
	return true
}

// guarded are directories in the work from which the verifier's own programs take code: those of PATH, and what belongs to them.
func (s *stage) guarded() (out []string) {
	for _, bin := range filepath.SplitList(s.root.Path) {
		for _, top := range []string{homeDir, s.dir} {
			if bin = path.Clean(bin); !below(top, bin) || bin == top {
				continue
			}
			if prefix := path.Dir(bin); prefix != homeDir && !below(prefix, s.dir) {
				bin = prefix
			}
			if !slices.Contains(out, bin) {
				out = append(out, bin)
			}
		}
	}
	return out
}

// keep is a script that protects the paths it is given from the contestant's user, who can then neither change
// what lies there nor rename a directory above it.
const keep = `for at; do [ -e "$at" ] || mkdir -p "$at" 2>/dev/null || :
chmod -R o-w "$at" 2>/dev/null || :
while at=${at%/*}; [ -n "$at" ]; do chmod +t "$at" 2>/dev/null || :; done; done`

// keepBare does it for directories of repositories, by their HEAD.
const keepBare = `for at; do at=${at%/*}; [ ! -d "$at/objects" ] || sh -c "$KEEP" keep "$at"; done`

// shared lets the contestant's user work in the home and the work directory as its maker did, but for what the verifier's
// programs take code from, and for repositories, whose settings name programs.
func (s *stage) shared() string {
	quote := func(p string) string { return "'" + strings.ReplaceAll(p, "'", `'\''`) + "'" }
	tops := quote(homeDir) + " " + quote(s.dir)
	script := "chmod -R o+rwX " + tops + " 2>/dev/null\nexport KEEP=" + quote(keep) + "\n" +
		"find " + tops + ` -name .git -prune -exec sh -c "$KEEP" keep {} + -o -name HEAD -type f -exec sh -c ` + quote(keepBare) + " keep {} + 2>/dev/null || :\n"
	for _, dir := range s.guarded() {
		script += `sh -c "$KEEP" keep ` + quote(dir) + " || exit 1\n"
	}
	return script
}
