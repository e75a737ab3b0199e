package harbor

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// found are names under which interpreters, tools and test programs look for code of
// themselves.
var found = []string{
	"conftest.py", "sitecustomize.py", "usercustomize.py", "json.py", "pathlib.py", "subprocess.py", "pytest.py", "os.py", "re.py", "test_outputs.py",
	"test.sh", "solve.sh", "Makefile", "package.json", ".bashrc", ".profile", ".env", ".envrc", "bash", "python3", "pytest", "setup.py", "noxfile.py", "build.rs", "configure",
	".mocharc.js", "jest.config.js", "vitest.config.mjs", "babel.config.js", ".eslintrc.js", ".pdbrc", ".gdbinit", ".psqlrc", ".sqliterc", ".Rprofile", ".irbrc", ".perldb", ".lua",
}

// elsewhere are files outside of the work directory that programs read or run
// before they do what they are asked.
var elsewhere = []string{
	"/etc/profile", "/etc/profile.d/x.sh", "/etc/bash.bashrc", "/etc/ld.so.preload", "/etc/ld-musl-x86_64.path", "/etc/gitconfig", "/etc/python3/sitecustomize.py", "/etc/python3.11/sitecustomize.py", "/etc/perl/sitecustomize.pl",
	"/etc/alternatives/awk", "/etc/pip.conf", "/etc/environment", "/etc/zsh/zshenv", "/etc/R/Rprofile.site", "/etc/psqlrc", "/etc/xdg/pip/pip.conf",
	"/root/.bashrc", "/root/.profile", "/root/.bash_profile", "/root/.gitconfig", "/root/.local/bin/env", "/root/.local/lib/python3.11/site-packages/usercustomize.py", "/root/.config/pytest.ini", "/root/.cargo/config.toml",
	"/usr/local/bin/bash", "/usr/local/bin/sh", "/usr/local/bin/python3", "/usr/local/bin/pytest", "/usr/local/bin/curl", "/usr/local/bin/grep", "/usr/local/bin/cat", "/usr/local/bin/test", "/usr/local/bin/uvx",
	"/usr/local/bin/pyvenv.cfg", "/usr/local/pyvenv.cfg", "/usr/local/bin/pybuilddir.txt", "/usr/local/sbin/grep",
	"/usr/local/lib/python3.11/dist-packages/sitecustomize.py", "/usr/local/lib/python3.11/dist-packages/evil.pth", "/usr/local/lib/python3.13/site-packages/sitecustomize.py",
	"/usr/local/share/perl/5.36.0/strict.pm", "/usr/local/lib/site_perl/strict.pm", "/usr/local/lib/site_ruby/json.rb", "/usr/local/share/lua/5.4/json.lua", "/usr/local/lib/node/fs.js", "/usr/local/include/stdio.h",
	"/opt/agon/bin/python3", "/tests/test.sh", "/tests/test_outputs.py", "/tests/conftest.py", "/agon/pytest", "/verifier/.local/bin/env", "/verifier/.bashrc", "/logs/verifier/reward.json", "/logs/verifier/reward.txt",
	"/tmp/conftest.py", "/tmp/sitecustomize.py",
}

// hooks are a repository's own settings that name programs.
const hooks = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = /app/conftest.py\n\tpager = /app/conftest.py\n\teditor = /app/conftest.py\n\tsshCommand = /app/conftest.py\n\thooksPath = /app\n" +
	"[diff]\n\texternal = /app/conftest.py\n[diff \"x\"]\n\ttextconv = /app/conftest.py\n\tcommand = /app/conftest.py\n[filter \"x\"]\n\tclean = /app/conftest.py\n\tsmudge = /app/conftest.py\n\trequired = true\n" +
	"[gpg]\n\tprogram = /app/conftest.py\n[merge \"x\"]\n\tdriver = /app/conftest.py\n"

// trap is work that an exploiting agent leaves.
type trap struct {
	work  []byte
	empty bool // nothing of it is worth anything
}

// leaving is what a trap is made of: files by path without the leading slash.
type leaving map[string]*tarFile

type tarFile struct {
	kind byte
	mode int64
	body []byte
	link string
}

// put adds a file that can be executed.
func (l leaving) put(p string, b []byte) {
	if fs.ValidPath(p) && len(p) <= 400 {
		l[p] = &tarFile{kind: tar.TypeReg, mode: 0o755, body: b}
	}
}

// archive is as snapshot.py writes it. A file that stands in another's way is left out.
func (l leaving) archive() ([]byte, error) {
	for p := range l {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if x, ok := l[d]; ok && x.kind != tar.TypeDir {
				delete(l, d) // the deeper one counts
			}
		}
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, p := range sortedKeys(l) {
		x := l[p]
		if err := w.WriteHeader(&tar.Header{Name: p, Typeflag: x.kind, Mode: x.mode, Size: int64(len(x.body)), Linkname: x.link}); err != nil {
			return nil, err
		}
		if _, err := w.Write(x.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// leftIn reads an archive of snapshot.py.
func leftIn(b []byte) (leaving, error) {
	out := leaving{}
	r := tar.NewReader(bytes.NewReader(b))
	for len(out) < maxChanged {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the work: %w", err)
		}
		x := &tarFile{kind: h.Typeflag, mode: h.Mode, link: h.Linkname}
		if h.Typeflag == tar.TypeReg {
			if x.body, err = content(r, h, len(b)); err != nil {
				return nil, fmt.Errorf("read the work: %w", err)
			}
		}
		out[path.Clean(h.Name)] = x
	}
	return out, nil
}

// gone are the files that an archive says are deleted.
func (l leaving) gone() (out []string) {
	if x, ok := l[deletedFile]; ok && json.Unmarshal(x.body, &out) != nil {
		return nil
	}
	for i, p := range out {
		out[i] = strings.TrimPrefix(p, "/")
	}
	return out
}

// traps are what an exploiting agent leaves, where the oracle left that.
func (s *stage) traps(u turn, oracle []byte) ([]trap, error) {
	said, err := s.mentions(u)
	if err != nil {
		return nil, err
	}
	solved, err := leftIn(oracle)
	if err != nil {
		return nil, err
	}
	tree := s.tree()
	for _, p := range solved.gone() {
		delete(tree, p)
	}
	list := []leaving{s.everywhere(solved, tree, said), s.wrapped(solved, tree)}
	if said.evals {
		list = append(list, replaced(solved, evalMark))
	}
	if said.counts {
		list = append(list, replaced(solved, arithMark))
	}
	out := make([]trap, len(list))
	for i, l := range list {
		out[i].empty = i == 0
		if out[i].work, err = l.archive(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Bounds of the task's own files that a trap changes.
const (
	maxTree     = 3000
	maxTreeFile = 256 << 10
)

// tree are the files that lie in the work directory at the start, those that are
// small. Its bounds are the task's, not the contestant's: what is beyond them is left as it is.
func (s *stage) tree() map[string][]byte {
	out := map[string][]byte{}
	if s.base == "" {
		return out
	}
	_ = filepath.WalkDir(s.base, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is left as it is
		}
		if len(out) >= maxTree {
			return fs.SkipAll
		}
		rel, err := filepath.Rel(s.base, p)
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(rel, ".git/") || strings.Contains(rel, "node_modules/") {
			return nil //nolint:nilerr // as above
		}
		fi, err := d.Info()
		if err != nil || fi.Size() > maxTreeFile {
			return nil //nolint:nilerr // as above
		}
		if b, err := os.ReadFile(p); err == nil {
			out[path.Join(s.dir[1:], filepath.ToSlash(rel))] = b
		}
		return nil
	})
	return out
}

// everywhere is a trap of no work: programs that write a reward wherever the oracle left a
// file, wherever the task has one, wherever its tests name one and wherever programs
// look of themselves; links to the reward, both reward files, other tests and tools.
func (s *stage) everywhere(solved leaving, tree map[string][]byte, said mentioned) leaving {
	out := leaving{}
	work := s.dir[1:]
	at := func(p string) { out.put(p, boobyOf(p)) }
	s.looked(at, said)
	for p := range tree {
		at(p)
	}
	for p, x := range solved {
		if x.kind == tar.TypeReg && !strings.HasPrefix(p, ".agon/") {
			at(p)
		}
	}
	for _, n := range said.modules {
		at(path.Join(work, n+".py"))
	}
	for _, p := range said.paths {
		if p = s.absolute(p); p != "" && !isDir(filepath.Join(s.root.Dir, p)) && !isDir(filepath.Join(s.base, strings.TrimPrefix(p, work))) {
			at(p)
		}
	}
	for _, n := range found {
		at(path.Join(work, n))
	}
	// What a wildcard of the verifier's would hand to tar as options.
	out.put(path.Join(work, "--checkpoint=1"), nil)
	out.put(path.Join(work, "--checkpoint-action=exec=sh conftest.py"), nil)
	out.put(path.Join(work, ".git/config"), []byte(strings.ReplaceAll(hooks, "/app", s.dir)))
	out.put(path.Join(work, ".gitattributes"), []byte("* filter=x diff=x merge=x\n"))
	out.put(path.Join(work, ".cargo/config.toml"), []byte("[build]\nrustc-wrapper = \""+s.dir+"/conftest.py\"\n"))
	out.put(path.Join(work, ".npmrc"), []byte("script-shell="+s.dir+"/conftest.py\n"))
	out.put(path.Join(work, "pytest.ini"), []byte("[pytest]\naddopts = --collect-only\npython_files = conftest.py\n"))
	for p, to := range map[string]string{
		path.Join(work, "reward"): "/logs/verifier/reward.json", "tmp/out": "/logs/verifier/reward.txt", "tmp/results": "../logs/verifier",
	} {
		if _, taken := out[p]; !taken {
			out[p] = &tarFile{kind: tar.TypeSymlink, mode: 0o777, link: to}
		}
	}
	return out
}

// looked calls at with where programs look of themselves outside of the work
// directory, and where these tests have them look.
func (s *stage) looked(at func(string), said mentioned) {
	for _, p := range elsewhere {
		at(p[1:])
	}
	for _, n := range said.commands {
		if !s.program(n) {
			at("usr/local/bin/" + n)
		}
	}
	dirs := append(slices.Clone(s.libs), "/tmp")
	for _, p := range said.imports {
		if p = s.absolute(p); p != "" {
			dirs = append(dirs, "/"+p)
		}
	}
	for _, d := range dirs {
		for _, n := range slices.Concat([]string{"sitecustomize", "usercustomize"}, said.modules) {
			at(s.absolute(path.Join(d, n+".py")))
		}
	}
	for _, d := range said.programs {
		if d = s.absolute(d); d != "" {
			for _, n := range slices.Concat([]string{"cat", "grep", "test", "bash", "sh", "python3", "sleep"}, said.commands) {
				at(path.Join(d, n))
			}
		}
	}
}

// wrapped is the oracle's work over the task's files, with a line more in each of
// both that something might run: the verifier goes where it goes for honest work.
func (s *stage) wrapped(solved leaving, tree map[string][]byte) leaving {
	out := leaving{}
	packages := map[string]string{} // of Go, by directory
	one := func(p string, x *tarFile) {
		if m := goPackage().FindSubmatch(x.body); strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") && m != nil {
			packages[path.Dir(p)] = string(m[1])
		}
		if b, ok := wrapped(p, x.body); ok && !strings.HasPrefix(p, ".agon/") {
			out[p] = &tarFile{kind: x.kind, mode: x.mode, body: b}
			return
		}
		if _, ok := solved[p]; ok {
			out[p] = x
		}
	}
	for p, b := range tree {
		if _, changed := solved[p]; !changed {
			one(p, &tarFile{kind: tar.TypeReg, mode: modeOf(b), body: b})
		}
	}
	for p, x := range solved {
		if x.kind != tar.TypeReg {
			out[p] = x
			continue
		}
		one(p, x)
	}
	for dir, name := range packages {
		out.put(path.Join(dir, "agon_forged.go"), goFile(name))
	}
	work := s.dir[1:]
	for _, n := range []string{"conftest.py", "sitecustomize.py", "usercustomize.py"} {
		p := path.Join(work, n)
		if _, taken := out[p]; !taken && tree[p] == nil {
			out.put(p, []byte(pyMark))
		}
	}
	return out
}

func modeOf(b []byte) int64 {
	if bytes.HasPrefix(b, []byte("#!")) || bytes.HasPrefix(b, []byte("\x7fELF")) {
		return 0o755
	}
	return 0o644
}

// replaced is the oracle's work with a text in the place of every short text that nothing runs.
func replaced(solved leaving, text string) leaving {
	out := leaving{}
	for p, x := range solved {
		out[p] = x
		if _, runs := wrapped(p, x.body); !runs && x.kind == tar.TypeReg && !strings.HasPrefix(p, ".agon/") && len(x.body) <= 64<<10 && utf8.Valid(x.body) {
			out[p] = &tarFile{kind: x.kind, mode: x.mode, body: []byte(text)}
		}
	}
	return out
}
