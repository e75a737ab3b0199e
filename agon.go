// Package agon holds the nouns of the engine: what an arena, a submission, a
// run, an attempt, a score and a fault are. It does no I/O and imports nothing
// of the module; every other package may import it.
package agon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
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
	// Image is its root file system by digest; empty: the machine's own.
	Image string `json:"image,omitempty"`
	// Datasets are those that it names, as WHERE@sha256:….
	Datasets []string `json:"datasets,omitempty"`
	// GPU is what accelerators its boxes need; nil: none.
	GPU *GPUNeed `json:"gpu,omitempty"`
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
	// Usage says what becomes of a provider's count of tokens that the text
	// contradicts: UsageReport (default, "") or UsageRefuse.
	Usage string `json:"usage,omitempty"`
	// Hosts says whether providers' own names lead to the gateway in agents' boxes,
	// where the kind makes them do so: HostsProviders (default, "") or HostsNone.
	Hosts string `json:"hosts,omitempty"`
	// Aliases are other names of models, each with its own price.
	Aliases []Alias `json:"aliases,omitempty"`
	// Tools are the metered tools that agents may call; "*" is all that the gateway has.
	Tools []string `json:"tools,omitempty"`
	// Judge bounds what judging one run may spend at the platform's gateway; nil:
	// what the kind's judges need.
	Judge *Judging `json:"judge,omitempty"`
	// Libraries are the Python packages that agents find; nil: what stands in the
	// boxes' root file system.
	Libraries *Libraries `json:"libraries,omitempty"`
}

// Alias is a name under which agents may ask for a model (its own name, to give it
// another price), and what a call by it costs, in micro-dollars per 1,000,000 tokens; nil: what the model costs.
type Alias struct {
	Name  string `json:"name" toml:"name"`
	Model string `json:"model,omitempty" toml:"model"` // "": the first that is offered
	In    *int64 `json:"in,omitempty" toml:"in"`
	Out   *int64 `json:"out,omitempty" toml:"out"`
}

// Libraries are Python packages, locked by hash.
type Libraries struct {
	// List is the tree that holds the list, hashes and all.
	List Digest `json:"list"`
	// Packages are what it names, NAME==VERSION.
	Packages []string `json:"packages"`
}

// Values of Policy.Hosts.
const (
	HostsProviders = "providers"
	HostsNone      = "none"
)

// What becomes of a provider's count of tokens that the text contradicts by a
// factor of 4 (Policy.Usage). Both report it to the operator.
const (
	UsageReport = "report" // it is booked
	UsageRefuse = "refuse" // it is not believed: the gateway's own count is booked, as where there is none
)

// Judging is what the judges of one run may ask for, all of its tasks together.
type Judging struct {
	Models []string `json:"models" toml:"models"` // allow-list; "*" admits any priced model
	Budget Budget   `json:"budget" toml:"budget"`
}

// Succession says that a gateway's key signs no more and which one follows.
// Both keys sign it (gateway.CheckSuccession).
type Succession struct {
	Old    string    `json:"old"` // addresses
	New    string    `json:"new"`
	At     time.Time `json:"at"`
	OldSig string    `json:"old_sig"` // hex
	NewSig string    `json:"new_sig"`
}

// RetiredKey is a gateway's key that an arena takes no new statement under.
// What it signed before Until can be checked with it as before; what a revoked
// key signed afterwards is worth nothing.
type RetiredKey struct {
	Key   string    `json:"key"`
	Until time.Time `json:"until"`
	Next  string    `json:"next"`
	// Revoked: the operator took it out of force, without its word.
	Revoked bool `json:"revoked,omitempty"`
	// Succession is the key's own word; nil where it was revoked.
	Succession *Succession `json:"succession,omitempty"`
}

// ArenaState is where an arena stands.
type ArenaState string

// Arena states.
const (
	ArenaOpen   ArenaState = "open"
	ArenaPaused ArenaState = "paused" // accepts nothing, drains the queue
	ArenaHeld   ArenaState = "held"   // accepts and plays nothing; what was under way waits in the queue
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
	Ledger string `json:"ledger,omitempty"`
	// Mechanism is the subnet's on which the arena's weights go; most subnets have 0 alone.
	Mechanism uint8 `json:"mechanism,omitempty"`
	// WeightsVersion is the version key of the weights that this arena's validators
	// give: the subnet's owner may demand one. 0: DefaultWeightsVersion. Where
	// arenas share a subnet the highest holds.
	WeightsVersion uint64     `json:"weights_version,omitempty"`
	State          ArenaState `json:"state"`
	Tasks          []TaskRef  `json:"tasks"`
	// Retired are tasks that were hidden: nobody plays them, everybody may read them.
	Retired []TaskRef `json:"retired,omitempty"`
	Policy  Policy    `json:"policy"`
	Licence string    `json:"licence"` // SPDX id that every submission agrees to
	// Incentive names the rule that turns scores into seats ("winner_takes_all").
	Incentive string `json:"incentive"`
	// IncentiveNumbers are what the rule lets an arena choose ("margin"); its
	// defaults hold for what is not here.
	IncentiveNumbers map[string]float64 `json:"incentive_numbers,omitempty"`
	// Options are what the kind lets an arena choose besides ("schema"); its
	// defaults hold for what is not here.
	Options map[string]string `json:"options,omitempty"`
	// Stages are played one after the other, each after the bar of the one before
	// was reached; none: every task is played once. What counts is the last one's.
	Stages []Stage `json:"stages,omitempty"`
	// MaxLeases caps the leases one validator may hold in this arena.
	MaxLeases int `json:"max_leases"`
	// Attempts is how often a run may be retried after a fault of ours; 0: never.
	Attempts int `json:"attempts"`
	// SubmissionsPerColdkey caps entries of one coldkey per day (0 = no cap): attempts cost.
	SubmissionsPerColdkey int `json:"submissions_per_coldkey"`
	// CooldownSeconds is how long a hotkey waits between two entries, on whatever way
	// it enters; 0: it does not.
	CooldownSeconds int `json:"cooldown_seconds,omitempty"`
	// Replicas is how many validators play each run (0, 1: one). With three or more,
	// results of one that disagrees with the others are excluded (score.Concord).
	Replicas int `json:"replicas,omitempty"`
	// Evidence says what a result without a fault must carry: EvidenceRequired
	// (also where it is empty) or EvidenceForeign.
	Evidence string `json:"evidence,omitempty"`
	// Rejudge is the share of results, 0 to 1, that another validator judges again;
	// nil: DefaultRejudge. RejudgePerDay caps how many are drawn in 24 hours (0: DefaultRejudgePerDay).
	Rejudge       *float64 `json:"rejudge,omitempty"`
	RejudgePerDay int      `json:"rejudge_per_day,omitempty"`
	// GatewayKeys are the keys before Policy.GatewayKey, oldest first: what they
	// signed in their time is checked with them.
	GatewayKeys []RetiredKey `json:"gateway_keys,omitempty"`
	// UnjudgedSeats lets a seat move before others have judged the challenger's results again.
	UnjudgedSeats bool `json:"unjudged_seats,omitempty"`
	// Rehearsal lets entries sit that the stand-in script answered, so that a demo
	// without a model shows how its seat moves. Such a seat earns nothing, what it
	// would earn is burned, and no entry that a model answered has to beat it.
	Rehearsal bool `json:"rehearsal,omitempty"`
	// Embargo is how many hours after it was entered a submission's work stays with
	// its miner and its validators, decided or not; 0: until it is decided.
	Embargo int `json:"embargo_hours,omitempty"`
	// Publishers are hotkeys that may publish tasks beside this one, where the kind has a
	// way to; none: only the operator.
	Publishers []string `json:"publishers,omitempty"`
	// NearCopies says what becomes of a near-copy of another coldkey's public work:
	// NearCopiesCharge (also where it is empty), NearCopiesExclude or NearCopiesShare.
	NearCopies string `json:"near_copies,omitempty"`
	// Charges is what an entry costs its coldkey; zero: nothing.
	Charges
	// Period is how long the set periods last; nil: as the rule says, or a week.
	Period *Period `json:"period,omitempty"`
	// Supply says where each set period has its hidden tasks from; nil: Tasks stay.
	Supply *Supply `json:"supply,omitempty"`
	// Gate is what a judge that errs must have shown before anybody is seated by its
	// scores; nil: they decide as they come. Kinds whose judge does not err have none.
	Gate *Gate `json:"judge_gate,omitempty"`
	// Contest is set for arenas whose submissions are measured by replays. Then
	// replicas of a submission go to different validators.
	Contest   *Contest  `json:"contest,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// Stage is one round of plays of every submission.
type Stage struct {
	Name string `json:"name" toml:"name"`
	// Set is the set of tasks that an arena file names; Tasks are their keys.
	Set   string   `json:"set,omitempty" toml:"set"`
	Tasks []string `json:"tasks" toml:"-"`
	// Threshold is the score, and OfTop the share of the best score that a submission
	// of the arena has, at which a submission goes on. The last stage has no bar.
	Threshold float64 `json:"threshold,omitempty" toml:"threshold"`
	OfTop     float64 `json:"of_top,omitempty" toml:"of_top"`
	// Evaluations is how many validators play each task; 0: one.
	Evaluations int `json:"evaluations,omitempty" toml:"evaluations"`
	// Consensus: a task is solved if all who played it say so; otherwise the mean counts.
	Consensus bool `json:"consensus,omitempty" toml:"consensus"`
}

// StageName is what names of stages are made of.
var StageName = regexp.MustCompile(`^[a-z0-9_]{1,30}$`)

// Bar is the score at which a submission goes on, where top is the best so far.
func (s Stage) Bar(top float64) float64 { return max(s.Threshold, s.OfTop*top) }

// Stage returns the stage of a name.
func (a *Arena) Stage(name string) (Stage, bool) {
	for _, s := range a.Stages {
		if s.Name == name {
			return s, true
		}
	}
	return Stage{}, false
}

// Played is how many validators play each task of what counts.
func (a *Arena) Played() int {
	n := a.Replicas
	if len(a.Stages) > 0 {
		n = a.Stages[len(a.Stages)-1].Evaluations
	}
	return max(n, 1)
}

// Period is the length of an arena's set periods: the time in which its task set
// and the secret of its seeds stay the same. One of the two is above 0.
type Period struct {
	Hours  float64 `json:"hours,omitempty" toml:"hours"`
	Blocks uint64  `json:"blocks,omitempty" toml:"blocks"` // of the arena's ledger
}

// Bounds of a set period.
const (
	LeastPeriodHours = 1.0 / 60
	MostPeriodHours  = 24 * 3660
	MostPeriodBlocks = 1 << 32
)

// What results must carry.
const (
	// EvidenceRequired refuses a result that nobody could judge again.
	EvidenceRequired = "required"
	// EvidenceForeign also takes results of validators that speak a foreign
	// protocol, which has no evidence; they are marked Unattested.
	EvidenceForeign = "foreign"
)

// MostPublishers bounds the publishers of an arena.
const MostPublishers = 64

// MostEmbargo is the longest embargo, in hours.
const MostEmbargo = 24 * 365

// MaxMechanisms is how many mechanisms a subnet of the chain may ever have.
const MaxMechanisms = 16

// DefaultWeightsVersion is the version key of weights where an arena names none.
const DefaultWeightsVersion = 1

// What is judged again where an arena says nothing.
const (
	DefaultRejudge       = 0.1
	DefaultRejudgePerDay = 1000
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
	// Scripted marks submissions whose model was a script: by the receipts of a
	// run that counted (Receipt.Scripted), whatever its miner says.
	// They never take a seat.
	Scripted  bool      `json:"scripted"`
	Seq       int64     `json:"seq"` // order of admission, from 1
	CreatedAt time.Time `json:"created_at"`
	// Beacon is what the seeds of its runs come of; nil: it is older than that.
	Beacon *Beacon `json:"beacon,omitempty"`
}

// Beacon is a number that nobody knew when a submission was accepted: with the
// secret of a period of its arena it makes the seeds of the submission's runs.
type Beacon struct {
	Period int64  `json:"period"`          // whose secret, from 0
	Rule   string `json:"rule"`            // BeaconBlock or BeaconNone
	Block  uint64 `json:"block,omitempty"` // the first block after the acceptance
	Hash   string `json:"hash,omitempty"`  // of the block; empty: it is not there yet
}

// Rules of beacons.
const (
	BeaconBlock = "block" // the hash of the first block after the acceptance
	BeaconNone  = "none"  // the ledger has no hashes of blocks: the secret alone
)

// Finding is one reason why files may not be entered, or a warning.
type Finding struct {
	Code    string `json:"code"`            // stable, for example "no_agent_main"
	Field   string `json:"field,omitempty"` // what it is about, for example "agent.py"
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
	// By is the validator whose result is a run's, by run id.
	By map[string]string
	// Rival names the champion's files; nil where the seat is empty.
	Rival *Rival
	// Attempts counts the submissions of this coldkey that challenged the seat, this one included.
	Attempts int
	// Top is the best score of a submission of the arena; only where it has stages.
	Top float64
}

// Plan is what to play next.
type Plan struct {
	Runs []RunSpec // Run and Seed are filled in by the engine
	Done bool      // nothing more will be planned: decide
	Why  string    // for people
	// Refuse says why the submission goes no further; nil: it does.
	Refuse *Finding
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

// Error is the one coded error that crosses a package edge to a user. The API
// maps it to problem+json, the CLI to an exit code.
type Error struct {
	Code    string // stable, for example "not_found", "too_large", "duplicate"
	Status  int    // HTTP status
	Field   string // what the user gave, if one thing is wrong
	Limit   string // the bound that was passed, with unit
	Message string // what is wrong
	Mend    string // what to do about it
	Fault   Fault
	Err     error // cause, for logs only
	// Findings lists every reason where there are several.
	Findings []Finding
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Directions of a metric.
const (
	Minimize = "minimize"
	Maximize = "maximize"
)

// Contest is how an arena turns replays of one measured number into a result,
// and results into a takeover (the kind has the arithmetic).
type Contest struct {
	Direction string `json:"direction" toml:"-"` // of the metric
	// Secondary is the direction of a second metric that decides where the first
	// stays inside the band; empty: one metric alone counts.
	Secondary string `json:"secondary,omitempty" toml:"-"`
	// Spent is how much of the first metric takeovers by the second have cost since its best,
	// in its unit: together they may cost the band once.
	Spent float64 `json:"spent,omitempty" toml:"-"`
	// Agree is how many replays by different validators must agree, Replays
	// the most that are tried until they do.
	Agree   int `json:"agree" toml:"agree"`
	Replays int `json:"replays" toml:"replays"`
	// Two results agree if they differ by at most Absolute + Relative x the
	// larger size. Both 0: they must be equal.
	Relative float64 `json:"relative" toml:"relative"`
	Absolute float64 `json:"absolute" toml:"absolute"`
	// Band is the noise of the metric as preflight measured it, in its unit. A
	// gain must pass it.
	Band float64 `json:"band" toml:"band"`
	// BandRelative is the same as a share of the incumbent's value: where values
	// shrink, so does the noise of a time. The larger of the two counts.
	BandRelative float64 `json:"band_relative,omitempty" toml:"band_relative"`
	// Alpha is the chance that one coldkey's attempts together may take the
	// seat without being better; Pairs is the most paired replays of challenger
	// and incumbent. Deterministic tasks (Band 0) need one pair.
	Alpha float64 `json:"alpha" toml:"alpha"`
	Pairs int     `json:"pairs" toml:"pairs"`
}
