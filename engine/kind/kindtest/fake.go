package kindtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// Fake is a kind whose agent is one command and whose judge is another. It is
// the smallest kind that uses everything the engine gives.
type Fake struct{}

var _ kind.Kind = Fake{}

// ResultFile is where the fake kind's agent leaves its answer.
const ResultFile = "/sandbox/result"

// Name implements kind.Kind.
func (Fake) Name() string { return "fake" }

// Scorer implements kind.Kind.
func (Fake) Scorer() string { return "fake-1" }

// Check wants one file called agent.
func (Fake) Check(_ context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	if _, err := fs.Stat(files, "agent"); err != nil {
		return []agon.Finding{{Code: "no_agent", Field: "agent", Message: "there is no file agent"}}, nil
	}
	return nil, nil
}

// Plan plays each task once.
func (Fake) Plan(v agon.View) (agon.Plan, error) {
	if len(v.Runs) == 0 {
		var p agon.Plan
		for _, t := range v.Arena.Tasks {
			p.Runs = append(p.Runs, agon.RunSpec{Arena: v.Arena.ID, Tasks: []agon.TaskRef{t}, Policy: v.Arena.Policy})
		}
		return p, nil
	}
	for _, r := range v.Runs {
		if !r.State.Final() {
			return agon.Plan{Why: "runs are under way"}, nil
		}
	}
	return agon.Plan{Done: true}, nil
}

// Play runs the agent's command.
func (Fake) Play(ctx context.Context, env kind.Env, _ agon.Submission, r agon.RunSpec) (agon.Record, error) {
	doors, err := env.Door(ctx, r.Tasks[0].Key, "127.0.0.1:8000")
	if err != nil {
		return agon.Record{}, err
	}
	box, err := env.Box(ctx, sandbox.Spec{
		Name: "agent", Rootfs: "/", Doors: doors, Limits: r.Policy.Agent,
		Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/sandbox"}},
	})
	if err != nil {
		return agon.Record{}, err
	}
	defer box.Close()
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"agent"}, Untrusted: true})
	if err != nil {
		return agon.Record{}, err
	}
	switch {
	case x.Limit != "":
		return agon.Record{Outcome: "limit_" + x.Limit}, nil
	case x.Code != 0:
		return agon.Record{Outcome: agon.OutcomeExited}, nil
	}
	b, err := box.ReadFile(ResultFile, 1<<10)
	if errors.Is(err, sandbox.ErrNotExist) || errors.Is(err, sandbox.ErrUnsafe) {
		return agon.Record{Outcome: agon.OutcomeInvalid}, nil
	} else if err != nil {
		return agon.Record{}, err
	}
	return agon.Record{Outcome: agon.OutcomeOK, Files: map[string][]byte{"result": b}}, nil
}

// Judge gives 1 for the answer "42".
func (Fake) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	box, err := env.Box(ctx, sandbox.Spec{Name: "grader", Rootfs: "/", Limits: r.Policy.Grader})
	if err != nil {
		return nil, err
	}
	defer box.Close()
	if _, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"grade"}}); err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	ok := string(rec.Files["result"]) == "42"
	s := agon.Score{Task: r.Tasks[0].Key, Solved: ok}
	if ok {
		s.Value = 1
	}
	return []agon.Score{s}, nil
}

// FakeCase is the suite's case for Fake.
func FakeCase() Case {
	d := agon.Sum([]byte("task"))
	return Case{
		Kind: Fake{},
		Arena: agon.Arena{
			ID: "fake", Kind: "fake", Tasks: []agon.TaskRef{{Key: "set/a", Digest: d}, {Key: "set/b", Digest: d}},
			Policy: agon.Policy{Models: []string{"*"}, Agent: agon.Limits{WallMS: 5000}, Grader: agon.Limits{WallMS: 5000}, Budget: agon.Budget{Micros: 1_000_000, Calls: 10}},
		},
		Good:       fstest.MapFS{"agent": {Data: []byte("x")}},
		Bad:        []fs.FS{fstest.MapFS{}, fstest.MapFS{"other": {}}},
		Trees:      NoTrees{},
		Submission: agon.Submission{ID: "sub-1", Arena: "fake"},
		Behave: func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				b.SetFile(ResultFile, []byte("42"))
			}
			return sandbox.Exit{}
		},
	}
}
