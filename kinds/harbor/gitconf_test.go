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
)

// Settings that honest work leaves count; what names a program does not, however it is written.
func TestHarmlessGit(t *testing.T) {
	for text, want := range map[string]bool{
		"": true,
		"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[user]\n\temail = a@b.c\n\tname = A # b\n":             true,
		"[remote \"origin\"]\r\n\turl = https://example.org/x ; y\r\n\tfetch = +refs/heads/*:refs/remotes/origin/*\r\n[branch \"a\\\"]b\"]\r\n\tremote = origin\r\n": true,
		"[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n[user]\n\tname = A\n":                                                                   true,
		"[filter \"lfs\"]\n\tclean = evil\n":                                                   false,
		"[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n[filter \"x\"]\n\trequired = true\n": false,
		"; [filter]\n#clean = x\n[CORE]\nBARE\n":                                               true,
		"[core]\n\tpager = evil\n":                                                             false,
		"[core]\n\tbare = false\n\tFSMonitor = evil\n":                                         false,
		"[core] fsmonitor = evil\n":                                                            false,
		"[core]\n\tbare = a\\\n\tb\n":                                                          false,
		"[filter \"x\"]\n\tclean = evil\n":                                                     false,
		"[filter.x]\n\tclean = evil\n":                                                         false,
		"[diff \"x\"]\n\ttextconv = evil\n":                                                    false,
		"[diff]\n\texternal = evil\n":                                                          false,
		"[merge \"x\"]\n\tdriver = evil\n":                                                     false,
		"[gpg]\n\tprogram = evil\n":                                                            false,
		"[gpg \"ssh\"]\n\tprogram = evil\n":                                                    false,
		"[include]\n\tpath = ../x\n":                                                           false,
		"[includeIf \"gitdir:/\"]\n\tpath = ../x\n":                                            false,
		"[remote \"o\"]\n\tuploadpack = evil\n":                                                false,
		"[gc]\n\trecentObjectsHook = evil\n":                                                   false,
		"[alias]\n\tx = !evil\n":                                                               false,
		"\ufeff[core]\n\tpager = evil\n":                                                       false,
		"[user]\n\tname = a\v[core]pager=evil\n":                                               false,
		"[user]\r\tname = a\r[core]\rpager = evil\n":                                           false,
		"name = a\n": false,
	} {
		if got := harmlessGit([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Of a task's own settings what runs nothing is kept.
func TestTamed(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "[core]\n\tbare = false\n\tpager = evil\n[include]\n\tpath = x\n[user]\n\tname = B\n": "[core]\n\tbare = false\n[user]\n\tname = B\n",
		"[core]\n\tbare = a\\\nb\n[filter \"x\"] ; y\n\tclean = x\n\tname = C\n": "[core]\n", "[core] pager = evil\nname = x\n": "", "[user]\n\tname = a # b\n": "[user]\n\tname = a # b\n",
	} {
		if got := string(tamed([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// gitForgers are settings of a repository by which git runs /app/evil for whoever asks it for the state: lines of
// a shell, in a directory of their own.
var gitForgers = []string{
	// A filter, and a driver of diffs.
	`git init -q; echo '* filter=x diff=x' > .gitattributes; echo a > seen; git add -f .; git config filter.x.clean /app/evil; git config diff.x.textconv /app/evil; echo b > seen`,
	// In a directory that another name leads to, whose settings are a link.
	`git init -q; echo '* filter=x' > .gitattributes; echo a > seen; git add -f .; git config filter.x.clean /app/evil; cp -r .git common; mv .git/config notes; rm -r .git/objects .git/refs
echo "$PWD/common" > .git/commondir; ln -sf ../notes common/config; echo b > seen`,
	// Of a worktree.
	`git init -q; echo '* filter=x' > .gitattributes; echo a > seen; git add -f .; git config extensions.worktreeConfig true; git config --worktree filter.x.clean /app/evil; echo b > seen`,
	// In another file.
	`git init -q; echo '* filter=x' > .gitattributes; echo a > seen; git add -f .; git config include.path ../notes; git config -f notes filter.x.clean /app/evil; echo b > seen`,
	// Of a repository in the repository, which git looks into.
	`git init -q; git init -q in; cd in; echo '* filter=x' > .gitattributes; echo a > seen; git add -f .; git commit -qm a; cd ..; git add in; cd in
git config filter.x.clean /app/evil; git config core.fsmonitor /app/evil; mkdir -p .git/hooks; cp /app/evil .git/hooks/post-index-change; echo b > seen`,
	// A program that checks signatures.
	`git init -q; git -c gpg.program=/app/gpg commit -q --allow-empty -S -m a; git config gpg.program /app/evil; git config log.showSignature true`,
}

// Git runs nothing for a verifier, whatever a repository's settings name; what honest settings say counts.
func TestGitForgers(t *testing.T) {
	t.Parallel()
	k := withTasks(map[string]string{
		"git/task.toml": plainToml, "git/instruction.md": "Commit.", "git/environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY . .\n", "git/solution/solve.sh": "true\n",
		// A repository of the task's own whose settings name what an agent may write.
		"git/environment/base.git/HEAD": "ref: refs/heads/main\n", "git/environment/base.git/objects/info/x": "", "git/environment/base.git/refs/heads/x.lock": "",
		"git/environment/base.git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[include]\n\tpath = ../base/inc\n[filter \"x\"]\n\tclean = sh clean.sh\n[user]\n\tname = B\n",
		"git/tests/test.sh": "for d in /app/r* /app/base; do git -C $d status; git -C $d log; git -C $d diff; done >/verifier/seen 2>&1\n" +
			"ls -d /app/r* | wc -l > /verifier/n; cat /verifier/n /verifier/seen\n[ -e /logs/verifier/reward.txt ] && exit\n" +
			"[ $(cat /verifier/n) = 6 ] && [ $(grep -c evil /verifier/seen) = 0 ] && [ \"$(git -C /app/honest config user.name)\" = A ] && [ \"$(git -C /app/base config user.name)\" = B ] && echo 0.5 > /logs/verifier/reward.txt\n",
	})
	const agent = `
import os, subprocess
def put(p, text):
    open(p, "w").write(text)
    os.chmod(p, 0o755)
def agent_main(input):
    put("/app/evil", "#!/bin/sh\nmkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt\n")
    put("/app/gpg", "#!/bin/sh\ncat >/dev/null; echo '[GNUPG:] SIG_CREATED x' >&2; echo '-----BEGIN PGP SIGNATURE-----'; echo; echo '-----END PGP SIGNATURE-----'\n")
    env = dict(os.environ, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a")
    for n, f in enumerate(FORGERS):
        os.mkdir("/app/r%d" % n)
        subprocess.run(f, shell=True, cwd="/app/r%d" % n, env=env)
    os.mkdir("/app/base")
    put("/app/base/.git", "gitdir: /app/base.git\n")
    for p in ("inc", "clean.sh"):
        put("/app/base/" + p, {"inc": '[core]\n\tpager = /app/evil\n[filter "y"]\n\tclean = /app/evil\n', "clean.sh": "/app/evil\n"}[p])
    subprocess.run("echo 'a filter=x' > .gitattributes; echo 'b filter=y' >> .gitattributes; echo a > a; echo a > b; git add -f .; echo b > a; echo b > b", shell=True, cwd="/app/base", env=env)
    subprocess.run("git init -q /app/honest; git -C /app/honest config user.name A", shell=True)
`
	for _, a := range kittest.Play(t, k, kittest.Files{agentFile: "FORGERS = " + string(asJSON(gitForgers)) + "\n" + agent}) {
		if len(a.Scores) != 1 || a.Scores[0].Value != 0.5 {
			t.Errorf("%s %s, scores %+v, printed:\n%s", a.Outcome, a.Detail, a.Scores, a.Files[outputFile])
		}
	}
}

// Whatever passes, git itself finds no key in it that may name a program.
func FuzzHarmlessGit(f *testing.F) {
	for _, s := range []string{"[core]\n\tbare = \"a\\nb\"\n[user]\n\tname = a # b\\", "[a \"b\\]\n[core]\npager=x\n\"]\n", "[branch \"a]\n[core]\"]\n\tpager = x\n", "[user]\nname=\"a\n[core]\npager=x\"\n", "[user] # x\n[core]\n;\\\npager=x\n", "[user]\nname = a;\\\n[core]\n\tpager=x\n", "[branch.a.b]\nremote\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !harmlessGit(text) {
			return
		}
		at := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--file", at, "--list", "--name-only", "-z", "--no-includes").Output()
		if err != nil {
			return // git refuses it
		}
		for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			section, _, _ := strings.Cut(strings.ToLower(name), ".")
			key := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
			keys, known := gitHarmless[section]
			if name != "" && (!known || keys != nil && !slices.Contains(keys, key)) {
				t.Errorf("%q: git reads %q", text, name)
			}
		}
	})
}

// Settings of a size that nobody writes are left out, and not read for that.
func TestTamedFile(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		size    int64 // the file is made this long; 0: as its text
		left    string
		changed bool
	}{
		"harmless": {"[core]\n\tbare = false\n", 0, "", false}, "names a program": {"[core]\n\tbare = false\n\tpager = sh x\n", 0, "[core]\n\tbare = false\n", true}, "a terabyte": {"[core]\n", 1 << 40, "", true},
	} {
		dir := t.TempDir()
		p := filepath.Join(dir, "config")
		err := os.WriteFile(p, []byte(c.text), 0o600)
		if err == nil && c.size > 0 {
			err = os.Truncate(p, c.size)
		}
		list, rerr := os.ReadDir(dir)
		if err = errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		if b, changed := tamedFile(p, list[0]); string(b) != c.left || changed != c.changed {
			t.Errorf("%s: %q, changed %v", name, b, changed)
		}
	}
}
