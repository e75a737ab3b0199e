package sprout

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox"
)

const (
	name = "sprout"
	// scorer is part of every score: change it whenever the same record could be
	// judged differently.
	scorer = "sprout-1"

	agentFile     = "agent.py" // the only file of a submission
	maxAgentBytes = 256 << 10

	// Files of a task, besides task.toml and instruction.md.
	inputFile   = "environment/input.json" // what the agent is shown
	answerFile  = "tests/answer.json"      // what it must return; never in its box
	maxTaskFile = 64 << 10

	// Paths in the agent's box.
	agentDir = "/agent"   // the submission, read-only
	workDir  = "/sandbox" // empty and writable; agents start here
	result   = workDir + "/.result.json"

	maxResult = 64 << 10
	maxLog    = 16 << 10         // of what the agent printed, kept as evidence
	door      = "127.0.0.1:8000" // the gateway, as seen in the box
)

// runner calls agent_main in the box. It runs beside the agent's own code, so
// what it leaves is the agent's word.
//
//go:embed runner.py
var runner string

// sprout implements kind.Kind. It is stateless: the engine calls it from many
// goroutines.
type sprout struct {
	rootfs string // of boxes; "" on a server that does not play
}

func (sprout) Name() string   { return name }
func (sprout) Scorer() string { return scorer }

var agentMain = regexp.MustCompile(`(?m)^def agent_main\(`)

// Check decides whether files may be entered. It never runs them.
func (sprout) Check(ctx context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	return kind.CheckOneFile(ctx, files, agentFile, maxAgentBytes, func(src []byte) []agon.Finding {
		switch {
		case len(src) > maxAgentBytes:
			return []agon.Finding{{Code: "too_large", Field: agentFile, Limit: fmt.Sprintf("%d bytes", maxAgentBytes), Message: agentFile + " is too large"}}
		case !utf8.Valid(src):
			return []agon.Finding{{Code: "not_utf8", Field: agentFile, Message: agentFile + " is not UTF-8"}}
		case !agentMain.Match(src):
			return []agon.Finding{{Code: "no_agent_main", Field: agentFile, Message: agentFile + " has no top-level function agent_main (def agent_main(input): ...)"}}
		}
		return nil
	})
}

// Plan plays each task once.
func (sprout) Plan(v agon.View) (agon.Plan, error) { return kind.EachTask(v), nil }

// Play shows one task to the agent, in a box, and keeps what it returned. An
// error means that the kind could not do its part; what the agent does wrong is
// an outcome. Only "ok" and "empty" are judged, every other word is a failure of
// the agent's and scores 0.
func (k sprout) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return agon.Record{}, err
	}
	input, err := t.ReadFile(inputFile, maxTaskFile)
	if err != nil {
		return agon.Record{}, err
	}
	agent, err := env.Tree(ctx, s.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	// The only way out: the arena's models, metered, with the run's budget. A kind
	// whose agents ask no model leaves the door away.
	doors, err := env.Door(ctx, t.Key, door)
	if err != nil {
		return agon.Record{}, err
	}
	box, err := env.Box(ctx, sandbox.Spec{
		Name: "agent", Rootfs: k.rootfs, Doors: doors, Limits: r.Policy.Agent,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountReadOnly, Source: agent, Target: agentDir},
			{Kind: sandbox.MountScratch, Target: workDir},
		},
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + workDir, "OPENAI_BASE_URL=http://" + door + "/v1", "OPENAI_API_KEY=unused"},
	})
	if err != nil {
		return agon.Record{}, err
	}
	defer box.Close()
	job, err := json.Marshal(map[string]any{
		"agent": agentDir + "/" + agentFile, "result": result,
		"input": map[string]any{"problem_statement": t.Instruction, "data": json.RawMessage(input)},
	})
	if err != nil {
		return agon.Record{}, fmt.Errorf("encode input: %w", err)
	}
	var printed bytes.Buffer // the box bounds it: Limits.OutputBytes
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{"python3", "-u", "-c", runner}, Dir: workDir,
		Stdin: bytes.NewReader(job), Stdout: &printed, Stderr: &printed,
		Untrusted: true, // what runs is the contestant's: from here on failures are the agent's
	})
	if err != nil {
		return agon.Record{}, fmt.Errorf("run the agent: %w", err)
	}
	rec := agon.Record{Files: map[string][]byte{"output.txt": tail(printed.Bytes())}}
	switch {
	case x.Limit != "":
		rec.Outcome, rec.Detail = "limit", x.Limit+" limit reached"
		return rec, nil
	case x.Code != 0:
		rec.Outcome, rec.Detail = "raised", fmt.Sprintf("the agent ended with status %d", x.Code)
		return rec, nil
	}
	answer, err := box.ReadFile(result, maxResult)
	switch {
	case errors.Is(err, sandbox.ErrNotExist), errors.Is(err, sandbox.ErrUnsafe):
		rec.Outcome, rec.Detail = "invalid", "the agent left no result"
		return rec, nil
	case err != nil:
		return agon.Record{}, fmt.Errorf("read the result: %w", err)
	}
	rec.Outcome, rec.Files["answer.json"] = "ok", answer
	return rec, nil
}

// tail is the end of what was printed.
func tail(b []byte) []byte {
	return b[max(0, len(b)-maxLog):]
}

// Judge compares the answer with the task's. It needs no box: the answer is read
// as data. A kind that runs what an agent made does it in a fresh box, where the
// agent never was. An error of Judge is never the contestant's.
func (sprout) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return nil, err
	}
	b, err := t.ReadFile(answerFile, maxTaskFile)
	if err != nil {
		return nil, err
	}
	var want int64
	var got *int64 // nil: None was returned
	if err := json.Unmarshal(b, &want); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", answerFile, t.Key, err)
	}
	score := agon.Score{Task: r.Tasks[0].Key}
	switch err := json.Unmarshal(rec.Files["answer.json"], &got); {
	case err != nil || got == nil:
		score.Detail = "the answer is not an integer"
	case *got != want:
		score.Detail = fmt.Sprintf("%d is not the sum", *got) // says nothing of the answer: a task may be hidden
	default:
		score.Value, score.Solved = 1, true
	}
	return []agon.Score{score}, nil
}
