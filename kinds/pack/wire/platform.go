package wire

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// Platform is what the routes are made of; *platform.Platform has it.
type Platform interface {
	Entries
	Plays
	Judging
	// PutBlob returns when the bytes are on disk. A validator has a quota for a day.
	PutBlob(ctx context.Context, c platform.Caller, lease string, d agon.Digest, b []byte) error
}

// Entries enters packs in the arena and reads them.
type Entries interface {
	Arena(ctx context.Context, id string) (*client.Arena, error)
	// Enter returns when the submission is on disk and its runs are queued. also is
	// done in the transaction that admits it; nil: nothing.
	Enter(ctx context.Context, c platform.Caller, arena string, r client.SubmitRequest, also func(*store.Tx, store.Entry) error) (*client.Submission, error)
	// FeesBack returns every fee of a miner that is given back; again, the same.
	FeesBack(ctx context.Context, arena, miner string) ([]agon.Fee, error)
	Submissions(ctx context.Context, c platform.Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	SubmissionFiles(ctx context.Context, c platform.Caller, id string) ([]client.File, error)
}

// Plays reads runs and their evidence.
type Plays interface {
	Runs(ctx context.Context, c platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, c platform.Caller, id string) (*client.Run, error)
	// Events are those after the cursor, in order, cut by the reading rights of c.
	Events(ctx context.Context, c platform.Caller, run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error)
	// Blob returns not_found for bytes that c may not read.
	Blob(ctx context.Context, c platform.Caller, d agon.Digest) ([]byte, error)
}

// Judging reads who judged, and what was decided.
type Judging interface {
	Validators(ctx context.Context, arena string) ([]store.ValidatorStat, error)
	Decisions(ctx context.Context, arena string, limit int) ([]agon.Decision, error)
}
