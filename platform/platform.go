// Package platform holds the use cases of the server: admit, queue, lease,
// settle, decide. It owns the state machines; it knows no HTTP.
package platform

import (
	"context"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Caller is who asks, after the signature was checked.
type Caller struct {
	Hotkey   string // SS58; empty for anonymous reads
	Operator bool
}

// API is what internal/api needs of the platform; *Platform implements it.
type API interface {
	Arenas(ctx context.Context) ([]client.Arena, error)
	Arena(ctx context.Context, id string) (*client.Arena, error)
	// Board needs the ledger for weights.
	Board(ctx context.Context, arena string) (*client.Board, error)
	Overview(ctx context.Context) (*client.Overview, error)
	SetArenaState(ctx context.Context, c Caller, id string, s agon.ArenaState) error
	// Retune, Ban and Retry are the operator's, with a reason; Actions is what the operator did.
	Retune(ctx context.Context, c Caller, arena string, r client.Retune, reason string) error
	Ban(ctx context.Context, c Caller, submission, reason string) error
	Retry(ctx context.Context, c Caller, submission, reason string) (queued int, err error)
	Actions(ctx context.Context, c Caller, limit int) ([]agon.OperatorAction, error)

	// Submit checks, stores durably (fsync) and queues. Errors are *agon.Error.
	Submit(ctx context.Context, c Caller, arena string, r client.SubmitRequest) (*client.Submission, error)
	Submissions(ctx context.Context, c Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	Submission(ctx context.Context, c Caller, id string) (*client.Submission, error)
	SubmissionFiles(ctx context.Context, c Caller, id string) ([]client.File, error)

	Runs(ctx context.Context, c Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, c Caller, id string) (*client.Run, error)
	CancelRun(ctx context.Context, c Caller, id, reason string) error
	// Events returns events after the cursor (attempt, seq), in order, cut by the reading rights of c.
	Events(ctx context.Context, c Caller, run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error)
	// Wait blocks until something changed in run (or any run, if empty) or ctx ends.
	Wait(ctx context.Context, run string) error

	// Claim takes the next run for the calling validator; nil when none came within wait.
	Claim(ctx context.Context, c Caller, r client.ClaimRequest) (*client.Lease, error)
	Heartbeat(ctx context.Context, c Caller, lease string, h client.Heartbeat) (*client.HeartbeatReply, error)
	Result(ctx context.Context, c Caller, lease string, r client.Result) (*client.ResultReply, error)

	// Blob and PutBlob move content-addressed bytes: submissions, tasks, evidence.
	Blob(ctx context.Context, c Caller, d agon.Digest) ([]byte, error)
	PutBlob(ctx context.Context, c Caller, d agon.Digest, b []byte) error

	// Target is what weights the incentive rule wants now.
	Target(ctx context.Context, arena string) (*client.Target, error)
	// Replay records a nonce; false when it was seen before. It survives a restart.
	Replay(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error)
	// SettleNonce ends what DeferNonce began, before the reply.
	SettleNonce(ctx context.Context) error
}
