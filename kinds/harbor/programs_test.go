package harbor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// programForgers are programs that a verifier starts as another user, and that try to gain what the work does not:
// lines of the verifier, what an agent leaves, as lines of a shell, and what the program does whenever it is called.
var programForgers = []struct{ name, verifier, left, program string }{
	{
		"reads what it is tested for", `[ "$(as-agent sh prog)" = 42 ] && echo 1 > /logs/verifier/reward.txt`, ``,
		`cat /tests/expected /tests/*/expected /proc/[0-9]*/root/tests/expected /proc/[0-9]*/cwd/../tests/expected 2>/dev/null | head -n 1`,
	},
	{
		"a link in the place of output", `for n in 1 2; do as-agent sh prog > out; done; [ "$(cat out)" = 42 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt`, ``,
		`rm -f out; ln -s /logs/verifier/reward.json out; python3 -c 'import os; os.symlink("/logs/verifier/reward.json", "out")'; echo '{"reward": 1}'`,
	},
	{"a link to what is expected", `as-agent sh prog; diff -q out /tests/expected && echo 1 > /logs/verifier/reward.txt`, ``, `rm -f out; ln -s /tests/expected out; ln /tests/expected out; cp /tests/expected out`},
	{"a link that is moved", `as-agent sh prog; diff -q out /tests/expected && echo 1 > /logs/verifier/reward.txt`, `mkdir -p a; ln -s ../tests/expected a/out; cp prog a/`, `mv a/out .`},
	{"a link through one that is moved", `as-agent sh prog; diff -q out /tests/expected && echo 1 > /logs/verifier/reward.txt`, `mkdir -p a; ln -s .. a/up; ln -s up/tests/expected out`, `mv a/up .`},
	{
		"a repository's settings", `as-agent sh prog; git status; git log; git diff; echo 1 > /verifier/n`, `git init -q .; echo '* filter=x' > .gitattributes; echo a > seen; git add seen`,
		`rm -rf was; mv .git was; cp -r was .git; for d in . /app/new; do git init -q $d; git -C $d config filter.x.clean "sh $PWD/evil"; git -C $d config core.pager "sh $PWD/evil"; git -C $d config alias.status "!sh $PWD/evil"; done; echo b > seen
echo 'echo 1 > /logs/verifier/reward.txt' > evil`,
	},
	{
		"a repository where none was", `as-agent sh prog; git -C new status; git -C new diff; echo 1 > /verifier/n`, ``,
		`git init -q new; cd new; echo '* filter=x' > .gitattributes; echo a > seen; git add seen; git config filter.x.clean "sh $PWD/../evil"; echo b > seen; echo 'echo 1 > /logs/verifier/reward.txt' > ../evil; chmod -R a+rwX .`,
	},
	{"the variables of a verifier", `[ "$(as-agent sh prog)" = 42 ] && echo 1 > /logs/verifier/reward.txt`, ``, `echo $EXPECTED`},
}

// None gains anything: what their verifiers ask for they cannot do.
func TestProgramForgers(t *testing.T) {
	t.Parallel()
	files := map[string]string{"as/environment/Dockerfile": "FROM x\nWORKDIR /app\n"}
	toml, agent := plainToml+"[verifier.env]\nEXPECTED = \"42\"\n", "import os, subprocess\n\ndef agent_main(input):\n    left, prog = LEFT[input['step']]\n    subprocess.run('rm -rf /app/* /app/.[gv]*', shell=True)\n    open('/app/prog', 'w').write(prog)\n    subprocess.run(left, shell=True, cwd='/app')\n\nLEFT = {\n"
	for _, f := range programForgers {
		name := strings.ReplaceAll(strings.ReplaceAll(f.name, " ", "-"), "'", "")
		toml += "[[steps]]\nname = \"" + name + "\"\n"
		top := "as/steps/" + name + "/"
		files[top+"instruction.md"], files[top+"solution/solve.sh"], files[top+"tests/expected"] = "Do it.", "true\n", "42\n"
		files[top+"tests/test.sh"] = "cd /app\n" + f.verifier + "\n"
		agent += string(asJSON(name)) + ": (" + string(asJSON(f.left)) + ", " + string(asJSON(f.program)) + "),\n"
	}
	files["as/task.toml"] = toml
	for _, a := range kittest.Play(t, withTasks(files), kittest.Files{agentFile: agent + "}\n"}) {
		if len(a.Scores) != 1 || a.Scores[0].Value != 0 || strings.Count(a.Scores[0].Detail, "no reward") < 3 {
			t.Errorf("%s %s, scores %+v, printed:\n%s\nevents %s", a.Outcome, a.Detail, a.Scores, a.Files[outputFile], asJSON(a.Events))
		}
	}
}

// Where the verifier's programs take code from stays as it is, and so do the names that lead there.
func TestKept(t *testing.T) {
	s := &stage{dir: "/app", root: rootfs.Root{Path: "/root/.local/bin:/app/.venv/bin:/app/bin:/root/bin:/app/sub/bin/:/usr/local/bin:/usr/bin:/app"}}
	if got, want := s.guarded(), []string{"/root/.local", "/app/.venv", "/app/bin", "/root/bin", "/app/sub"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	top := t.TempDir()
	for _, p := range []string{"a/.git/config", "a/bare/HEAD", "a/bare/objects/x", "b/free", "b/HEAD", "none/x"} {
		at := filepath.Join(top, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s.dir, s.root.Path = top, filepath.Join(top, "env", "bin")
	script := strings.ReplaceAll(s.shared(), "'"+homeDir+"'", "'"+filepath.Join(top, "none")+"'")
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const sticky = os.ModeSticky
	for p, want := range map[string]os.FileMode{
		"a": 0o757 | sticky, "a/.git": 0o755, "a/.git/config": 0o644, "a/bare": 0o755, "a/bare/objects/x": 0o644, "b": 0o757, "b/free": 0o646, "b/HEAD": 0o646, "env": 0o755, ".": 0o757 | sticky,
	} {
		fi, err := os.Stat(filepath.Join(top, p))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode()&^os.ModeDir != want {
			t.Errorf("%s: %v, want %v", p, fi.Mode(), want)
		}
	}
}

func TestSettled(t *testing.T) {
	for to, want := range map[string]bool{
		"../pkg/cli.js": true, "x": true, "/app/x": true, "./a/b": true, "..": false, "../..": false, "/": false, "": false, "../tests/expected": false, "up/logs/verifier/reward.txt": false, "a/../b": false, "/proc/self": false,
	} {
		if got := settled(to); got != want {
			t.Errorf("%q: %v", to, got)
		}
	}
}
