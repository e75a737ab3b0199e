package api

import (
	"context"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// Platform is what the routes are made of; *platform.Platform has it. Its methods may
// run at once; errors are *agon.Error, or the context's.
type Platform interface {
	Arenas
	Submissions
	Runs
	Leases
	Blobs
	Operator
	Appeals
	Purses
	Vettings
	OperatorLog
	History
}

// History proves what was, from the transparency log.
type History interface {
	// Proof shows that a fact is in the log; its salt goes to those who may read the fact.
	Proof(ctx context.Context, c platform.Caller, typ, id string) (*client.LogProof, error)
	// Consistency proves that the log of a size begins the newest.
	Consistency(ctx context.Context, size int64) (*client.LogConsistency, error)
	// Receipts are those of an attempt, for those who may read its trace.
	Receipts(ctx context.Context, c platform.Caller, run string, attempt int) ([]agon.Receipt, error)
}

// Arenas reads arenas and what they came to.
type Arenas interface {
	Overview(ctx context.Context) (*client.Overview, error)
	Arenas(ctx context.Context) ([]client.Arena, error)
	Arena(ctx context.Context, id string) (*client.Arena, error)
	Board(ctx context.Context, arena string) (*client.Board, error)
	// Seeds lists the arena's set periods, newest first, with the secrets of those that have ended.
	Seeds(ctx context.Context, arena string) ([]client.SeedPeriod, error)
	ArenaTasks(ctx context.Context, c platform.Caller, arena string) ([]client.ArenaTask, error)
	// Target is what weights the incentive rule wants now.
	Target(ctx context.Context, arena string) (*client.Target, error)
}

// Submissions enters submissions and reads them.
type Submissions interface {
	// Submit returns when the submission is on disk and its runs are queued.
	Submit(ctx context.Context, c platform.Caller, arena string, r client.SubmitRequest) (*client.Submission, error)
	Submissions(ctx context.Context, c platform.Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	Submission(ctx context.Context, c platform.Caller, id string) (*client.Submission, error)
	SubmissionFiles(ctx context.Context, c platform.Caller, id string) ([]client.File, error)
}

// Runs reads runs and follows them.
type Runs interface {
	// ValidatorStandings and Judgings are what comes of judging results again, for everybody.
	ValidatorStandings(ctx context.Context) (*client.Standings, error)
	Judgings(ctx context.Context, c platform.Caller, run string) ([]agon.Rejudging, error)
	Runs(ctx context.Context, c platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, c platform.Caller, id string) (*client.Run, error)
	// Events are those after the cursor, in order, cut by the reading rights of c.
	Events(ctx context.Context, c platform.Caller, run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error)
	// Wait blocks until something changed in run (or any run, if empty) or ctx
	// ends. It may return without a change.
	Wait(ctx context.Context, run string) error
}

// Leases is the work of validators.
type Leases interface {
	// Claim returns nil when no run came within the time that r waits.
	Claim(ctx context.Context, c platform.Caller, r client.ClaimRequest) (*client.Lease, error)
	// NeededImages are what the tasks stand on that c may claim.
	NeededImages(ctx context.Context, c platform.Caller, r client.ClaimRequest) (*client.NeededImages, error)
	// Heartbeat and Result may be repeated; a lost lease is a reply, not an error.
	Heartbeat(ctx context.Context, c platform.Caller, lease string, h client.Heartbeat) (*client.HeartbeatReply, error)
	Result(ctx context.Context, c platform.Caller, lease string, r client.Result) (*client.ResultReply, error)
	// ClaimJudging returns nil when there was nothing to judge within the time that r waits.
	ClaimJudging(ctx context.Context, c platform.Caller, r client.ClaimRequest) (*client.JudgeLease, error)
	BeatJudging(ctx context.Context, c platform.Caller, lease string, h client.JudgeHeartbeat) (*client.HeartbeatReply, error)
	JudgingResult(ctx context.Context, c platform.Caller, lease string, r client.JudgeResult) (*client.JudgeReply, error)
	// SettleNonce ends what platform.DeferNonce began, before the reply.
	SettleNonce(ctx context.Context) error
}

// Blobs moves content-addressed bytes: submissions, tasks, evidence.
type Blobs interface {
	// Blob returns not_found for bytes that c may not read.
	Blob(ctx context.Context, c platform.Caller, d agon.Digest) ([]byte, error)
	// BlobAt returns a URL from which c reads the bytes, "" if only Blob gives them.
	BlobAt(ctx context.Context, c platform.Caller, d agon.Digest) (string, error)
	// PutBlob returns when the bytes are on disk. They may be evidence of lease, or
	// with none named of the leases that c holds now.
	PutBlob(ctx context.Context, c platform.Caller, lease string, d agon.Digest, b []byte) error
}

// Operator is what an operator does, with a reason.
type Operator interface {
	SetArenaState(ctx context.Context, c platform.Caller, id string, s agon.ArenaState, reason string) error
	Retune(ctx context.Context, c platform.Caller, arena string, r client.Retune, reason string) error
	RetunePlan(ctx context.Context, c platform.Caller, arena string, r client.Retune) (*client.RetunePlan, error)
	GatewayKey(ctx context.Context, c platform.Caller, arena string, r client.GatewayKey) error
	Ban(ctx context.Context, c platform.Caller, submission, reason string) error
	Retry(ctx context.Context, c platform.Caller, submission, reason string) (queued int, err error)
	CancelRun(ctx context.Context, c platform.Caller, id, reason string) error
	// MakeCanary has a run of known outcome played by validators, whose word is measured so.
	MakeCanary(ctx context.Context, c platform.Caller, run string, r client.CanaryRequest) (*agon.Canary, error)
	Canaries(ctx context.Context, c platform.Caller, arena string) ([]agon.Canary, error)
	// Fund books a payment into a coldkey's purse, or out of it where m is negative.
	Fund(ctx context.Context, c platform.Caller, coldkey string, m agon.Micros, payment, reason string) (*agon.Purse, error)
}

// Vettings are questions to somebody outside about submissions, for the operator and its workers.
type Vettings interface {
	Vettings(ctx context.Context, c platform.Caller, arena, what, state string) ([]store.Vetting, error)
	ClaimVetting(ctx context.Context, c platform.Caller, arena, what, worker string, hold time.Duration) (*store.Vetting, string, error)
	ExtendVetting(ctx context.Context, c platform.Caller, id, token string, hold time.Duration) (*store.Vetting, error)
	AnswerVetting(ctx context.Context, c platform.Caller, id string, r platform.VetAnswer) (*store.Vetting, error)
	ReviewVetting(ctx context.Context, c platform.Caller, id, actor, reason string, pass bool) (*store.Vetting, error)
}

// Purses are what coldkeys have paid in, and what their entries took.
type Purses interface {
	Purse(ctx context.Context, c platform.Caller, coldkey string) (*agon.Purse, error)
}

// Appeals are miners' objections, and the operator's answers.
type Appeals interface {
	Appeal(ctx context.Context, c platform.Caller, submission, reason string) (*agon.Appeal, error)
	AnswerAppeal(ctx context.Context, c platform.Caller, submission string, grant bool, reason string) (*agon.Appeal, error)
}

// OperatorLog is what the operator did, newest first.
type OperatorLog interface {
	Actions(ctx context.Context, c platform.Caller, limit int) ([]agon.OperatorAction, error)
}
