package miner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Agent modes: who submits.
const (
	ModeManaged    = "gui_managed" // the launcher, from submission.json
	ModeAutonomous = "autonomous"  // the agent, with submit-workspace
)

// Agent configures cycles around an external agent.
type Agent struct {
	Client  *Client
	Command string // template: {workspace_dir}, {repo_dir}, {intro_path}, {submission_path}, {submission_result_path}, each with _quoted
	Mode    string
	TaskID  string
	Slug    string
	Pool    bool   // take work items first
	Peers   bool   // in a loop, evaluate peers' submissions first
	Root    string // workspaces and results.tsv stand here
	// Sidecar and Result are the names of the agent's files in its workspace.
	Sidecar, Result string
	Keep            bool // keep the workspaces
	MaxLog          int  // of the execution log, in characters
	CoordinatorURL  string
	Now             func() time.Time
	Out             io.Writer // one JSON a cycle
	// Passed lists variables of this process that the agent sees, besides PATH,
	// HOME, LANG and TERM. Everything else stays out: keys leak through the environment.
	Passed []string
}

// Cycle is what one cycle did.
type Cycle struct {
	Task       *coordinator.TaskView `json:"task"`
	WorkItem   *coordinator.WorkItem `json:"work_item"`
	Claim      *coordinator.Claim    `json:"claim"`
	Submission json.RawMessage       `json:"submission"`
	Plan       any                   `json:"plan"`
	Execution  *Execution            `json:"execution"`
	Error      string                `json:"error,omitempty"`
	Kept       bool                  `json:"kept"`
}

// Execution is how the agent's command ended.
type Execution struct {
	Workspace string  `json:"workspace"`
	ExitCode  int     `json:"exit_code"`
	Seconds   float64 `json:"seconds"`
	TimedOut  bool    `json:"timed_out"`
}

// Once runs one cycle. Any failure after the claim gives the claim back.
func (a *Agent) Once(ctx context.Context, n int) (out *Cycle, err error) {
	out = &Cycle{}
	c := a.Client
	if out.Task, err = c.Task(ctx, a.TaskID, a.Slug, true); err != nil {
		return out, err
	}
	if err := a.settle(ctx, out.Task); err != nil {
		return out, err
	}
	item := ""
	if a.Pool {
		if out.WorkItem, err = a.pick(ctx, out.Task.ID); err != nil {
			return out, err
		}
	}
	resumed := false
	if w := out.WorkItem; w != nil {
		item = w.ID
		if w.Status == coordinator.ItemClaimed && w.ClaimID != nil {
			mine, err := get[coordinator.Claim](ctx, c, "/api/v1/claims/"+*w.ClaimID)
			if err != nil {
				return out, err
			}
			out.Claim, resumed = &mine, true
		}
	}
	if !resumed {
		if out.Claim, _, err = c.Claim(ctx, out.Task.ID, item, fmt.Sprintf("external agent, cycle %d", n)); err != nil {
			return out, err
		}
	}
	defer func() {
		if err == nil {
			return
		}
		// The user's interrupt must not leave the claim behind.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
		defer cancel()
		if _, cerr := c.Cancel(back, out.Claim.ID); cerr != nil {
			err = fmt.Errorf("%w (and the claim could not be cancelled: %w)", err, cerr)
		}
	}()
	w, err := a.prepare(ctx, out)
	if err != nil {
		return out, err
	}
	if !a.Keep {
		defer os.RemoveAll(w.dir)
	}
	out.Execution, err = a.launch(ctx, w, out.Task, out.Claim.ID)
	if err != nil {
		return out, err
	}
	if a.Mode == ModeAutonomous {
		b, err := os.ReadFile(w.result)
		if err != nil || !json.Valid(b) {
			return out, fmt.Errorf("the agent left no %s: submit-workspace in its workspace writes it", filepath.Base(w.result))
		}
		out.Submission = b
		return out, nil
	}
	side, err := ReadSidecar(w.sidecar, out.Task.MetricName)
	if err != nil {
		return out, err
	}
	patch, err := MakePatch(ctx, w.repo, out.Task.BaseSHA, out.Task.Task, Ignored(out.Task.Task, w.repo, w.sidecar, w.result))
	if err != nil {
		return out, err
	}
	if len(patch.Outside) > 0 {
		return out, &DirtyError{patch.Outside, out.Task.AllowedPatchPaths}
	}
	if patch.Text == "" && side.ArtifactURI == "" {
		return out, ErrNoPatch
	}
	if side.ExecutionLog == "" {
		if b, err := os.ReadFile(filepath.Join(w.dir, "agent.stdout.txt")); err == nil {
			side.ExecutionLog = tail(strings.ToValidUTF8(string(b), "\uFFFD"), a.MaxLog)
		}
	}
	if out.Submission, err = c.Submit(ctx, &Submission{ClaimID: out.Claim.ID, BaseRef: patch.Base, Patch: patch.Text, Sidecar: side}); err != nil {
		return out, err
	}
	if err := a.keep(out, side, patch); err != nil {
		return out, nil //nolint:nilerror // it is submitted: a note that could not be written takes nothing back
	}
	return out, nil
}

// pick chooses a work item: one's own with an active claim first, else the
// first open one in the coordinator's order; nil: none, so a direct claim.
func (a *Agent) pick(ctx context.Context, task string) (*coordinator.WorkItem, error) {
	mine, err := get[[]coordinator.WorkItem](ctx, a.Client, "/api/v1/work-items", Field{"task_id", task}, Field{"status", coordinator.ItemClaimed})
	if err != nil {
		return nil, err
	}
	for i, w := range mine {
		if w.ClaimID == nil {
			continue
		}
		cl, err := get[coordinator.Claim](ctx, a.Client, "/api/v1/claims/"+*w.ClaimID)
		if err == nil && cl.Miner == a.Client.Key.SS58() && cl.Status == coordinator.ClaimActive {
			return &mine[i], nil
		}
	}
	open, err := get[[]coordinator.WorkItem](ctx, a.Client, "/api/v1/work-items", Field{"task_id", task}, Field{"status", coordinator.ItemOpen})
	if err != nil || len(open) == 0 {
		return nil, err
	}
	best := &open[0]
	for i := range open {
		if open[i].Priority > best.Priority || open[i].Priority == best.Priority && open[i].CreatedAt.Before(best.CreatedAt.Time) {
			best = &open[i]
		}
	}
	return best, nil
}

type workspace struct{ dir, repo, intro, sidecar, result string }

// clone makes a workspace with a checkout of the task's base.
func (a *Agent) clone(ctx context.Context, t *coordinator.TaskView, prefix, sidecar string) (*workspace, error) {
	if err := os.MkdirAll(a.Root, 0o700); err != nil {
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	dir, err := os.MkdirTemp(a.Root, prefix+t.Slug+"-")
	if err != nil {
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	w := &workspace{dir: dir, repo: filepath.Join(dir, "repo"), intro: filepath.Join(dir, "INTRO_GUI.md"), sidecar: filepath.Join(dir, sidecar), result: filepath.Join(dir, a.Result)}
	if a.Mode == ModeAutonomous {
		w.intro = filepath.Join(dir, "INTRO.md")
	}
	r := &repo{dir: dir}
	if _, err := r.git(ctx, nil, "clone", "--quiet", "--", t.Repository, w.repo); err != nil {
		return nil, err
	}
	at := &repo{dir: w.repo}
	_, err = at.git(ctx, nil, "checkout", "--quiet", t.BaseRef, "--")
	return w, err
}

// Start clones a task's repository into dir, which must not be there, at the base
// that patches are against, and writes a submission.json to fill in.
func Start(ctx context.Context, t *coordinator.TaskView, dir string) error {
	if _, err := (&repo{}).git(ctx, nil, "clone", "--quiet", "--", t.Repository, dir); err != nil {
		return err
	}
	if _, err := (&repo{dir: dir}).git(ctx, nil, "checkout", "--quiet", t.BaseRef, "--"); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "submission.json"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write sidecar: %w", err)
	}
	_, err = f.Write(append(coordinator.SampleSidecar(t), '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write sidecar: %w", err)
	}
	return nil
}

// prepare makes a workspace and writes what an agent needs to know.
func (a *Agent) prepare(ctx context.Context, out *Cycle) (*workspace, error) {
	t := out.Task
	w, err := a.clone(ctx, t, "external-agent-", a.Sidecar)
	if err != nil {
		return nil, err
	}
	at := &repo{dir: w.repo}
	if b, err := os.ReadFile(a.bestPatch(t.Slug)); err == nil && len(b) > 0 { // the next cycle starts from what was kept
		if _, err := at.git(ctx, b, "apply", "--whitespace=nowarn", "-"); err != nil {
			return nil, fmt.Errorf("apply the kept patch: %w", err)
		}
	}
	onboard, err := a.Client.Do(ctx, "GET", "/api/v1/tasks/"+t.ID+"/onboard.md", nil, nil, false)
	if err != nil {
		return nil, err
	}
	ideas, err := a.ideas(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	about, err := json.MarshalIndent(map[string]any{"task": t, "work_item": out.WorkItem, "claim": out.Claim, "idea_candidates": ideas}, "", "  ")
	if err != nil {
		return nil, err
	}
	for name, b := range map[string][]byte{w.intro: []byte(a.introText(w, out)), filepath.Join(w.dir, "onboard.md"): onboard, filepath.Join(w.dir, "claim_context.json"): about} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return nil, fmt.Errorf("make workspace: %w", err)
		}
	}
	return w, nil
}

// ideas are accepted submissions of others that propose one.
func (a *Agent) ideas(ctx context.Context, task string) ([]coordinator.Submission, error) {
	list, err := get[[]coordinator.Submission](ctx, a.Client, "/api/v1/submissions", Field{"task_id", task}, Field{"status", kr.StatusAccepted})
	if err != nil {
		return nil, err
	}
	out := []coordinator.Submission{}
	for _, s := range list {
		if s.ProposedIdea != nil && s.Miner != a.Client.Key.SS58() {
			out = append(out, s)
		}
	}
	return out, nil
}

func (a *Agent) introText(w *workspace, out *Cycle) string {
	t := out.Task
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nImprove `%s` (%s). The contract is in onboard.md, your claim in claim_context.json, the repository in repo/.\n\n", t.Title, t.MetricName, t.MetricDirection)
	fmt.Fprintf(&b, "Change only: %s.\n\n", strings.Join(t.AllowedPatchPaths, ", "))
	if out.WorkItem != nil {
		fmt.Fprintf(&b, "## Work item: %s\n\n%s\n\n", out.WorkItem.Title, out.WorkItem.Instructions)
	}
	fmt.Fprintf(&b, "Write %s: an object with `summary` and `claimed_metrics` (with `%s`).\n", filepath.Base(w.sidecar), t.MetricName)
	if a.Mode == ModeAutonomous {
		fmt.Fprintf(&b, "\nThen submit, which writes %s:\n\n    agon research submit-workspace --coordinator-url %s --claim-id %s --repo-dir repo --submission-file %s --submission-result-file %s\n",
			filepath.Base(w.result), a.CoordinatorURL, out.Claim.ID, filepath.Base(w.sidecar), filepath.Base(w.result))
	}
	return b.String()
}

// launch runs the agent's command, for at least a minute and at most the task's budget.
func (a *Agent) launch(ctx context.Context, w *workspace, t *coordinator.TaskView, claim string) (*Execution, error) {
	line := a.Command
	for name, v := range map[string]string{
		"workspace_dir": w.dir, "repo_dir": w.repo, "intro_path": w.intro, "submission_path": w.sidecar, "submission_result_path": w.result,
	} {
		line = strings.ReplaceAll(line, "{"+name+"_quoted}", "'"+strings.ReplaceAll(v, "'", `'"'"'`)+"'")
		line = strings.ReplaceAll(line, "{"+name+"}", v)
	}
	budget := max(time.Minute, time.Duration(t.TimeBudgetSeconds)*time.Second)
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = w.dir
	cmd.Env = a.environment(w, t, claim)
	// The whole tree of processes ends with the command.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	stdout, err := os.Create(filepath.Join(w.dir, "agent.stdout.txt"))
	if err != nil {
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	defer stdout.Close()
	stderr, err := os.Create(filepath.Join(w.dir, "agent.stderr.txt"))
	if err != nil {
		return nil, fmt.Errorf("make workspace: %w", err)
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	start := a.Now()
	err = cmd.Run()
	e := &Execution{Workspace: w.dir, Seconds: a.Now().Sub(start).Seconds(), TimedOut: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	if cmd.ProcessState != nil {
		e.ExitCode = cmd.ProcessState.ExitCode()
	}
	if err != nil {
		if e.TimedOut {
			return e, fmt.Errorf("the agent did not end within %s", budget)
		}
		b, _ := os.ReadFile(stderr.Name())
		return e, fmt.Errorf("the agent's command failed: %w: %s", err, tail(strings.ToValidUTF8(string(bytes.TrimSpace(b)), "\uFFFD"), 2000))
	}
	return e, nil
}

func (a *Agent) environment(w *workspace, t *coordinator.TaskView, claim string) []string {
	env := []string{
		"BITSOTA_AGENT_WORKSPACE=" + w.dir, "BITSOTA_AGENT_REPO_DIR=" + w.repo, "BITSOTA_AGENT_INTRO_PATH=" + w.intro, "BITSOTA_AGENT_SUBMISSION_PATH=" + w.sidecar,
		"BITSOTA_AGENT_SUBMISSION_RESULT_PATH=" + w.result, "BITSOTA_RESEARCH_CLAIM_ID=" + claim, "BITSOTA_RESEARCH_TASK_ID=" + t.ID,
		"BITSOTA_RESEARCH_TASK_SLUG=" + t.Slug, "BITSOTA_RESEARCH_COORDINATOR_URL=" + a.CoordinatorURL,
	}
	for _, name := range append([]string{"PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR"}, a.Passed...) {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func tail(s string, n int) string {
	if r := []rune(s); n > 0 && len(r) > n {
		return string(r[len(r)-n:])
	}
	return s
}

// Ignored lists the files of a repository that are not work: the sidecar, what
// submitting writes, and the benchmark's result.
func Ignored(t kr.Task, dir string, files ...string) []string {
	var out []string
	if t.ResultPath != "" {
		out = append(out, t.ResultPath)
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return out
	}
	for _, f := range files {
		p, err := filepath.Abs(f)
		if err != nil {
			continue
		}
		if d, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil {
			p = filepath.Join(d, filepath.Base(p))
		}
		if rel, err := filepath.Rel(abs, p); err == nil && filepath.IsLocal(rel) {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

func (a *Agent) bestPatch(slug string) string { return filepath.Join(a.Root, slug+".best.patch") }

// best is what the next cycle starts from. A value is the miner's claim until
// validators have replayed its submission; then it is what they observed, or
// what was there before comes back.
type best struct {
	Value float64 `json:"value"`
	// Submission is set while Value is only claimed; Before and Patch are then what
	// was known to be best, if anything was.
	Submission string   `json:"submission,omitempty"`
	Before     *float64 `json:"before,omitempty"`
	Patch      string   `json:"before_patch,omitempty"`
}

func (a *Agent) bestFile(slug string) string { return filepath.Join(a.Root, slug+".best.json") }

func (a *Agent) best(slug string) (b best, ok bool) {
	raw, err := os.ReadFile(a.bestFile(slug))
	return b, err == nil && json.Unmarshal(raw, &b) == nil
}

func (a *Agent) putBest(slug string, b best, patch string) error {
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(a.bestPatch(slug), []byte(patch), 0o600), os.WriteFile(a.bestFile(slug), raw, 0o600))
}

// settle replaces a claimed value by what validators observed, if they have. What
// they reject, or find no better than what was known before, is dropped.
func (a *Agent) settle(ctx context.Context, t *coordinator.TaskView) error {
	b, ok := a.best(t.Slug)
	if !ok || b.Submission == "" {
		return nil
	}
	s, err := get[coordinator.Submission](ctx, a.Client, "/api/v1/submissions/"+b.Submission)
	if err != nil || s.Status == kr.StatusPending {
		return nil //nolint:nilerror // it is asked again in the next cycle
	}
	x, ok := s.Observed[t.MetricName]
	if s.Status == kr.StatusAccepted && ok && (b.Before == nil || quorum.Better(t.MetricDirection, x, *b.Before)) {
		patch, err := os.ReadFile(a.bestPatch(t.Slug))
		if err != nil {
			return fmt.Errorf("read the kept patch: %w", err)
		}
		return errors.Join(a.putBest(t.Slug, best{Value: x}, string(patch)), a.note(t, fmt.Sprint(x), "observed", s.Summary))
	}
	what := a.note(t, fmt.Sprint(x), "dropped", s.Status+": "+s.Summary)
	if b.Before != nil {
		return errors.Join(a.putBest(t.Slug, best{Value: *b.Before}, b.Patch), what)
	}
	return errors.Join(os.Remove(a.bestPatch(t.Slug)), os.Remove(a.bestFile(t.Slug)), what)
}

// keep writes the cycle to results.tsv, and its patch for the next cycle if
// what it claims is better than what is kept; settle sees whether it was true.
func (a *Agent) keep(out *Cycle, side Sidecar, patch *Patch) error {
	t := out.Task
	x, ok := side.Metric(t.MetricName)
	old, had := a.best(t.Slug)
	if out.Kept = ok && (!had || quorum.Better(t.MetricDirection, x, old.Value)); out.Kept {
		var sent struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(out.Submission, &sent) // without an id it stays a claim
		now := best{Value: x, Submission: sent.ID}
		switch {
		case had && old.Submission != "": // both are claims: what was known stays what is known
			now.Before, now.Patch = old.Before, old.Patch
		case had:
			known, err := os.ReadFile(a.bestPatch(t.Slug))
			if err != nil {
				return fmt.Errorf("read the kept patch: %w", err)
			}
			now.Before, now.Patch = &old.Value, string(known)
		}
		if err := a.putBest(t.Slug, now, patch.Text); err != nil {
			return err
		}
	}
	word := "discard"
	if out.Kept {
		word = "keep"
	}
	return a.note(t, fmt.Sprint(x), word, side.Summary)
}

// note appends one line to results.tsv.
func (a *Agent) note(t *coordinator.TaskView, metric, word, what string) error {
	name := filepath.Join(a.Root, "results.tsv")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() == 0 {
		fmt.Fprintln(f, "at\ttask\tmetric\tstatus\tdescription")
	}
	line := strings.Join(strings.Fields(plain.First(what, 200)), " ")
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\t%s\t%s\n", a.Now().UTC().Format(time.RFC3339), t.Slug, metric, word, line)
	return err
}

// cycle is one cycle of the loop as it is printed: an evaluation of a peer's
// submission where one waits and that is asked for, else a submission of one's own.
func (a *Agent) cycle(ctx context.Context, n int) ([]byte, error) {
	if a.Peers {
		out, err := a.Evaluate(ctx)
		idle := errors.Is(err, ErrNothingToEvaluate) || out.Task != nil && !peerMode(out.Task.CompetitionMode)
		if !idle {
			if err != nil {
				out.Error = err.Error()
			}
			return json.Marshal(out)
		}
	}
	out, err := a.Once(ctx, n)
	if err != nil {
		out.Error = err.Error()
		if out.Task != nil {
			_ = os.MkdirAll(a.Root, 0o700)
			_ = a.note(out.Task, "", "crash", out.Error) // what is printed next says it too
		}
	}
	return json.Marshal(out)
}

// Loop runs cycles until ctx ends, or so many of them; 0 = for ever. A failing
// cycle is printed and the loop goes on.
func (a *Agent) Loop(ctx context.Context, cycles int, every time.Duration) error {
	for n := 1; cycles == 0 || n <= cycles; n++ {
		b, err := a.cycle(ctx, n)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, Indent(b))
		if cycles != 0 && n == cycles {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
	return nil
}
