// Package kind defines what the engine must know about one form of
// competition. Kinds stand in kinds/, or in modules of their own; docs/kinds.md is the walk.
package kind

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Kind is one form of competition. Implementations are stateless and may be
// called from many goroutines.
type Kind interface {
	Name() string
	// Scorer names the version of Judge; it is part of a score's key, so it
	// changes whenever the same record could be judged differently.
	Scorer() string
	// Check decides whether files may be entered. It never runs them. Findings
	// that are not warnings refuse the submission; an error means that the
	// check itself could not be done.
	Check(ctx context.Context, a *agon.Arena, files fs.FS) ([]agon.Finding, error)
	// Plan says what to play next, or why nothing more. Pure.
	Plan(v agon.View) (agon.Plan, error)
	// Play plays one run and returns evidence. An error means that the kind
	// could not do its part; the engine decides whose fault that was from
	// evidence made outside the box.
	Play(ctx context.Context, env Env, s agon.Submission, r agon.RunSpec) (agon.Record, error)
	// Judge scores a record in a place where the agent never was. It returns
	// one score per task of r. An error is never the contestant's.
	Judge(ctx context.Context, env Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error)
}

// Sum is the result of a submission over all of its runs.
type Sum struct {
	Score  float64 // 0..1
	Solved int
	Total  int
}

// Verdict is what a Decider says of a challenger.
type Verdict struct {
	// More is what must be played before it can be said; then the rest is not final.
	More    []agon.RunSpec
	Takes   bool
	Rule    string
	Bar     *float64
	Numbers map[string]float64
}

// Decider is a Kind that sums runs and decides takeovers itself. Both are pure.
type Decider interface {
	// Sum is asked when Plan has nothing more. ok is false where faults of ours
	// left no result.
	Sum(v agon.View) (s Sum, ok bool)
	// Decide is asked when the submission has its sum and none before it in the
	// arena is undecided; after More was played it is asked again, perhaps with
	// another champion.
	Decide(v agon.View) (Verdict, error)
}

// Pairer is a Kind whose scores of one task do not say by their values alone who
// did better, such as where it is a cost or a time.
type Pairer interface {
	// Pair returns both sides of a pair as scores of 0 to 1, of which more is
	// better. Differences of values that are not scores count only above both
	// bands, an absolute and a relative one (incentive.Banded). Pure.
	Pair(challenger, incumbent agon.Score, bandAbs, bandRel float64) (c, i float64)
}

// Coster is a Pairer whose pairs are about costs.
type Coster interface {
	// Cost is what a play cost its agent, in dollars; 0: it was not measured. Pure.
	Cost(s agon.Score) float64
}

// Compare is what one pair of scores of a task says, by the kind where it knows
// better than their values do; baseline: the incumbent is a number of the arena.
func Compare(k Kind, n map[string]float64, challenger, incumbent agon.Score, baseline bool) incentive.Pair {
	if x, ok := k.(Pairer); ok && !baseline {
		c, i := x.Pair(challenger, incumbent, n[incentive.NumBandAbs], n[incentive.NumBandRel])
		return incentive.Pair{Challenger: c, Incumbent: i}
	}
	return incentive.Pair{Challenger: challenger.Value, Incumbent: incumbent.Value}
}

// Tierer is a Kind whose boards group submissions by a test of its own, such as
// where its metric is exact, so that intervals say nothing.
type Tierer interface {
	// Told reports whether the better of two decided submissions is told apart from
	// the other, by the numbers of their decisions. Pure.
	Told(a agon.Arena, better, worse map[string]float64) bool
	// TierTest says in a sentence what no two of one tier do.
	TierTest(a agon.Arena) string
}

// Copier is a Kind that knows copies whose bytes differ. The platform refuses
// what has the structure of an earlier submission of the arena, whoever enters it.
type Copier interface {
	// Structure names what files do; what only looks different has the same
	// name. Empty means that there is nothing to compare. Pure. It is asked only
	// after Check, and an error refuses the submission.
	Structure(files fs.FS) (string, error)
}

// Worked is a Kind whose submissions hold more than their author's work.
type Worked interface {
	// Work is what near-copies are found by: what plays, without what is said of it, which
	// could be as long as a copier likes. Pure. It is asked only after Check.
	Work(files fs.FS) fs.FS
}

// Behaved is a Kind whose evidence says what an agent did, apart from what it was
// told to do: so a copy in other words is known by its deeds.
type Behaved interface {
	// Deeds are an agent's steps in a run's task, in their order: each a call of a tool
	// with what it asked for and how that ended, without the agent's own wording. read
	// returns a file of the attempt's evidence, fs.ErrNotExist where there is none. Pure.
	Deeds(read func(name string) ([]byte, error)) ([]string, error)
}

// Printed is a Kind whose records hold what boxes printed, for people to read. An operator
// may keep that for a shorter time than the rest (`agon gc --keep-output-days`).
type Printed interface {
	// Prints reports whether a file of a record is such: Judge makes the same scores
	// without it. Pure.
	Prints(path string) bool
}

// Gater is a Kind that looks at submissions beyond their own bytes: for near
// copies of earlier ones, for what breaks the spirit of the arena. What it
// excludes is taken in, shown with the reason, and never played.
type Gater interface {
	// Gate says why files are not played in a; nil: they are. earlier are the arena's
	// submissions of other people that were not excluded, oldest first. read
	// returns the files of one; it is asked only for those that the kind does not
	// remember. It is asked only after Check. The error means that the gate could not be asked.
	Gate(a *agon.Arena, files fs.FS, earlier []agon.Submission, read func(agon.Digest) (fs.FS, error)) (*Exclusion, error)
}

// Chooser is a Kind that lets an arena choose (agon.Arena.Options).
type Chooser interface {
	// Options are the names that an arena may set, each with its values; the
	// first is the default.
	Options() map[string][]string
}

// Vetted is a Kind whose arenas may have somebody outside asked before a submission
// is played, and before one takes a seat (platform.ClaimVetting).
type Vetted interface {
	// Vets says of which an arena wants that.
	Vets(a *agon.Arena) (entries, seats bool)
}

// CheckOptions says what is wrong with the options of an arena of kind k.
func CheckOptions(k Kind, own map[string]string) error {
	var known map[string][]string
	if c, ok := k.(Chooser); ok {
		known = c.Options()
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		values, ok := known[name]
		switch {
		case !ok && len(known) == 0:
			return fmt.Errorf("%s: the kind %s has no options", name, k.Name())
		case !ok:
			return fmt.Errorf("%s: the kind %s has %s only", name, k.Name(), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case !slices.Contains(values, own[name]):
			return fmt.Errorf("%s: %q is not one of %s", name, own[name], strings.Join(values, ", "))
		}
	}
	return nil
}

// Rejudged is a Kind whose Judge does not make the same scores of the same
// evidence each time, to the bit: it says how far they may differ.
type Rejudged interface {
	Rejudging() Rejudging
}

// Rejudging is how results of a kind are judged again by other validators. The
// zero value: alike to the bit.
type Rejudging struct {
	// Tolerance is how far two values of one task may differ.
	Tolerance float64
	// Same, if it is set, compares two scores of one task instead.
	Same func(x, y agon.Score) bool
	// Exempt says why judging again proves nothing; then nothing is.
	Exempt string
}

// Alike reports whether two scores of one task may come of the same evidence.
// With a tolerance solved follows the value, and is not compared.
func (r Rejudging) Alike(x, y agon.Score) bool {
	if r.Same != nil {
		return r.Same(x, y)
	}
	if r.Tolerance > 0 {
		return math.Abs(x.Value-y.Value) <= r.Tolerance
	}
	return x.Value == y.Value && x.Solved == y.Solved
}

// Gauged is a Kind whose judge errs: a model, or what stands in for one. Its
// Scorer is "NAME+JUDGE"; outside of demos an arena seats nobody by scores of a JUDGE
// that has no calibration above the arena's gate (agon.Gate).
type Gauged interface {
	// Gauge names the prompt by which its judges are measured ("support").
	Gauge() string
}

// Propped is a Kind whose scores may rest on what only stands in for a part of the
// judging. Outside of demos (agon.Gate) such scores move no seat.
type Propped interface {
	// Prop says what stands in where this process judges; nil: nothing does.
	Prop() *Prop
	// RestsOnProp says whether scores of a Scorer rest on what stands in.
	RestsOnProp(scorer string) bool
}

// Prop is what stands in for a part of the judging, in words for people.
type Prop struct {
	Needs string // what it stands in for ("an encoder of titles")
	Why   string // what is wrong with it, a sentence without its full stop
	Mend  string // what the operator does about it, a clause ("set AGON_ENCODER_URL")
}

// Sentence says whether an arena decides seats with it.
func (p *Prop) Sentence(demo bool) string {
	if demo {
		return fmt.Sprintf("A demo: it decides seats without %s. %s.", p.Needs, p.Why)
	}
	return fmt.Sprintf("It decides no seat: it needs %s. %s: %s.", p.Needs, p.Why, p.Mend)
}

// Controlled is a Kind whose tasks have controls: a reference solution that must
// solve, and doing nothing, which must not (`agon task check`).
type Controlled interface {
	// Control judges a patch of t's tree as it would be judged in play; an empty
	// one is doing nothing. detail is one line. An error means that judging could
	// not be done.
	Control(ctx context.Context, env Env, r agon.RunSpec, t *task.Task, patch []byte) (solved bool, detail string, err error)
}

// TwinCount says how many twins a test has: the same test with a falsified
// expectation, which tells a forged pass from an earned one.
type TwinCount struct {
	ID        string `json:"id"`
	Twins     int    `json:"twins"`
	Forgeable bool   `json:"forgeable"` // fewer twins than the kind wants
}

// Linted is a Kind that has more to say of tasks than whether they can be played.
type Linted interface {
	// Lint returns warnings, each with the rule as its code. It runs nothing.
	Lint(t *task.Task) []agon.Finding
}

// Twinned is a Kind whose graders play twins of tests.
type Twinned interface {
	// Twins counts those of a task's tests that decide, in the order of the task.
	Twins(ctx context.Context, env Env, r agon.RunSpec, t *task.Task) ([]TwinCount, error)
}

// Exclusion says why a submission is not played.
type Exclusion struct {
	Code       string // "near_copy", "integrity_failed", …
	Message    string // for people, with the measure and its bound
	Refused    bool   // by a rule, not as a copy
	Of         string // submission that it copies
	Similarity float64
}

// LeakKeyer is a Kind whose tasks may give each other away: who has seen the
// answer to one knows something of the answer to the other.
type LeakKeyer interface {
	// LeakKeys names what a task shares with others. Tasks with a key in common
	// never stand in two splits of a corpus. read returns a file of the task's
	// tree, fs.ErrNotExist where there is none. Pure; keys may tell secrets of
	// the task and are never published.
	LeakKeys(t agon.TaskRef, read func(name string) ([]byte, error)) ([]string, error)
}

// Env is all that a kind may touch. It is made by the engine for one attempt,
// watches every box it hands out, and is the only source of fault evidence.
type Env interface {
	// Box starts a box. Spec.Doors of kind gateway are opened before the box
	// is. The engine ends every box when the attempt ends; kinds end them earlier by Close.
	Box(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error)
	// Tree returns a read-only directory on this host that holds the tree d.
	// It stays valid until the attempt ends. The directory holds foreign
	// bytes (symlinks included): open it with os.Root only, or mount it.
	Tree(ctx context.Context, d agon.Digest) (string, error)
	// Task returns the parsed task of a run, with Dir set to its tree.
	Task(ctx context.Context, t agon.TaskRef) (*task.Task, error)
	// Root returns the root file system that a task's image is, which a digest
	// names (Environment.Image); "" is the machine's own. An image that cannot
	// be had is the task's fault.
	Root(ctx context.Context, image string) (rootfs.Root, error)
	// Door makes a gateway session for the agent's budget and returns the door
	// through which a box reaches it on listen ("127.0.0.1:8000"). It speaks the
	// dialects of the kind (Speaker).
	Door(ctx context.Context, task string, listen ...string) ([]sandbox.Door, error)
	// Model makes a gateway session for judges, paid by the platform.
	Model(ctx context.Context, p gateway.Policy) (gateway.Session, error)
	// Tools makes a metered tool session for one task, on the agent's account,
	// for kinds whose scripts call tools by name. The engine fills in what
	// c leaves open of back ends, keeps every receipt and closes the session
	// with the attempt; kinds close it earlier.
	Tools(ctx context.Context, task string, c tools.SessionConfig) (ToolSession, error)
	// Progress appends to the attempt's event log.
	Progress(typ, task string, data any)
}

// ToolSession is a session at this validator's tool host.
type ToolSession struct {
	*tools.Session
	// URL is the host's address on this machine: the Target of a door.
	URL string
}

// Registrar is what the engine's Env offers besides, to kinds whose submissions
// set themselves up of published packages.
type Registrar interface {
	// Registries shows this machine's package registries (sandbox/indexes) to a box,
	// to be read only, until the attempt ends.
	Registries(ctx context.Context, names ...string) (Registries, error)
}

// Accelerated is what the engine's Env offers besides, to kinds that compare times on
// GPUs. Where the attempt has none, spans are what their functions do.
type Accelerated interface {
	// Span runs f and watches the attempt's GPUs meanwhile: before it, while it runs and
	// after it, by their driver and never by what a box says. timed asks for the time
	// that it took by the first device's clock, measured outside of every box. The error
	// is f's, or that the devices could not be read, which is the validator's fault.
	Span(ctx context.Context, timed bool, f func() error) (GPUSpan, error)
	// Void says why spans cannot be compared with each other, or "": a device was slowed,
	// or its clock moved. Neither side loses a void comparison; it is made again.
	Void(spans ...GPUSpan) string
	// GiveUp ends an attempt of which too many comparisons were void, as the
	// validator's fault. Its error ends the play.
	GiveUp() error
}

// GPUSpan is what was measured while something ran.
type GPUSpan struct {
	Took    time.Duration  // by the first device's clock; 0: it was not asked for
	Samples [][]gpu.Sample // of each device
}

// Registries are package registries as a box reaches them.
type Registries struct {
	Door sandbox.Door
	Env  []string // what package managers in the box read
	// Check asks each registry from outside of the box, once something in it failed. An
	// error means that one does not answer, which is the validator's fault.
	Check func(ctx context.Context) error
	// Fetched are the files that the box got so far, each with its digest.
	Fetched func() []Fetched
}

// Fetched is a file that a registry gave to a box.
type Fetched struct {
	Registry string      `json:"registry"`
	Path     string      `json:"path"` // below the registry; of pip the file's name
	Bytes    int64       `json:"bytes"`
	Digest   agon.Digest `json:"digest"`
}

// Tallier is a Kind that sums the runs of a submission itself, where the mean
// over all tasks is not what counts. Pure; asked when Plan has nothing more and no run lacks its score.
type Tallier interface {
	Tally(v agon.View) Sum
}

// Watcher is what the engine's Env offers besides, to kinds whose judge needs
// what the gateway saw: a session of its own, in a dialect of the kind's, whose
// events can be read once it is sealed.
type Watcher interface {
	// Watch opens a session on the agent's budget, like Env.Door.
	Watch(ctx context.Context, task string, d Dialect, listen ...string) (Watched, error)
}

// Speaker is a Kind whose agents speak to the gateway in dialects of its choice:
// the gateway's own, and those that its process serves (gateway.Config.Dialects).
type Speaker interface {
	// Dialects names what the doors of an attempt speak (gateway.Policy).
	Dialects() []string
}

// Dialects names what the doors of k's attempts speak. A kind that is not a
// Speaker has OpenAI's routes and those of tools. Who speaks OpenAI's chat can be
// asked in the forms of other providers too, behind all the rest.
func Dialects(k Kind) []string {
	names := []string{gateway.DialectOpenAI, gateway.DialectTools}
	if s, ok := k.(Speaker); ok {
		names = slices.Clone(s.Dialects())
	}
	if slices.Contains(names, gateway.DialectOpenAI) {
		for _, d := range gateway.ModelDialects {
			if !slices.Contains(names, d) {
				names = append(names, d)
			}
		}
	}
	return names
}

// Dialect is how the agent of one session under watch speaks to the gateway.
type Dialect struct {
	Names []string // gateway.Policy's; empty means those of Door
	// NonceField is gateway.Policy's.
	NonceField string
}

// Watched is a session under watch.
type Watched struct {
	Doors []sandbox.Door
	// Seal ends the session: later calls are refused, open ones are settled. It
	// returns, in order, the events that the gateway wrote of it: the only
	// evidence there is of what an agent did outside its box. The error says
	// that the gateway lost what happened: then there is no evidence.
	Seal func() ([]agon.Event, error)
}
