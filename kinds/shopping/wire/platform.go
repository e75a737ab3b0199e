package wire

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// Platform is what the routes are made of; *platform.Platform has it.
type Platform interface {
	Arenas
	Entries
	Plays
	Leases
}

// Arenas reads the arena.
type Arenas interface {
	Arena(ctx context.Context, id string) (*client.Arena, error)
	// FullArena has the digests of hidden tasks: no route shows them.
	FullArena(ctx context.Context, id string) (*client.Arena, error)
	// Seeds are the periods of an arena, newest first.
	Seeds(ctx context.Context, arena string) ([]client.SeedPeriod, error)
}

// Entries enters agents in the arena and reads them.
type Entries interface {
	// Submit returns when the submission is on disk and its runs are queued.
	Submit(ctx context.Context, c platform.Caller, arena string, r client.SubmitRequest) (*client.Submission, error)
	Submissions(ctx context.Context, c platform.Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	Submission(ctx context.Context, c platform.Caller, id string) (*client.Submission, error)
	SubmissionFiles(ctx context.Context, c platform.Caller, id string) ([]client.File, error)
}

// Plays reads runs.
type Plays interface {
	Runs(ctx context.Context, c platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, c platform.Caller, id string) (*client.Run, error)
	// Blob returns what a run left, to who may read it.
	Blob(ctx context.Context, c platform.Caller, d agon.Digest) ([]byte, error)
}

// Leases is the work of validators; PutBlob stores their evidence.
type Leases interface {
	// Claim returns nil when no run came within the time that r waits.
	Claim(ctx context.Context, c platform.Caller, r client.ClaimRequest) (*client.Lease, error)
	// Heartbeat and Result may be repeated; a lost lease is a reply, not an error.
	Heartbeat(ctx context.Context, c platform.Caller, lease string, h client.Heartbeat) (*client.HeartbeatReply, error)
	Result(ctx context.Context, c platform.Caller, lease string, r client.Result) (*client.ResultReply, error)
	// PutBlob returns when the bytes are on disk.
	PutBlob(ctx context.Context, c platform.Caller, lease string, d agon.Digest, b []byte) error
}
