// Package agon holds the nouns of the engine: what an arena, a submission, a
// run, an attempt, a score and a fault are. It does no I/O and imports nothing
// of the module; every other package may import it.
package agon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Version is the release of this module. The commit is added by the linker.
const Version = "0.1.0"

// Digest names bytes by content: "sha256:" and 64 lower-case hex digits.
type Digest string

// DigestPrefix is the only algorithm in use.
const DigestPrefix = "sha256:"

// Sum returns the digest of b.
func Sum(b []byte) Digest {
	h := sha256.Sum256(b)
	return Digest(DigestPrefix + hex.EncodeToString(h[:]))
}

// Hex returns the 64 hex digits without the prefix.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), DigestPrefix) }

// Validate reports whether d is a well-formed digest.
func (d Digest) Validate() error {
	h, ok := strings.CutPrefix(string(d), DigestPrefix)
	if !ok || len(h) != 64 {
		return fmt.Errorf("digest %q: want sha256: and 64 hex digits", string(d))
	}
	for _, c := range h {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("digest %q: want lower-case hex", string(d))
		}
	}
	return nil
}

// Micros is money in millionths of a US dollar.
type Micros int64

// Fault says whose failure it was. The empty fault means that nothing failed.
// Only the engine assigns faults (validator.AssignFault), never a kind.
type Fault string

// The faults, in the order in which tables list them.
const (
	FaultNone      Fault = ""
	FaultAgent     Fault = "agent"
	FaultTask      Fault = "task"
	FaultPlatform  Fault = "platform"
	FaultValidator Fault = "validator"
	FaultProvider  Fault = "provider"
	FaultLedger    Fault = "ledger"
)

// Faults lists every fault but FaultNone.
var Faults = []Fault{FaultAgent, FaultTask, FaultPlatform, FaultValidator, FaultProvider, FaultLedger}

// Ours reports whether f is a failure that a contestant must not pay for.
func (f Fault) Ours() bool { return f != FaultNone && f != FaultAgent }

// TaskRef names one task of an arena. Key is the stable identity ("small/stack-pop"),
// Digest the exact data.
type TaskRef struct {
	Key    string `json:"key"`
	Digest Digest `json:"digest"`
	// Hidden tasks are served to validators only until they retire.
	Hidden bool `json:"hidden,omitempty"`
}

// Limits bound one execution environment. Zero means the driver's default.
type Limits struct {
	WallMS      int64 `json:"wall_ms" toml:"wall_ms"`
	CPUMS       int64 `json:"cpu_ms,omitempty" toml:"cpu_ms"`   // CPU time, all processes together
	CPUMilli    int64 `json:"cpu_milli" toml:"cpu_milli"`       // 1000 = one core
	MemoryBytes int64 `json:"memory_bytes" toml:"memory_bytes"` // resident, swap included
	Pids        int64 `json:"pids" toml:"pids"`
	DiskBytes   int64 `json:"disk_bytes" toml:"disk_bytes"` // everything writable
	Inodes      int64 `json:"inodes" toml:"inodes"`
	OutputBytes int64 `json:"output_bytes" toml:"output_bytes"` // stdout and stderr, each; more ends the run
}

// Budget bounds what one run may spend at the gateway.
type Budget struct {
	Micros Micros `json:"micros" toml:"micros"`
	Calls  int64  `json:"calls" toml:"calls"`
	Tokens int64  `json:"tokens" toml:"tokens"` // prompt and completion together; 0 = no limit
	// TimeMS is how long after its first session an account answers calls, in ms; 0 = no limit.
	TimeMS int64 `json:"time_ms,omitempty" toml:"time_ms"`
}

// Policy is everything besides submission, task, scorer and seed that can
// change a score. Its digest is part of a score's key.
type Policy struct {
	Models []string `json:"models"` // allow-list; "*" admits any priced model
	Agent  Limits   `json:"agent"`
	Grader Limits   `json:"grader"`
	Budget Budget   `json:"budget"`
	Driver string   `json:"driver,omitempty"` // demanded box driver; empty = any
	// Gateway is the base URL of the gateway that the platform runs for this
	// arena, and GatewayKey the address of the key that must sign its receipts.
	// Both empty: every validator meters with its own.
	Gateway    string `json:"gateway,omitempty"`
	GatewayKey string `json:"gateway_key,omitempty"`
	// Fields says what becomes of groups of a call's fields: "refuse" or
	// "strip", for "sampling" also "allow" (gateway.Policy.Fields).
	Fields map[string]string `json:"fields,omitempty"`
	// Tools are the metered tools that agents may call; "*" is all that the gateway has.
	Tools []string `json:"tools,omitempty"`
	// Judge bounds what judging one run may spend at the platform's gateway; nil:
	// what the kind's judges need.
	Judge *Judging `json:"judge,omitempty"`
}

// Judging is what the judges of one run may ask for, all of its tasks together.
type Judging struct {
	Models []string `json:"models" toml:"models"` // allow-list; "*" admits any priced model
	Budget Budget   `json:"budget" toml:"budget"`
}

// ArenaState is where an arena stands.
type ArenaState string

// Arena states.
const (
	ArenaOpen   ArenaState = "open"
	ArenaPaused ArenaState = "paused" // accepts nothing, drains the queue
	ArenaClosed ArenaState = "closed"
)

// Arena is a running competition.
type Arena struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Title  string `json:"title"`
	Netuid uint16 `json:"netuid"`
	// Ledger is where Netuid is: "" on the embedded ledger of the arena's server, a
	// network's name, or addresses of nodes (package ledger/dial).
	Ledger  string     `json:"ledger,omitempty"`
	State   ArenaState `json:"state"`
	Tasks   []TaskRef  `json:"tasks"`
	Policy  Policy     `json:"policy"`
	Licence string     `json:"licence"` // SPDX id that every submission agrees to
	// Incentive names the rule that turns scores into seats ("winner_takes_all").
	Incentive string `json:"incentive"`
	// IncentiveNumbers are what the rule lets an arena choose ("margin"); its
	// defaults hold for what is not here.
	IncentiveNumbers map[string]float64 `json:"incentive_numbers,omitempty"`
	// Options are what the kind lets an arena choose besides ("schema"); its
	// defaults hold for what is not here.
	Options map[string]string `json:"options,omitempty"`
	// MaxLeases caps the leases one validator may hold in this arena.
	MaxLeases int `json:"max_leases"`
	// Attempts is how often a run may be retried after a fault of ours; 0: never.
	Attempts int `json:"attempts"`
	// SubmissionsPerColdkey caps entries of one coldkey per day (0 = no cap): attempts cost.
	SubmissionsPerColdkey int `json:"submissions_per_coldkey"`
	// Replicas is how many validators play each run (0, 1: one). With three or more,
	// results of one that disagrees with the others are excluded (score.Concord).
	Replicas int `json:"replicas,omitempty"`
	// Evidence says what a result without a fault must carry: EvidenceRequired
	// (also where it is empty) or EvidenceForeign.
	Evidence string `json:"evidence,omitempty"`
	// Contest is set for arenas whose submissions are measured by replays. Then
	// replicas of a submission go to different validators.
	Contest   *Contest  `json:"contest,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// What results must carry.
const (
	// EvidenceRequired refuses a result that nobody could judge again.
	EvidenceRequired = "required"
	// EvidenceForeign also takes results of validators that speak a foreign
	// protocol, which has no evidence; they are marked Unattested.
	EvidenceForeign = "foreign"
)

// Unattested marks an attempt whose result nobody can judge again.
const Unattested = "unattested"

// SubmissionState is where a submission stands.
type SubmissionState string

// Submission states.
const (
	SubmissionQueued   SubmissionState = "queued"   // admitted, no run has started
	SubmissionPlaying  SubmissionState = "playing"  // at least one run has been leased
	SubmissionScored   SubmissionState = "scored"   // every task has a result, and a decision is stored
	SubmissionRefused  SubmissionState = "refused"  // a gate said no after admission
	SubmissionExcluded SubmissionState = "excluded" // a copy, banned, withdrawn, or incomplete through faults of ours (finding "incomplete")
)

// Submission is a set of files that a miner entered. It never changes; only
// State moves.
type Submission struct {
	ID      string          `json:"id"`
	Arena   string          `json:"arena"`
	Miner   string          `json:"miner"`   // hotkey, SS58
	Coldkey string          `json:"coldkey"` // SS58
	Netuid  uint16          `json:"netuid"`
	Name    string          `json:"name"`
	Digest  Digest          `json:"digest"` // of the tree manifest (package blob)
	Licence string          `json:"licence"`
	State   SubmissionState `json:"state"`
	// Scripted marks sample agents whose model is a script. They never take a seat.
	Scripted  bool      `json:"scripted"`
	Seq       int64     `json:"seq"` // order of admission, from 1
	CreatedAt time.Time `json:"created_at"`
}

// RunSpec is one thing to play: a submission on a list of tasks for one replica.
type RunSpec struct {
	Run     string    `json:"run"`
	Arena   string    `json:"arena"`
	Tasks   []TaskRef `json:"tasks"`
	Replica int       `json:"replica"`
	// Seed is derived from arena, submission, tasks and replica (DeriveSeed); kinds derive further seeds from it.
	Seed   int64  `json:"seed"`
	Policy Policy `json:"policy"`
	// Rival is the incumbent to replay beside the submission (a duel); nil: none.
	Rival *Rival `json:"rival,omitempty"`
}

// Rival names what a duel is with: a submission's files, or the task's
// unpatched base where Submission is empty.
type Rival struct {
	Submission string `json:"submission"`
	Digest     Digest `json:"digest,omitempty"`
	Round      int    `json:"round"` // of duels with it, from 1
	Pairs      int    `json:"pairs"` // paired replays to make
	// Side is set where the run plays one side only, like any other run, and is
	// paired with that of the other side by its seed: SideChallenger or SideIncumbent.
	Side string `json:"side,omitempty"`
}

// Sides of a pair.
const (
	SideChallenger = "challenger"
	SideIncumbent  = "incumbent"
)

// Half reports whether a run plays one side of a pair, and nothing else.
func (s RunSpec) Half() bool { return s.Rival != nil && s.Rival.Side != "" }

// RunState is a state of the machine in runstate.go.
type RunState string

// Run is a RunSpec under way.
type Run struct {
	RunSpec
	Submission string    `json:"submission"`
	State      RunState  `json:"state"`
	Fault      Fault     `json:"fault"`            // of the last attempt that ended
	Reason     string    `json:"reason,omitempty"` // why it failed or was cancelled
	Deadline   time.Time `json:"deadline"`         // when the present state is left at the latest
	Attempts   int       `json:"attempts"`         // leases so far
	Scores     []Score   `json:"scores,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
}

// Attempt is one lease of a run by one validator.
type Attempt struct {
	Run        string    `json:"run"`
	N          int       `json:"n"` // from 1
	Validator  string    `json:"validator"`
	State      string    `json:"state"` // leased, playing, judging, done, expired, cancelled
	Fault      Fault     `json:"fault"`
	Reason     string    `json:"reason,omitempty"`
	Driver     Driver    `json:"driver"`
	CostMicros Micros    `json:"cost_micros"`
	Evidence   Digest    `json:"evidence,omitempty"` // tree of files the play left
	Counted    bool      `json:"counted"`            // this attempt's result is the run's
	Late       bool      `json:"late"`               // reported after the lease was lost
	LeasedAt   time.Time `json:"leased_at"`
	LeaseUntil time.Time `json:"lease_until"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
	BoxMS      int64     `json:"box_ms"` // wall time inside boxes
	// Statement is the gateway's word of how many calls were made and what they
	// cost. Mark is "unattested" where the result came without evidence and statement.
	Statement *Statement `json:"statement,omitempty"`
	Mark      string     `json:"mark,omitempty"`
}

// Driver says what enforced the box of an attempt.
type Driver struct {
	Name    string   `json:"name"` // runsc, runc, bwrap
	Version string   `json:"version"`
	Limits  []string `json:"limits"` // limits it can enforce here: memory, pids, cpu, disk, inodes, output, wall, seccomp, userns
}

// Record is what a play left, as the kind tells it. It carries no verdict and
// no fault: what an agent says about itself is in Outcome and moves nothing.
type Record struct {
	// Outcome is the kind's word for what the agent did: "ok", "empty", "invalid", "raised", "exited", "timeout", …
	Outcome string `json:"outcome"`
	// Detail is one line for the miner; agent text in it is already cut and cleaned.
	Detail string `json:"detail,omitempty"`
	// Files holds small results by name (patch.diff, stdout.txt …), read safely from the box.
	Files map[string][]byte `json:"-"`
	// Tasks holds per-task outcomes where a run has several tasks; nil means one task.
	Tasks map[string]string `json:"tasks,omitempty"`
}

// Score is what a judge made of a record for one task.
type Score struct {
	Run     string             `json:"run"`
	Task    string             `json:"task"`  // TaskRef.Key
	Value   float64            `json:"value"` // 0..1
	Solved  bool               `json:"solved"`
	Metrics map[string]float64 `json:"metrics,omitempty"` // named, e.g. fail_to_pass, pass_to_pass, patch_bytes
	// Scorer names the version of the judging code; part of the key.
	Scorer string `json:"scorer"`
	Detail string `json:"detail,omitempty"` // for the miner; hidden tests are not named in it
}

// Finding is one reason why files may not be entered, or a warning.
type Finding struct {
	Code    string `json:"code"`            // stable, e.g. "no_agent_main"
	Field   string `json:"field,omitempty"` // what it is about, e.g. "agent.py"
	Limit   string `json:"limit,omitempty"` // the bound that was passed, with its unit
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"` // true: shown, does not refuse
}

// View is what Plan may see: immutable, and the same for every validator.
type View struct {
	Arena      Arena
	Submission Submission
	Runs       []Run  // of this submission, any state, by creation
	Champion   *Seat  // the first of Seats; nil: nobody sits
	Seats      []Seat // by place
	// Trust is how far the validator behind a run's result is believed, 0 to 1,
	// by run id; a run that is not in it is believed.
	Trust map[string]float64
	// Rival names the champion's files; nil where the seat is empty.
	Rival *Rival
	// Attempts counts the submissions of this coldkey that challenged the seat, this one included.
	Attempts int
}

// Plan is what to play next.
type Plan struct {
	Runs []RunSpec // Run and Seed are filled in by the engine
	Done bool      // nothing more will be planned: decide
	Why  string    // for people
}

// Seat is an incumbent of an arena.
type Seat struct {
	Arena      string    `json:"arena"`
	Submission string    `json:"submission"`
	Miner      string    `json:"miner"`
	Score      float64   `json:"score"`
	Since      time.Time `json:"since"`
}

// Decision is a takeover or non-takeover with its reasons.
type Decision struct {
	Arena      string             `json:"arena"`
	Challenger string             `json:"challenger"`
	Incumbent  string             `json:"incumbent,omitempty"`
	Score      float64            `json:"score"`
	Bar        *float64           `json:"bar"`     // null: there was no incumbent
	Outcome    string             `json:"outcome"` // took_seat, kept_seat
	Rule       string             `json:"rule"`    // of the arena's incentive (name for agon calc), or "scripted", "zero_score"
	Numbers    map[string]float64 `json:"numbers"`
	At         time.Time          `json:"at"`
	// Sentence is the decision in words. It is made when the decision is read, and
	// not stored.
	Sentence string `json:"sentence,omitempty"`
}

// Decision outcomes.
const (
	TookSeat = "took_seat"
	KeptSeat = "kept_seat"
)

// Weight is one entry of a weight vector as it stands on a ledger.
type Weight struct {
	UID    uint16 `json:"uid"`
	Hotkey string `json:"hotkey"`
	Weight uint16 `json:"weight"`
}

// OperatorAction is a thing that the operator did, and why.
type OperatorAction struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`  // hotkey
	What   string    `json:"what"`   // state, retune, cancel, ban, retry
	Target string    `json:"target"` // id of the arena, run or submission
	Reason string    `json:"reason"`
	Change string    `json:"change,omitempty"` // what it changed, for people
}

// Webhook is an address that is told of events.
type Webhook struct {
	ID        string    `json:"id"`
	URL       string    `json:"url"`
	Types     []string  `json:"types"` // event types; "*" is all
	CreatedAt time.Time `json:"created_at"`
	Disabled  string    `json:"disabled,omitempty"` // why it is told no more
}
