package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/coding/canary"
	"github.com/agon-arena/agon/kinds/coding/patch"
	"github.com/agon-arena/agon/sandbox"
)

// Names of a record's files.
const (
	FilePatch = "patch.diff"
	// FilePartial is what stood in the repository when the agent's time was up: evidence, never judged.
	FilePartial = "partial.diff"
	FileStdout  = "stdout.txt"
	FileStderr  = "stderr.txt"
)

// maxLog bounds each log of a record (spec/ridges.md 2.6).
const maxLog = 500_000

// maxResult bounds the result file: more than any acceptable patch, so that a
// patch over the limit is told from a missing one.
const maxResult = 8 << 20

// initRepo makes /repo a repository of exactly one root commit with fixed
// identity and times: no history to search, the same bytes everywhere. The
// tree may hold an ignore file, hence -f.
const initRepo = `set -e
ln -s /repo /sandbox/repo
ln -s /agon/agent.py /sandbox/agent.py
cd /repo
git init -q -b main --template=
git add -A -f .
git -c core.hooksPath=/dev/null -c commit.gpgsign=false -c gc.auto=0 commit -q --allow-empty --no-verify -m base
`

var (
	identityEnv = []string{
		"GIT_AUTHOR_NAME=agon", "GIT_AUTHOR_EMAIL=agon@example.invalid", "GIT_COMMITTER_NAME=agon", "GIT_COMMITTER_EMAIL=agon@example.invalid",
	}
	commitEnv = append([]string{"GIT_AUTHOR_DATE=2000-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2000-01-01T00:00:00Z"}, gitEnv...)
)

// Play shows the task to the agent and keeps what it returned.
func (k *Kind) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	t, err := theTask(ctx, env, r)
	if err != nil {
		return agon.Record{}, err
	}
	base, err := basePath(t)
	if err != nil {
		return agon.Record{}, err
	}
	agentDir, err := env.Tree(ctx, s.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	doors, err := env.Door(ctx, t.Key, doorListen...)
	if err != nil {
		return agon.Record{}, err
	}
	names := &hosts{}
	if r.Policy.Hosts != agon.HostsNone {
		if names, err = secure(doors); err != nil {
			return agon.Record{}, err
		}
	}
	defer names.close()
	root, err := k.root(ctx, env, t)
	if err != nil {
		return agon.Record{}, err
	}
	limits := agentLimits(r.Policy.Agent, t)
	box, err := env.Box(ctx, sandbox.Spec{
		Name:   "agent",
		Rootfs: root.Dir,
		Mounts: append([]sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: scratchDir},
			{Kind: sandbox.MountScratch, Target: "/tmp"},
			{Kind: sandbox.MountOverlay, Source: base, Target: repoDir},
			{Kind: sandbox.MountReadOnly, Source: agentDir, Target: toolsDir},
		}, names.mounts...),
		Doors:     append(doors, names.doors...),
		Hostnames: append(slices.Clone(doorHosts), names.names...),
		Limits:    limits,
		Env:       root.Environ(agentEnv(r, limits)...),
		UID:       root.UID,
		GID:       root.GID,
	})
	if err != nil {
		return agon.Record{}, err
	}
	defer box.Close()
	out, x, err := exec(ctx, box, sandbox.Cmd{Args: []string{"/bin/sh", "-c", initRepo}, Env: commitEnv, Dir: "/"})
	if err != nil {
		return agon.Record{}, fmt.Errorf("prepare repository: %w", err)
	}
	if x.Code != 0 {
		return agon.Record{}, fmt.Errorf("prepare repository: exit %d: %s", x.Code, plain.Short(out, 300))
	}
	rec, err := k.runAgent(ctx, env, box, root.Python, t, r)
	if err != nil {
		return agon.Record{}, err
	}
	if err := box.Close(); err != nil {
		return agon.Record{}, fmt.Errorf("close the agent's box: %w", err)
	}
	if rec.Outcome == agon.OutcomeOK {
		return k.checkPatch(ctx, env, t, r, rec)
	}
	return rec, nil
}

// agentEnv is the union of what the contracts of spec/ridges.md 2.1 promise.
func agentEnv(r agon.RunSpec, l agon.Limits) []string {
	env := append([]string{}, baseEnv...)
	env = append(env, gitEnv...)
	env = append(env, identityEnv...)
	if r.Policy.Hosts != agon.HostsNone {
		env = append(env, caEnv...)
	}
	env = append(env,
		"HOME="+scratchDir, "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1",
		"AI_PROXY_URL=http://"+doorListen[0], "AI_EMBEDDING_PROXY_URL=http://"+doorListen[0],
		"SANDBOX_PROXY_URL=http://sandbox-proxy:80",
		"OPENAI_BASE_URL=http://"+doorListen[0]+"/v1", "OPENAI_API_KEY=unused", "OPENROUTER_API_KEY=unused",
		fmt.Sprintf("RIDGES_MAX_COST_USD=%.6g", float64(r.Policy.Budget.Micros)/1e6),
		fmt.Sprintf("AGENT_TIMEOUT=%d", seconds(l.WallMS)),
		"EVALUATION_RUN_ID="+r.Run, "RUN_ID="+r.Run,
	)
	for _, m := range r.Policy.Models {
		if m != "*" {
			env = append(env, "AGON_MODEL="+m)
			break
		}
	}
	return env
}

// runAgent runs agent_main and reads what it left. From here on an error can
// only be the driver's.
func (k *Kind) runAgent(ctx context.Context, env kind.Env, box sandbox.Box, python string, t *task.Task, r agon.RunSpec) (agon.Record, error) {
	job, err := json.Marshal(map[string]any{
		"agent":  toolsDir + "/" + AgentFile,
		"result": resultFile,
		"input":  map[string]string{"problem_statement": t.Instruction, "run_id": r.Run},
	})
	if err != nil {
		return agon.Record{}, fmt.Errorf("encode input: %w", err)
	}
	stdout, stderr := &tail{limit: maxLog}, &tail{limit: maxLog}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args:      []string{python, "-u", "-c", runSource},
		Dir:       repoDir,
		Stdin:     bytes.NewReader(job),
		Stdout:    stdout,
		Stderr:    stderr,
		Untrusted: true,
	})
	if err != nil {
		return agon.Record{}, fmt.Errorf("run the agent: %w", err)
	}
	rec := agon.Record{Files: map[string][]byte{FileStdout: stdout.log(), FileStderr: stderr.log()}}
	for name, w := range map[string]*tail{"stdout": stdout, "stderr": stderr} {
		if len(w.buf) > 0 {
			_, dropped := w.bytes()
			env.Progress(agon.EventOutput, t.Key, map[string]any{"stream": name, "text": strings.ToValidUTF8(w.String(), "\ufffd"), "truncated": dropped > 0})
		}
	}
	if rec.Outcome, rec.Detail = endedBy(x); rec.Outcome != "" {
		if rec.Outcome == agon.OutcomeTimeout {
			if left := partial(ctx, box); len(left) > 0 {
				rec.Files[FilePartial] = left
			}
		}
		return rec, nil
	}
	raw, err := box.ReadFile(resultFile, maxResult)
	switch {
	case errors.Is(err, sandbox.ErrNotExist):
		rec.Outcome, rec.Detail = agon.OutcomeExited, fmt.Sprintf("the process ended with status %d before agent_main had returned", x.Code)
		if x.Code > 128 || x.Signal != 0 {
			rec.Outcome = agon.OutcomeKilled
		}
		return rec, nil
	case errors.Is(err, sandbox.ErrUnsafe):
		rec.Outcome, rec.Detail = agon.OutcomeBadPatch, fmt.Sprintf("the result is not a file of at most %d bytes", maxResult)
		return rec, nil
	case err != nil:
		return agon.Record{}, fmt.Errorf("read the result: %w", err)
	}
	var body []byte
	rec.Outcome, rec.Detail, body = parseResult(raw)
	if rec.Outcome == agon.OutcomeOK {
		rec.Files[FilePatch] = body
	}
	return rec, nil
}

// partial reads what an agent whose time was up had changed. It runs in the
// agent's own box, so what it says is the agent's word; where it fails there is none.
func partial(ctx context.Context, box sandbox.Box) []byte {
	out := &tail{limit: patch.MaxBytes}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{"sh", "-c", "git add -A -N . 2>/dev/null; exec git diff HEAD"}, Dir: repoDir, Env: []string{"GIT_PAGER=cat"}, Stdout: out, Wall: 20 * time.Second, Untrusted: true,
	})
	b, dropped := out.bytes()
	if err != nil || x.Code != 0 || x.Limit != "" || dropped > 0 {
		return nil
	}
	return b
}

// endedBy names an end that leaves no result to read: a limit of the box.
func endedBy(x sandbox.Exit) (outcome, detail string) {
	switch x.Limit {
	case "":
		return "", ""
	case "wall", "cpu":
		return agon.OutcomeTimeout, x.Limit + " limit reached"
	case "output":
		return agon.OutcomeOutputLimit, "wrote more than the output limit"
	case "memory":
		return agon.OutcomeOOM, "memory limit reached"
	}
	return agon.OutcomeLimit, x.Limit + " limit reached"
}

// parseResult reads what run.py (or an agent in its place) wrote. Whatever it
// says, it is the agent's word.
func parseResult(raw []byte) (outcome, detail string, body []byte) {
	head, rest, ok := bytes.Cut(raw, []byte("\n"))
	line, body, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 || !utf8.Valid(line) {
		return agon.OutcomeInvalid, "the result file is malformed", nil
	}
	detail = plain.Short(string(line), 500)
	switch outcome = string(head); outcome {
	case agon.OutcomeInvalid, agon.OutcomeRaised, agon.OutcomeExited, agon.OutcomeLoadError:
		return outcome, detail, nil
	case agon.OutcomeOK, agon.OutcomeEmpty:
		if len(bytes.TrimSpace(body)) == 0 {
			return agon.OutcomeEmpty, "the patch is empty", nil
		}
		return agon.OutcomeOK, "", body
	}
	return agon.OutcomeInvalid, "the result file is malformed", nil
}

// checkPatch refuses a patch that breaks a rule or does not apply. The second
// is tried in a fresh box, where nothing of the agent runs any more.
func (k *Kind) checkPatch(ctx context.Context, env kind.Env, t *task.Task, r agon.RunSpec, rec agon.Record) (agon.Record, error) {
	a, err := k.apply(ctx, env, t, r.Policy, rec.Files[FilePatch])
	if err != nil {
		return agon.Record{}, err
	}
	if a.refused != "" {
		known, err := canary.Known(t, rec.Files[FilePatch])
		if err != nil {
			return agon.Record{}, err
		}
		if rec.Detail = a.refused; known != nil {
			return rec, nil // the engine has only ordinary ends judged, and the judge says that it is known by heart
		}
		rec.Outcome = agon.OutcomeBadPatch
		if len(rec.Files[FilePatch]) > patch.MaxBytes {
			rec.Files[FilePatch] = rec.Files[FilePatch][:patch.MaxBytes]
		}
	}
	return rec, nil
}
