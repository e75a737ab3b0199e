package web

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// Platform is what pages read, and what an operator does on them;
// *platform.Platform has it. Its methods may
// run at once; errors are *agon.Error, or the context's.
type Platform interface {
	Arenas
	Judging
	Submissions
	Runs
	Operator
	OperatorLog
	Appeals
	History
}

// Appeals are objections of miners: made from their desk, answered from the operator's.
type Appeals interface {
	// Appeals are those of an arena, newest first.
	Appeals(ctx context.Context, arena string) ([]agon.Appeal, error)
	Appeal(ctx context.Context, c platform.Caller, submission, reason string) (*agon.Appeal, error)
	AnswerAppeal(ctx context.Context, c platform.Caller, submission string, grant bool, reason string) (*agon.Appeal, error)
}

// History proves that a fact stands in the transparency log.
type History interface {
	Proof(ctx context.Context, c platform.Caller, typ, id string) (*client.LogProof, error)
}

// Arenas reads arenas and their rankings.
type Arenas interface {
	Arenas(ctx context.Context) ([]client.Arena, error)
	Arena(ctx context.Context, id string) (*client.Arena, error)
	// Target is what weights the incentive rule wants now.
	Target(ctx context.Context, arena string) (*client.Target, error)
	Standings(ctx context.Context, arena string, offset, limit int) ([]platform.Standing, error)
	Facts(ctx context.Context, arena string) (platform.ArenaFacts, error)
	// Queue is who waits to be played, in order.
	Queue(ctx context.Context, arena string) ([]platform.QueueRow, error)
}

// Judging reads how an arena was judged: progress, which all may read.
type Judging interface {
	Tasks(ctx context.Context, arena string) ([]store.TaskStat, error)
	ArenaTasks(ctx context.Context, c platform.Caller, arena string) ([]client.ArenaTask, error)
	Validators(ctx context.Context, arena string) ([]store.ValidatorStat, error)
	// Agreement tells how validators stand to each other where runs have replicas.
	Agreement(ctx context.Context, arena string) ([]score.Standing, error)
	Decisions(ctx context.Context, arena string, limit int) ([]agon.Decision, error)
	// ValidatorStandings is how far each validator's word holds.
	ValidatorStandings(ctx context.Context) (*client.Standings, error)
}

// Submissions reads submissions.
type Submissions interface {
	Submissions(ctx context.Context, c platform.Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error)
	Submission(ctx context.Context, c platform.Caller, id string) (*client.Submission, error)
	SubmissionFiles(ctx context.Context, c platform.Caller, id string) ([]client.File, error)
	// Names are the names of submissions; of one that is not there it has none.
	Names(ctx context.Context, ids []string) (map[string]string, error)
	// Values are the values of submissions by task.
	Values(ctx context.Context, submissions []string) (map[string]map[string]float64, error)
	// RoleOf says what c is to a submission: the same role reads the same.
	RoleOf(ctx context.Context, c platform.Caller, submission string) (platform.Role, error)
}

// Runs reads runs and follows them.
type Runs interface {
	Runs(ctx context.Context, c platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error)
	Run(ctx context.Context, c platform.Caller, id string) (*client.Run, error)
	// Events are those after the cursor, in order, cut by the reading rights of c.
	Events(ctx context.Context, c platform.Caller, run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error)
	// EventCounts counts the events of an attempt by type.
	EventCounts(ctx context.Context, run string, attempt int) (map[string]int64, error)
	// Wait blocks until something changed in run (or any run, if empty) or ctx
	// ends. It may return without a change.
	Wait(ctx context.Context, run string) error
}

// Operator is what an operator does, with a reason.
type Operator interface {
	SetArenaState(ctx context.Context, c platform.Caller, id string, s agon.ArenaState, reason string) error
	Retune(ctx context.Context, c platform.Caller, arena string, r client.Retune, reason string) error
	RetunePlan(ctx context.Context, c platform.Caller, arena string, r client.Retune) (*client.RetunePlan, error)
	Ban(ctx context.Context, c platform.Caller, submission, reason string) error
	Retry(ctx context.Context, c platform.Caller, submission, reason string) (queued int, err error)
	CancelRun(ctx context.Context, c platform.Caller, id, reason string) error
	// RequeueRun takes a run from who holds it, back into the queue.
	RequeueRun(ctx context.Context, c platform.Caller, id, reason string) error
	// UnservedGPUs are the tasks of an arena whose GPUs nobody has.
	UnservedGPUs(ctx context.Context, c platform.Caller, arena string) ([]string, error)
	// Health is how an arena does now.
	Health(ctx context.Context, c platform.Caller, arena string) (store.Lately, error)
	Storage(ctx context.Context) platform.Storage
}

// OperatorLog is what the operator did, newest first.
type OperatorLog interface {
	Actions(ctx context.Context, c platform.Caller, limit int) ([]agon.OperatorAction, error)
}
