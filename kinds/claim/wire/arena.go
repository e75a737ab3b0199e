package wire

import (
	"context"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// Arenas is what the routes are made of; *platform.Platform has it.
type Arenas interface {
	Entries
	Outcomes
}

// Entries enters scripts in the arena and reads them.
type Entries interface {
	Arena(ctx context.Context, id string) (*client.Arena, error)
	// Submit returns when the submission is on disk and its runs are queued.
	Submit(ctx context.Context, c platform.Caller, arena string, r client.SubmitRequest) (*client.Submission, error)
	Submissions(ctx context.Context, c platform.Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	Submission(ctx context.Context, c platform.Caller, id string) (*client.Submission, error)
	SubmissionFiles(ctx context.Context, c platform.Caller, id string) ([]client.File, error)
}

// Outcomes reads what became of them.
type Outcomes interface {
	Runs(ctx context.Context, c platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	// Target is what weights the incentive rule wants now.
	Target(ctx context.Context, arena string) (*client.Target, error)
}
