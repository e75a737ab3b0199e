package dataset

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a git repository in dir of one commit a version, of which each
// has the file mod.py; it returns the commits.
func repository(t *testing.T, dir string, mods ...string) (commits []string) {
	t.Helper()
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"}, args...)...)
		c.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2024-03-04T12:00:00Z", "GIT_AUTHOR_DATE=2024-03-04T12:00:00Z")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	for i, m := range mods {
		put(t, dir, map[string]string{"mod.py": m})
		git("add", "-A")
		git("commit", "-qm", m)
		git("tag", "v1."+string(rune('0'+i)))
		commits = append(commits, git("rev-parse", "HEAD"))
	}
	return commits
}

func instanceDir(t *testing.T, row map[string]any) string {
	t.Helper()
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir, map[string]string{"tests/instance.json": string(b)})
	return dir
}

// What an image is built of is the repository at the instance's commit: nothing that
// came later, and of what came before only the version's name.
func TestInstanceContext(t *testing.T) {
	repos := t.TempDir()
	commits := repository(t, filepath.Join(repos, "o", "r"), "first", "bug", "the fix")
	var row map[string]any
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		t.Fatal(err)
	}
	row["base_commit"] = commits[1]
	to := t.TempDir()
	on, err := InstanceContext(t.Context(), instanceDir(t, row), repos, to)
	if err != nil {
		t.Fatal(err)
	}
	if on.Name != "swebench-base/bookworm" || !strings.HasPrefix(on.Dockerfile, "FROM apt:bookworm\n") {
		t.Errorf("a commit of March 2024 stands on %+v", on)
	}
	file, _ := os.ReadFile(filepath.Join(to, "Dockerfile"))
	script, _ := os.ReadFile(filepath.Join(to, "setup.sh"))
	if !strings.HasPrefix(string(file), "FROM swebench-base/bookworm\n") || !strings.Contains(string(script), "--exclude-newer 2024-03-04 ") || strings.Contains(string(script), "PRETEND") {
		t.Errorf("%s\n%s", file, script)
	}
	bed := filepath.Join(t.TempDir(), "testbed")
	if out, err := exec.Command("git", "clone", "-q", filepath.Join(to, "repo.bundle"), bed).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	out, err := exec.Command("git", "-C", bed, "log", "--all", "--format=%s %D").Output()
	if got := strings.TrimSpace(string(out)); err != nil || strings.Count(got, "\n") != 0 || !strings.HasPrefix(got, commits[1]) || !strings.Contains(got, "tag: v1.1") {
		t.Errorf("%v, %s", err, got)
	}
	if b, err := os.ReadFile(filepath.Join(bed, "mod.py")); err != nil || string(b) != "bug" {
		t.Errorf("%v, %s", err, b)
	}
	for field, bad := range map[string]string{"repo": "../../etc", "base_commit": "--upload-pack=x", "instance_id": "../x"} {
		was := row[field]
		row[field] = bad
		if _, err := InstanceContext(t.Context(), instanceDir(t, row), repos, t.TempDir()); err == nil {
			t.Errorf("%s %s", field, bad)
		}
		row[field] = was
	}
	row["base_commit"] = strings.Repeat("0", 40)
	if _, err := InstanceContext(t.Context(), instanceDir(t, row), repos, t.TempDir()); err == nil || !strings.Contains(err.Error(), "o/r at 000") {
		t.Errorf("a commit that is not there: %v", err)
	}
}

// An instance that says how it is installed is installed so, on a Debian with its Python.
func TestSetupOf(t *testing.T) {
	s := setupOf(map[string]any{"install_config": `{"python":"3.10","pre_install":["apt-get install -y x"],"pip_packages":["a==1","it's"],"reqs_path":["r.txt"],"install":"python -m pip install -e .[dev] && make"}`})
	got := strings.Join(s.lines("2021-05-06", "2.3"), "\n")
	uv := "uv pip install --system --break-system-packages --exclude-newer 2021-05-06 --exclude-newer-package setuptools=2023-01-01 --exclude-newer-package wheel=2023-01-01 --exclude-newer-package pip=2023-01-01"
	want := "export UV_LINK_MODE=copy SETUPTOOLS_SCM_PRETEND_VERSION='2.3'\napt-get install -y x\n" + uv + " -r 'r.txt'\n" + uv + ` 'a==1' 'it'\''s'` + "\n" + uv + " -e .[dev] && make"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for day, want := range map[string]string{"2014-11-01": "bullseye", "2023-06-30": "bullseye", "2023-07-01": "bookworm", "2026-01-01": "trixie"} {
		if got := (setup{}).release(day); got != want {
			t.Errorf("%s: %s, want %s", day, got, want)
		}
	}
	if got := s.release("2014-11-01"); got != "bookworm" {
		t.Errorf("Python 3.10 on %s", got)
	}
	if got := (setup{Python: "3.14"}).release("2014-11-01"); got != "bullseye" {
		t.Errorf("a Python that no Debian has: %s", got)
	}
}

// Only the instances that are asked for come over; one that is not there is an error.
func TestSWEBenchOnly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.jsonl")
	if err := os.WriteFile(file, []byte(line+"\n"+strings.Replace(line, "o__r-1", "o__r-2", 1)+"\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := Writer{Dir: filepath.Join(dir, "a")}
	if err := os.Mkdir(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.SWEBench(t.Context(), file, OfficialImage, "o__r-2"); err != nil || len(w.Imported()) != 1 || w.Imported()[0].Task != "o-r-2" {
		t.Errorf("%v %+v", err, w.Imported())
	}
	if err := w.SWEBench(t.Context(), file, OfficialImage, "o__r-1", "o__r-9"); err == nil || !strings.Contains(err.Error(), "o__r-9") {
		t.Errorf("%v", err)
	}
}
