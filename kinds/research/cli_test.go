package research_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// minerBench is a miner's machine: a checkout, a sidecar, a wallet.
type minerBench struct {
	q    *quorum
	repo string
	side string
	name string
}

func (q *quorum) miner(name string) *minerBench {
	q.t.Helper()
	q.register(name, false)
	b := &minerBench{q: q, repo: filepath.Join(q.t.TempDir(), "work"), name: name}
	b.side = filepath.Join(filepath.Dir(b.repo), "submission.json")
	b.git("", "clone", "-q", q.task.Repository, b.repo)
	b.write("../submission.json", `{"summary": "a try", "claimed_metrics": {"size": 1}}`)
	return b
}

func (b *minerBench) git(dir string, args ...string) string {
	b.q.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=m", "-c", "user.email=m@example.org"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if err != nil {
		b.q.t.Fatalf("git %s: %v", args, err)
	}
	return string(out)
}

func (b *minerBench) write(name, text string) {
	b.q.t.Helper()
	if err := os.WriteFile(filepath.Join(b.repo, name), []byte(text), 0o600); err != nil {
		b.q.t.Fatal(err)
	}
}

// reset makes the checkout clean again.
func (b *minerBench) reset() {
	b.q.t.Helper()
	b.git(b.repo, "reset", "-q", "--hard", b.q.task.BaseSHA)
	b.git(b.repo, "clean", "-qffdx")
}

// run runs a research command as this miner.
func (b *minerBench) run(args ...string) (code int, out, errOut string) {
	b.q.t.Helper()
	s, o, e := iostreams.Test("")
	home := b.q.t.TempDir()
	app := app(s, config.Env{Getenv: func(string) string { return "" }, Dir: home, Home: home, UserCacheDir: home})
	args = append(append([]string{"research"}, args...), "--coordinator-url", b.q.s.URL(), "--wallet-path", b.q.s.Data.Path("wallets"), "--wallet-name", b.name, "--wallet-hotkey", "default")
	code = app.Main(b.q.ctx, args)
	return code, o.String(), e.String()
}

func (b *minerBench) claim() string {
	b.q.t.Helper()
	code, out, errOut := b.run("signed-request", "--method", "POST", "--path", "/api/v1/tasks/"+b.q.task.ID+"/claim", "--body-json", `{"claim_description":"manual miner run"}`)
	var c coordinator.Claim
	if code != 0 || json.Unmarshal([]byte(out), &c) != nil || c.ID == "" {
		b.q.t.Fatalf("claim: %d %s %s", code, out, errOut)
	}
	return c.ID
}

// stockSubmit sends what git says of the whole checkout, as a client would that
// checks nothing, and returns the server's code; "" is a yes.
func (b *minerBench) stockSubmit(claim string) string {
	b.q.t.Helper()
	b.git(b.repo, "add", "-A", "--force")
	patch := b.git(b.repo, "diff", "--cached", "--binary", "--full-index", "--no-renames", b.q.task.BaseSHA)
	p, err := kit.LoadParty(b.q.s.Data.Path("wallets"), b.name)
	if err != nil {
		b.q.t.Fatal(err)
	}
	c := &miner.Client{URL: b.q.s.URL(), Key: p.Hotkey}
	_, err = c.Submit(b.q.ctx, &miner.Submission{ClaimID: claim, BaseRef: b.q.task.BaseSHA, Patch: patch, Sidecar: miner.Sidecar{Summary: "s", ClaimedMetrics: json.RawMessage(`{"size": 1}`)}})
	var no *miner.APIError
	if errors.As(err, &no) {
		return no.Code()
	}
	if err != nil {
		b.q.t.Fatal(err)
	}
	return ""
}

// Row 32: check gives the server's verdict, for rows 19 to 24.
func TestCheckIsTheServersVerdict(t *testing.T) {
	q := openQuorum(t)
	b := q.miner("alice")
	claim := b.claim()
	for _, c := range []struct {
		name string
		make func()
		code string // of the server; "": it takes it
		says string // check names this too
	}{
		{"19 nothing", func() {}, "empty_submission", ""},
		{"20 outside", func() { b.write("bench.py", "pass\n") }, "disallowed_patch_paths", "bench.py"},
		{"20 outside, new", func() { b.write("sitecustomize.py", "pass\n") }, "disallowed_patch_paths", "sitecustomize.py"},
		{"21 renamed into the surface", func() { b.git(b.repo, "mv", "bench.py", "src/b.py") }, "disallowed_patch_paths", "bench.py"},
		{"22 link", func() { b.must(os.Symlink("/etc/passwd", filepath.Join(b.repo, "src/l.py"))) }, "forbidden_patch_entry", "src/l.py"},
		{"22 mode", func() { b.must(os.Chmod(filepath.Join(b.repo, "src/work.py"), 0o755)) }, "forbidden_patch_entry", ""},
		{"24 too large", func() { b.write("src/work.py", "size = 1\n"+strings.Repeat("# more than is allowed\n", 12_000)) }, "patch_too_large", "262144"},
		{"cache", func() { b.write("src/x.pyc.py", "x = 1\n"); b.write("src/y.py", "x = 1\n") }, "", ""},
		{"23 a removed line that looks like a header", func() { b.write("src/work.py", "size = 100\n") }, "", ""},
		{"CRLF and no last line end", func() { b.write("src/work.py", "size = 9\r\n-- old") }, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.reset()
			c.make()
			code, out, errOut := b.run("check", "--task-slug", "quorum", "--repo-dir", b.repo, "--submission-file", b.side)
			said := b.stockSubmit(claim)
			if said != c.code {
				t.Fatalf("the server says %q, want %q", said, c.code)
			}
			if (code == 0) != (said == "") || !strings.Contains(out+errOut, c.says) {
				t.Errorf("check: %d %s%s, the server %q", code, out, errOut, said)
			}
			if said == "" {
				claim = b.claim()
			}
		})
	}
}

func (b *minerBench) must(err error) {
	b.q.t.Helper()
	if err != nil {
		b.q.t.Fatal(err)
	}
}

// Rows 4, 29, 30: what submit-workspace refuses, in the stock client's words.
func TestSubmitWorkspace(t *testing.T) {
	q := openQuorum(t)
	b := q.miner("alice")
	if code, _, errOut := b.run("claim", "nothing", "--description", "x"); code == 0 || !strings.Contains(errOut, "no matching coordinator task found") {
		t.Errorf("unknown slug: %d %s", code, errOut)
	}
	if code, out, errOut := b.run("claim", "some-set/"+q.task.Slug, "--description", "by the name that the page has"); code != 0 || !strings.Contains(out, q.task.ID) {
		t.Errorf("a task by its name on pages: %d %s %s", code, out, errOut)
	}
	claim := b.claim()
	submit := func(more ...string) (int, string, string) {
		return b.run(append([]string{"submit-workspace", "--claim-id", claim, "--repo-dir", b.repo, "--submission-file", b.side}, more...)...)
	}
	for text, want := range map[string]string{
		"": "submission sidecar is missing: " + b.side, "{": "submission sidecar is not valid JSON: " + b.side, "[]": "submission sidecar must be a JSON object",
		`{"claimed_metrics":{"size":1}}`: "submission sidecar is missing required field: summary", `{"summary":"s"}`: "submission sidecar is missing required field: claimed_metrics",
	} {
		b.must(os.Remove(b.side))
		if text != "" {
			b.write("../submission.json", text)
		}
		if code, _, errOut := submit(); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", text, code, errOut)
		}
		b.write("../submission.json", `{"summary": "a try", "claimed_metrics": {"size": 1}}`)
	}
	// In the checkout it is found, and is not part of the work.
	b.write("submission.json", `{"summary": "a try", "claimed_metrics": {"size": 1}}`)
	if code, _, errOut := b.run("submit-workspace", "--claim-id", claim, "--repo-dir", b.repo); code == 0 || !strings.Contains(errOut, "repo checkout has no patch to submit") {
		t.Errorf("in the checkout: %d %s", code, errOut)
	}
	b.must(os.Remove(filepath.Join(b.repo, "submission.json")))
	if code, _, errOut := submit(); code == 0 || !strings.Contains(errOut, "repo checkout has no patch to submit") {
		t.Errorf("nothing to submit: %d %s", code, errOut)
	}
	b.write("src/work.py", "size = 9\n-- old\n")
	b.write("bench.py", "pass\n")
	b.write("notes.txt", "mine\n")
	if code, _, errOut := submit(); code == 0 || !strings.Contains(errOut, "bench.py") || !strings.Contains(errOut, "notes.txt") {
		t.Errorf("dirty: %d %s", code, errOut)
	}
	code, out, errOut := submit("--allow-dirty")
	var s coordinator.Submission
	if code != 0 || json.Unmarshal([]byte(out), &s) != nil || s.Status != "pending_verification" {
		t.Fatalf("%d %s %s", code, out, errOut)
	}
	code, out, _ = b.run("status", s.ID, "--jq", ".submission.patch")
	if code != 0 || !strings.Contains(out, "+size = 9") || strings.Contains(out, "bench.py") || strings.Contains(out, "notes") {
		t.Errorf("what was sent: %d %s", code, out)
	}
	resp, err := http.Get(q.s.URL() + "/api/v1/submissions?task_id=" + q.task.ID) // the seed's unsigned read
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	list, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(list, []byte(s.ID)) || bytes.Contains(list, []byte("+size")) {
		t.Errorf("%s %v", list, err)
	}
}

// Rows 33 to 35 by the command line: submit-workspace in the launcher's workspace
// leaves submission_result.json; failing cycles do not stop a loop of two.
func TestMineCommands(t *testing.T) {
	q := openQuorum(t)
	b := q.miner("alice")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	submit := `printf 'size = 7\n-- old\n' > {repo_dir_quoted}/src/work.py && echo '{"summary": "by the agent", "claimed_metrics": {"size": 7}}' > {submission_path_quoted} &&
AGON_TEST_CLI=1 ` + exe + ` research submit-workspace --coordinator-url "$BITSOTA_RESEARCH_COORDINATOR_URL" --claim-id "$BITSOTA_RESEARCH_CLAIM_ID" --repo-dir {repo_dir_quoted} --submission-file {submission_path_quoted} --wallet-path ` +
		q.s.Data.Path("wallets") + ` --wallet-name alice --wallet-hotkey default`
	code, out, errOut := b.run("mine-once", "--task-slug", "quorum", "--agent-mode", "autonomous", "--workspace-root", root, "--agent-command", submit)
	var cycle struct {
		Submission coordinator.Submission `json:"submission"`
	}
	if code != 0 || json.Unmarshal([]byte(out), &cycle) != nil || cycle.Submission.Status != "pending_verification" || cycle.Submission.Summary != "by the agent" {
		t.Fatalf("%d %s %s", code, out, errOut)
	}
	code, out, errOut = b.run("loop", "--task-slug", "quorum", "--cycles", "2", "--interval-seconds", "1", "--workspace-root", root, "--agent-command", "exit 3")
	n := 0
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); n++ {
		var c miner.Cycle
		if err := d.Decode(&c); err != nil || c.Execution == nil || c.Execution.ExitCode != 3 || c.Error == "" {
			t.Errorf("%+v %v", c, err)
		}
	}
	if code != 0 || n != 2 {
		t.Errorf("%d cycles, %d %s", n, code, errOut)
	}
	var claims []coordinator.Claim
	q.get("/api/v1/claims?task_id="+q.task.ID, &claims)
	by := map[string]int{}
	for _, c := range claims {
		by[c.Status]++
	}
	if by["submitted"] != 1 || by["cancelled"] != 2 {
		t.Errorf("claims %v", by)
	}
}
