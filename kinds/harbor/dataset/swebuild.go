package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// An instance's image is built where none is published for this machine: its
// repository at the commit before the fix, on the Debian that has a Python of that
// time, with the packages that the registry had on that day.

// Base is what the images of instances of one Debian stand on: a name under which
// this machine keeps it, and the Dockerfile it is made of.
type Base struct{ Name, Dockerfile string }

func baseOf(release string) Base {
	return Base{Name: "swebench-base/" + release, Dockerfile: "FROM apt:" + release + "\n" +
		"ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore\n" +
		"RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-dev python3-pip python3-venv python-is-python3 git build-essential && rm -rf /var/lib/apt/lists/*\n" +
		"RUN pip install --no-cache-dir uv && git config --system safe.directory '*'\n"}
}

// releases are Debian's, each with its Python, and the day since which newer work wants the next.
var releases = []struct {
	name, until string
	python      int // 3.x
}{{"bullseye", "2023-07-01", 9}, {"bookworm", "2025-09-01", 11}, {"trixie", "9999", 13}}

// setup is how an instance says that it is installed (install_config of SWE-Gym's
// and SWE-rebench's rows).
type setup struct {
	Python   string
	Before   []string // lines for sh
	Packages []string // for pip
	Files    []string // of requirements
	Install  []string // lines for sh
}

func setupOf(row map[string]any) setup {
	m, ok := row["install_config"].(map[string]any)
	if !ok {
		_ = json.Unmarshal([]byte(text(row["install_config"])), &m) // none, where it cannot be read
	}
	list := func(k string) []string {
		if s := text(m[k]); s != "" {
			return []string{s}
		}
		out, _ := names(m[k])
		return out
	}
	return setup{Python: text(m["python"]), Before: list("pre_install"), Packages: list("pip_packages"), Files: list("reqs_path"), Install: list("install")}
}

// release is the Debian for work of a day. A Python that the instance names goes first.
func (s setup) release(day string) string {
	minor := 0
	if _, err := fmt.Sscanf(s.Python, "3.%d", &minor); err == nil {
		for _, r := range releases {
			if minor <= r.python {
				return r.name
			}
		}
	}
	for _, r := range releases {
		if day < r.until {
			return r.name
		}
	}
	return releases[len(releases)-1].name
}

// requirements are files in which repositories name what their tests need.
var requirements = []string{
	"requirements/tests.txt", "requirements/test.txt", "requirements/testing.txt", "requirements-test.txt", "requirements-tests.txt", "test-requirements.txt",
	"requirements_test.txt", "requirements-dev.txt", "requirements_dev.txt", "dev-requirements.txt", "requirements/dev.txt",
}

var pipInstall = lazyregexp.New(`(?:\bpython3? -m )?\bpip3? install\b`)

// editable is the first release of setuptools' year that can install in place by
// itself (PEP 660): older work gets that one.
const editable = "2023-01-01"

// lines install the repository in a box with the registry of a day.
func (s setup) lines(day, version string) []string {
	built := max(day, editable)
	uv := "uv pip install --system --break-system-packages --exclude-newer " + day
	for _, p := range []string{"setuptools", "wheel", "pip"} {
		uv += " --exclude-newer-package " + p + "=" + built
	}
	out := []string{"export UV_LINK_MODE=copy SETUPTOOLS_SCM_PRETEND_VERSION=" + shellWord(version)}
	if version == "" {
		out[0] = "export UV_LINK_MODE=copy"
	}
	out = append(out, s.Before...)
	if len(s.Install) == 0 {
		here := uv + ` -e '.[test,tests,testing]' pytest`
		out = append(out, "for f in "+strings.Join(requirements, " ")+`; do [ ! -f "$f" ] || break; done`,
			`if [ -f "$f" ]; then `+here+` -r "$f" || `+here+`; else `+here+`; fi`)
		return append(out, "python -m pytest --version")
	}
	for _, f := range s.Files {
		out = append(out, uv+" -r "+shellWord(f))
	}
	if len(s.Packages) > 0 {
		words := make([]string, len(s.Packages))
		for i, p := range s.Packages {
			words[i] = shellWord(p)
		}
		out = append(out, uv+" "+strings.Join(words, " "))
	}
	for _, l := range s.Install {
		out = append(out, pipInstall().ReplaceAllLiteralString(l, uv))
	}
	return out
}

func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// InstanceContext lays out in to what the image of an imported instance is built of:
// a Dockerfile and the repository at the instance's commit, without what came
// later. The repository is one below repos (owner/name, owner__name or name, each
// with or without .git), else the commit is fetched from GitHub.
func InstanceContext(ctx context.Context, taskDir, repos, to string) (Base, error) {
	b, err := os.ReadFile(filepath.Join(taskDir, "tests", "instance.json"))
	if err != nil {
		return Base{}, fmt.Errorf("no instance of SWE-bench: %w", err)
	}
	var row map[string]any
	if err := json.Unmarshal(b, &row); err != nil {
		return Base{}, fmt.Errorf("read instance: %w", err)
	}
	x, err := instanceOf(row)
	if err != nil {
		return Base{}, err
	}
	owner, repo, ok := strings.Cut(x.Repo, "/")
	if !ok || !repoPart().MatchString(owner) || !repoPart().MatchString(repo) {
		return Base{}, fmt.Errorf("repo %.100q: want owner/name", x.Repo)
	}
	if !commitID().MatchString(x.Base) {
		return Base{}, fmt.Errorf("base_commit %.60q pins no commit", x.Base)
	}
	url, local := "https://github.com/"+owner+"/"+repo, false
	if repos != "" {
		if repos, err = filepath.Abs(repos); err != nil { // git works elsewhere
			return Base{}, err
		}
	}
	for _, at := range []string{owner + "/" + repo, owner + "__" + repo, repo} {
		for _, end := range []string{".git", ""} {
			dir := filepath.Join(repos, at+end)
			if fi, err := os.Stat(dir); repos != "" && !local && err == nil && fi.IsDir() {
				url, local = dir, true
			}
		}
	}
	day, tag, err := bundle(ctx, url, x.Base, filepath.Join(to, "repo.bundle"), local)
	if err != nil {
		return Base{}, fmt.Errorf("%s at %s: %w", x.Repo, x.Base, err)
	}
	if at, err := time.Parse(time.RFC3339, text(row["created_at"])); err == nil {
		day = at.UTC().Format(time.DateOnly)
	}
	s := setupOf(row)
	version := ""
	if tag == "" {
		version = x.Version
	}
	base := baseOf(s.release(day))
	file := "FROM " + base.Name + "\nCOPY repo.bundle /opt/repo.bundle\n" +
		"RUN git clone -q /opt/repo.bundle /testbed && git -C /testbed remote remove origin && rm /opt/repo.bundle\nWORKDIR /testbed\nCOPY setup.sh /opt/setup.sh\nRUN sh -ex /opt/setup.sh && rm /opt/setup.sh\n"
	if err := os.WriteFile(filepath.Join(to, "setup.sh"), []byte(strings.Join(s.lines(day, version), "\n")+"\n"), 0o644); err != nil {
		return Base{}, err
	}
	return base, os.WriteFile(filepath.Join(to, "Dockerfile"), []byte(file), 0o644)
}

var repoPart = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

// bundle writes one commit of a repository as a git bundle: its tree and none of
// its history, with the newest version's tag before it, where that is known. It
// returns the day of the commit and that tag.
func bundle(ctx context.Context, url, commit, to string, local bool) (day, tag string, err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(to), ".git-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	git := gitIn(ctx, tmp, local)
	for _, args := range [][]string{
		{"init", "--quiet", "--bare"},
		{"fetch", "--quiet", "--depth", "1", "--no-tags", "--", url, commit},
	} {
		if _, err := git(args...); err != nil {
			return "", "", err
		}
	}
	at, err := git("log", "-1", "--format=%ct", commit)
	if err != nil {
		return "", "", err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return "", "", fmt.Errorf("the commit's time: %w", err)
	}
	day = time.Unix(seconds, 0).UTC().Format(time.DateOnly)
	if local { // a clone of the whole knows what version this is
		out, err := gitIn(ctx, url, true)("describe", "--tags", "--abbrev=0", commit)
		if err == nil && tagName().MatchString(out) {
			tag = out
		}
	}
	one, err := git("-c", "user.name=agon", "-c", "user.email=agon@localhost", "commit-tree", "-m", commit, commit+"^{tree}")
	if err != nil {
		return "", "", err
	}
	refs := []string{"refs/heads/main"}
	if tag != "" {
		refs = append(refs, "refs/tags/"+tag)
	}
	for _, ref := range refs {
		if _, err := git("update-ref", ref, one); err != nil {
			return "", "", err
		}
	}
	if _, err := git("symbolic-ref", "HEAD", refs[0]); err != nil {
		return "", "", err
	}
	_, err = git(append([]string{"bundle", "create", "--quiet", to, "HEAD"}, refs...)...)
	return day, tag, err
}

var tagName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$`)
