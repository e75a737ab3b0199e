package wire

import (
	"context"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// Platform is what the routes are made of; *platform.Platform has it.
type Platform interface {
	Entries
	Plays
	Leases
	Vettings
}

// Entries enters agents in the arena and reads them.
type Entries interface {
	Arena(ctx context.Context, id string) (*client.Arena, error)
	// FullArena has the digests of hidden tasks: no route shows them.
	FullArena(ctx context.Context, id string) (*client.Arena, error)
	// Submit returns when the submission is on disk and its runs are queued.
	Submit(ctx context.Context, c platform.Caller, arena string, r client.SubmitRequest) (*client.Submission, error)
	// Enter is Submit with more to do in the transaction that admits it.
	Enter(ctx context.Context, c platform.Caller, arena string, r client.SubmitRequest, also func(*store.Tx, store.Entry) error) (*client.Submission, error)
	// FeesBack returns every fee of a miner that is given back; again, the same.
	FeesBack(ctx context.Context, arena, miner string) ([]agon.Fee, error)
	Submissions(ctx context.Context, c platform.Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	Submission(ctx context.Context, c platform.Caller, id string) (*client.Submission, error)
}

// Plays reads runs and what follows from them.
type Plays interface {
	SubmissionFiles(ctx context.Context, c platform.Caller, id string) ([]client.File, error)
	Runs(ctx context.Context, c platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, c platform.Caller, id string) (*client.Run, error)
	// Ban takes a submission out of the arena.
	Ban(ctx context.Context, c platform.Caller, id, reason string) error
}

// Leases is the work of validators.
type Leases interface {
	// ClaimFor returns nil when there is no run on these terms.
	ClaimFor(ctx context.Context, c platform.Caller, r client.ClaimRequest, t platform.Terms) (*client.Lease, error)
	// Extend, Heartbeat and Result may be repeated; a lost lease is a reply, not an error.
	Extend(ctx context.Context, c platform.Caller, lease, token string, hold time.Duration) (time.Time, error)
	Heartbeat(ctx context.Context, c platform.Caller, lease string, h client.Heartbeat) (*client.HeartbeatReply, error)
	Result(ctx context.Context, c platform.Caller, lease string, r client.Result) (*client.ResultReply, error)
}

// Vettings are the jobs of judges.
type Vettings interface {
	// ClaimVetting returns nil when there is none.
	ClaimVetting(ctx context.Context, c platform.Caller, arena, what, worker string, hold time.Duration) (*store.Vetting, string, error)
	AnswerVetting(ctx context.Context, c platform.Caller, id string, r platform.VetAnswer) (*store.Vetting, error)
	ReviewVetting(ctx context.Context, c platform.Caller, id, actor, reason string, pass bool) (*store.Vetting, error)
	// VettingOf returns nil when there is none.
	VettingOf(ctx context.Context, c platform.Caller, submission, what string) (*store.Vetting, error)
	Vettings(ctx context.Context, c platform.Caller, arena, what, state string) ([]store.Vetting, error)
}
