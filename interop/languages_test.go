//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// languages are small tasks in root file systems that this machine makes without a
// daemon, of a newer Debian than its own: packages, what solves the task, and its test.
var languages = map[string]struct{ packages, solution, test string }{
	"python": {"python3", `cat > answer.py <<'E'
from copy import replace
from dataclasses import dataclass

@dataclass(frozen=True)
class P:
    x: int
    y: int

def moved(p, x):
    return replace(p, x=x)
E
`, `python3 -c '
import sys
assert sys.version_info[:2] == (3, 13), sys.version
sys.path.insert(0, "/app")
from answer import P, moved
assert moved(P(1, 2), 5) == P(5, 2)'
`},
	"node": {"nodejs", `echo 'module.exports = (xs) => [...new Set(xs)].toSorted()' > answer.js
`, `node -e '
const assert = require("assert")
assert.equal(process.versions.node.split(".")[0], "20")
assert.deepEqual(require("/app/answer.js")([3, 1, 3, 2]), [1, 2, 3])'
`},
	"go": {"golang-go", `cat > answer.go <<'E'
package main

func Sum[T ~int | ~float64](xs ...T) (s T) {
	for _, x := range xs {
		s += x
	}
	return s
}
E
`, `mkdir -p /tmp/w && cp /app/answer.go /tmp/w/ && cd /tmp/w && cat > main.go <<'E'
package main

func main() {
	if Sum(1, 2, 3) != 6 || Sum(0.5, 0.5) != 1 {
		panic("wrong")
	}
}
E
GOCACHE=/tmp/cache GOTOOLCHAIN=local GO111MODULE=off go build -o /tmp/w/sum . && /tmp/w/sum
`},
	"rust": {"rustc", `echo 'pub fn fib(n: u32) -> u64 { (0..n).fold((0u64, 1u64), |(a, b), _| (b, a + b)).0 }' > answer.rs
`, `mkdir -p /tmp/w && cp /app/answer.rs /tmp/w/ && cd /tmp/w && cat > t.rs <<'E'
mod answer;
#[test]
fn fib() { assert_eq!(answer::fib(50), 12586269025); }
E
rustc --test -o t t.rs && ./t
`},
}

// Tasks in root file systems of Python 3.13, Node 20, Go and Rust are played under every driver.
func TestLanguages(t *testing.T) {
	dir := t.TempDir()
	agon := func(driver string, v any, args ...string) {
		t.Helper()
		var errs strings.Builder
		cmd := exec.Command(agonBinary(t), append(args, "--data", filepath.Join(dir, "data"), "-o", "json")...)
		cmd.Stderr = &errs
		cmd.Env = append(os.Environ(), "AGON_DRIVER="+driver)
		out, _ := cmd.Output() // its status says that a task did not pass
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, errs.String())
		}
	}
	write := func(at, text string) {
		t.Helper()
		at = filepath.Join(dir, at)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, l := range languages {
		write(name+"-image/Dockerfile", "FROM apt:trixie\nRUN apt-get update && apt-get install -y --no-install-recommends "+l.packages+" && rm -rf /var/lib/apt/lists/*\n")
		var img struct{ Digest string }
		agon("", &img, "image", "build", filepath.Join(dir, name+"-image"))
		write(name+"/task.toml", "version = \"1.0\"\n[task]\nname = \"languages/"+name+"\"\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 300.0\n[environment]\nimage = \""+img.Digest+"\"\nworkdir = \"/app\"\nmemory_mb = 1024\ncpus = 2.0\n[agon]\nkind = \"harbor\"\n")
		write(name+"/instruction.md", "Write the answer.\n")
		write(name+"/solution/solve.sh", "#!/bin/bash\nset -e\ncd /app\n"+l.solution)
		write(name+"/tests/test.sh", "#!/bin/bash\nif ( exec >&2; "+strings.TrimSuffix(l.test, "\n")+"\n); then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n")
		for _, driver := range []string{"runsc", "runc", "bwrap"} {
			t.Run(name+" "+driver, func(t *testing.T) {
				var x struct {
					OK     bool
					Reason string
				}
				agon(driver, &x, "task", "check", filepath.Join(dir, name))
				if !x.OK {
					t.Error(x.Reason)
				}
			})
		}
	}
}
