package cli

import (
	"context"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/corpus/distill"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task/leak"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// Services is the work that commands start but do not know how to do, in one
// part for each group of commands; main fills it from the packages that wire
// things. Each command is given its own part. A nil function makes its command
// say that this binary has no such part.
//
// Every function stops when its context ends and returns the context's error
// then, or nil if it had nothing left to do. Errors for people are *agon.Error.
type Services struct {
	Roles   Roles
	Host    Host
	Kinds   Kinds
	Arenas  Arenas
	Agents  Agents
	Tasks   Tasks
	Judges  Judges
	Corpora Corpora
	Stores  Stores
	// Calc holds every rule that `agon calc` recomputes.
	Calc *calc.Registry
	// OpenAPI are the documents of routes by the name of their file, for `agon docs`.
	OpenAPI map[string]func() ([]byte, error)
}

// Roles are the processes that agon can be.
type Roles struct {
	// Up runs everything in one process. With Once it returns the outcome when
	// every submission is decided; else it runs until the context ends.
	Up        func(context.Context, UpOptions) (*client.Overview, error)
	Serve     func(context.Context, ServeOptions) error
	Validator func(context.Context, ValidatorOptions) error
	// Gateway is a gateway that validators elsewhere use.
	Gateway func(context.Context, GatewayOptions) error
	// EnvServe serves tasks to trainers.
	EnvServe func(context.Context, EnvServeOptions) error
	// Distill trains a model on plays.
	Distill func(context.Context, DistillOptions, func(distill.Event)) (*DistillResult, error)
}

// Host is this machine.
type Host struct {
	Setup  func(context.Context, SetupOptions) error
	Doctor func(context.Context, DoctorOptions) ([]Check, error)
	// RotateLog gives the transparency log of the data directory a new key.
	RotateLog func(Common) (*translog.Succession, error)
	// RotateGateway gives the gateway of the data directory a new key.
	RotateGateway func(Common) (*agon.Succession, error)
	// Images is the machine's cache of images.
	Images func(Common) *rootfs.Images
	// Datasets is the machine's cache of data sets.
	Datasets func(Common) *datasets.Store
	// BuildImage makes an image of a Dockerfile, in a box.
	BuildImage func(context.Context, BuildImageOptions) (*rootfs.Image, error)
	// Model asks the provider what it thinks of the configured key.
	Model func(context.Context, Common) (*ModelKey, error)
}

// BuildImageOptions is `agon image build`.
type BuildImageOptions struct {
	Common
	Dir, Dockerfile string
	From, Args      map[string]string
	Networks        []string // nil: all
	Name            string
	Driver          string
}

// Arenas are files of arenas.
type Arenas struct {
	// Template is a commented arena file of a kind.
	Template func(kind string) ([]byte, error)
	// Check names every mistake of one.
	Check func(c Common, path string) (*ArenaChecked, error)
	// Rules are the rules that arenas may name.
	Rules map[string]incentive.Rule
	// Rule reads the rule, its numbers, the set and the price of a play from an arena file.
	Rule func(c Common, path string) (*ArenaRule, error)
}

// ArenaRule is what decides in an arena.
type ArenaRule struct {
	Name    string
	Numbers map[string]float64
	Tasks   int
	PlayUSD float64 // the most that one play may cost
}

// Agents is what miners enter.
type Agents struct {
	// EntryName is the path under which a single file is entered in an arena of a
	// kind; nil: its own name.
	EntryName func(kind, file string) string
	// Templates holds what `agon agent new KIND` writes, by kind.
	Templates map[string]fs.FS
	// Starts are the commands that begin an entry of the kinds without a template, by kind.
	Starts map[string]string
	// Try plays one agent file by the validator's own code path.
	Try func(context.Context, TryOptions) (*TryResult, error)
}

// Tasks are directories of tasks.
type Tasks struct {
	List  func(context.Context, TaskListOptions) ([]TaskInfo, error)
	Check func(context.Context, TaskCheckOptions) ([]TaskReport, error)
	Fetch func(context.Context, TaskFetchOptions) ([]TaskFetched, error)
	// FromRelease makes tasks of releases of a package.
	FromRelease func(context.Context, TaskReleaseOptions) ([]TaskMade, error)
	// Canary makes a task whose statement is another's.
	Canary func(context.Context, TaskCanaryOptions) (*TaskCanary, error)
	// Init writes a task of one of Kinds into a directory.
	Init  func(ctx context.Context, kind, dir string) ([]string, error)
	Kinds []string
	// Preflight tries tasks of kinds that measure a gain.
	Preflight func(context.Context, TaskCheckOptions) ([]TaskPreflight, error)
}

// Corpora are made of runs by what their kinds say. Both are optional.
type Corpora struct {
	// Keys returns what tasks of a kind share with others.
	Keys func(Common) func(kind string, t agon.TaskRef) []string
	// Finals is how answers are handed over, by kind.
	Finals corpus.Finals
}

// Judges are asked again, or tried.
type Judges struct {
	// Rejudge judges stored evidence again, in a box on this machine.
	Rejudge func(context.Context, RejudgeOptions) ([]agon.Score, error)
	// Replay plays a run again, in a box on this machine, without a model.
	Replay func(context.Context, ReplayOptions) ([]agon.Score, error)
	// Pair returns how a kind compares two scores of a task; nil: by their values.
	Pair func(kind string) func(numbers map[string]float64, challenger, incumbent agon.Score, baseline bool) incentive.Pair
	// Exams are what judges can be measured by, one for each prompt.
	Exams []judge.Exam
	// Calibrate measures a judge on labelled cases.
	Calibrate func(context.Context, JudgeCalibrateOptions) (*judge.Calibration, error)
	// Rescore judges an arena's stored plays by another judge.
	Rescore func(context.Context, RescoreOptions) (*Rescore, error)
}

// Common is what every long-running service is given.
type Common struct {
	Config *config.Config
	// Log writes to stderr, above the progress line.
	Log *slog.Logger
	// Progress shows how far the work has come; never nil.
	Progress func(progress.State)
	// Say writes one line for people to stderr, above the progress line; never nil.
	Say func(format string, args ...any)

	// TLS is how the command's listener serves, where it has the flags for it.
	TLS *certs.Server
	// Over is how others are reached over TLS.
	Over *certs.Client

	raw func(line string) // writes a clean line, styled or not, as Say does
}

// UpOptions is `agon up`.
type UpOptions struct {
	Common
	Once       bool
	ArenaFiles []string // or ids of demos; none: all demos
	Boxes      int      // at once; 0 = by the machine
	Driver     string   // demanded box driver; "" = the best that works here
	// Ready is called once, when /v1 answers at url; never nil.
	Ready func(url string)
	// Decided is called whenever the last open submission has been decided; never nil.
	Decided func(*client.Overview)
}

// ServeOptions is `agon serve`: the platform without a validator.
type ServeOptions struct {
	Common
	ArenaFiles []string // as UpOptions
	// Registration says who may register on the embedded ledger, RegistrationPrice
	// the least that it costs where it costs something, in rao.
	Registration      local.Registration
	RegistrationPrice uint64
	// LocalMetrics lets anybody on the machine read /metrics without a token.
	LocalMetrics bool
	// Ready is called once, when /v1 answers at url; never nil.
	Ready func(url string)
}

// ValidatorOptions is `agon validator`.
type ValidatorOptions struct {
	Common
	Client *client.Client // of the platform; signs with Key
	Key    auth.Signer
	Arenas []string // empty: any
	Boxes  int
	Driver string
	// Metrics is the address at which /metrics is served, to whoever reaches it; "": nowhere.
	Metrics string
}

// TryOptions is `agon try`.
type TryOptions struct {
	Common
	File   string
	Arena  string
	Tasks  []string // keys; empty: all public tasks
	Set    *int64   // the set period, which has ended, whose tasks are played
	Boxes  int
	Driver string
}

// TryResult is what `agon try` prints.
type TryResult struct {
	Arena      string      `json:"arena"`
	Score      *float64    `json:"score"` // null while a task has no result
	Solved     int         `json:"solved"`
	Total      int         `json:"total"`
	CostMicros agon.Micros `json:"cost_micros"`
	Runs       []TryRun    `json:"runs"`
	Scripted   bool        `json:"scripted"` // a script answered in its model's place
	// Rehearsal: the arena seats scripted entries, which earn nothing.
	Rehearsal bool   `json:"rehearsal,omitempty"`
	BoxMS     int64  `json:"box_ms"` // in boxes, all runs together
	Log       string `json:"log"`    // folder of what all runs left
	// Tasks sums the runs of each task.
	Tasks []TryTask `json:"tasks"`
	// Champion is who sits in the arena of the configured server; null where it
	// does not answer, nobody sits, or not every task was tried.
	Champion *TryChampion `json:"champion"`
	// Entry says how entries to that arena fare, and what they pay.
	Entry string `json:"entry,omitempty"`
}

// TryTask is how a task went, over its runs.
type TryTask struct {
	Key    string     `json:"key"`
	Reward *float64   `json:"reward"` // mean of its scores; null while one has no result
	Solved bool       `json:"solved"`
	Fault  agon.Fault `json:"fault"` // of the last run that had one
}

// Summed sets Tasks from the runs, some of which may have no score.
func (r *TryResult) Summed() {
	r.Tasks = []TryTask{}
	n := map[string]int{}
	for _, x := range r.Runs {
		i := slices.IndexFunc(r.Tasks, func(t TryTask) bool { return t.Key == x.Task })
		if i < 0 {
			i = len(r.Tasks)
			zero := 0.0
			r.Tasks = append(r.Tasks, TryTask{Key: x.Task, Solved: true, Reward: &zero})
		}
		t := &r.Tasks[i]
		t.Solved = t.Solved && x.Solved
		if x.Fault != agon.FaultNone {
			t.Fault = x.Fault
		}
		if x.Score == nil || t.Reward == nil {
			t.Reward = nil
			continue
		}
		n[x.Task]++
		*t.Reward += (*x.Score - *t.Reward) / float64(n[x.Task])
	}
}

// TryChampion is who sits, and what the arena's rule would say of the file.
type TryChampion struct {
	Submission string      `json:"submission"`
	Name       string      `json:"name"`
	Score      float64     `json:"score"`
	CostMicros agon.Micros `json:"cost_micros"`
	BoxMS      *int64      `json:"box_ms"`
	Rule       string      `json:"rule"`
	Bar        *float64    `json:"bar"`
	Takes      bool        `json:"takes"`
	// Sentence says what the rule would decide, or that it decides by pairs, which
	// are played once the file is submitted.
	Sentence string `json:"sentence"`
}

// Sum sets Score and Solved from the runs, each of which has a score: the mean
// over tasks of the mean of each, as the arena sums.
func (r *TryResult) Sum() {
	type task struct {
		value  float64
		n      int
		solved bool
	}
	by := map[string]*task{}
	var keys []string
	for _, x := range r.Runs {
		t := by[x.Task]
		if t == nil {
			t = &task{solved: true}
			by[x.Task], keys = t, append(keys, x.Task)
		}
		t.value += *x.Score
		t.n++
		t.solved = t.solved && x.Solved
	}
	slices.Sort(keys) // sums of floats depend on the order
	mean := 0.0
	r.Solved = 0
	for _, k := range keys {
		mean += by[k].value / float64(by[k].n)
		if by[k].solved {
			r.Solved++
		}
	}
	mean /= float64(max(1, len(keys)))
	r.Score = &mean
}

// TryRun is one task of a try.
type TryRun struct {
	Task  string        `json:"task"`
	State agon.RunState `json:"state"`
	Fault agon.Fault    `json:"fault"`
	Score *float64      `json:"score"`
	MS    int64         `json:"ms"` // its share of the run's time
	// Detail is one line for the miner: what was wrong.
	Detail string `json:"detail,omitempty"`
	// Solved is the judge's word, not a threshold on Score.
	Solved bool `json:"solved"`
	// Log is the folder of its trace (events.jsonl), of what the agent printed
	// (output.txt) and of files; Output is the end of what it printed, where the
	// agent failed or this task alone was tried.
	Log    string `json:"log,omitempty"`
	Output string `json:"output,omitempty"`
}

// DoctorOptions is `agon doctor`.
type DoctorOptions struct {
	Common
	// Data reads everything that the data directory holds, too.
	Data bool
	// GPU looks at this machine's accelerators, too.
	GPU bool
}

// Statuses of a check.
const (
	CheckOK   = "ok"
	CheckWarn = "warn"
	CheckFail = "fail"
)

// Check is one thing that doctor looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"`
}

// TaskCheckOptions is `agon task check`.
type TaskCheckOptions struct {
	Common
	Dirs   []string // task directories, or directories of them
	Driver string
	Paid   bool // the tasks are of a set that pays: one whose grade can be forged is refused
}

// TaskReport is what the controls said about one task.
type TaskReport struct {
	Task string `json:"task"`
	OK   bool   `json:"ok"`
	// Oracle is the least score of the reference solution, which must be 1; Nop the
	// greatest of doing nothing, which must be below 1; null: not played. Oracles and
	// Nops have the score of each repeat.
	Oracle  *float64  `json:"oracle"`
	Nop     *float64  `json:"nop"`
	Oracles []float64 `json:"oracles,omitempty"`
	Nops    []float64 `json:"nops,omitempty"`
	// Tests are those that must fail before the fix and pass after it, with how
	// many twins each has; absent where a kind's graders play no twins.
	Tests []kind.TwinCount `json:"tests,omitempty"`
	// Twins sums them; Forgeable says that a test has too few, or that a verifier
	// executes what it judges.
	Twins     int    `json:"twins"`
	Forgeable bool   `json:"forgeable"`
	MS        int64  `json:"ms"`
	Reason    string `json:"reason,omitempty"`
	// Lint are warnings: a rule's name as code, and the file as field.
	Lint []agon.Finding `json:"lint,omitempty"`
}

// Forged lists the tests whose grade can be forged.
func (r TaskReport) Forged() (out []string) {
	for _, t := range r.Tests {
		if t.Forgeable {
			out = append(out, t.ID)
		}
	}
	return out
}

// TaskPreflight is what is known of a task that measures a gain, before it goes live.
type TaskPreflight struct {
	Task   string  `json:"task"`
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
	// Values are the metric of the unpatched base; Baseline is their middle, Band their spread.
	Values   []float64 `json:"values"`
	Baseline float64   `json:"baseline"`
	Band     float64   `json:"band"`
	// Value is Baseline; Seeds are the seeds that the base was replayed with, BySeed
	// what came of each, Noise their spread.
	Value  float64         `json:"value"`
	Seeds  []int64         `json:"seeds"`
	BySeed []TaskSeedValue `json:"by_seed"`
	Noise  TaskNoise       `json:"noise"`
	// Gate is a metric that must reach a bound before the task's own counts; null: none.
	Gate *TaskGate `json:"gate"`
	// BandAbs and BandRel are what band_abs and band_rel of the rule paired need at
	// least: below them luck passes for a gain. The relative one is of the baseline.
	BandAbs float64 `json:"band_abs"`
	BandRel float64 `json:"band_rel"`
	// Leaks are places that contestants can read and that hold hidden bytes.
	Leaks       []leak.Leak `json:"leaks"`
	SetupMS     int64       `json:"setup_ms"`
	BenchmarkMS int64       `json:"benchmark_ms"`
	MaxRSS      int64       `json:"max_rss_bytes"`
}

// TaskNoise is a spread in the metric's unit and as a share of the baseline.
type TaskNoise struct {
	Absolute float64 `json:"absolute"`
	Relative float64 `json:"relative"`
}

// TaskGate is a bound on a metric.
type TaskGate struct {
	Metric string  `json:"metric"`
	Bound  float64 `json:"bound"`
	Alpha  float64 `json:"alpha"`
}

// TaskSeedValue is what the base came to with one seed.
type TaskSeedValue struct {
	Seed  int64   `json:"seed"`
	Value float64 `json:"value"`
}

// TaskFetchOptions is `agon task fetch`.
type TaskFetchOptions struct {
	Common
	Tasks []string // keys; empty: all
}

// TaskFetched is one task made from published packages.
type TaskFetched struct {
	Task   string      `json:"task"`
	OK     bool        `json:"ok"`
	Cached bool        `json:"cached"` // was there before
	Digest agon.Digest `json:"digest,omitempty"`
	Reason string      `json:"reason,omitempty"`
}

// TaskReleaseOptions is `agon task from-release`.
type TaskReleaseOptions struct {
	Common
	Index, Package, Old, New string
	Range                    bool // a task of each two releases that follow each other, from Old to New
	Runner                   string
	Out                      string // directory for the tasks' directories
	Repeats                  int    // how often each test is run with the solution
	Driver                   string
}

// TaskMade is a task that was made of two releases, or why none was.
type TaskMade struct {
	Task        string   `json:"task"`
	Dir         string   `json:"dir,omitempty"`
	Package     string   `json:"package"`
	Old         string   `json:"old"`
	New         string   `json:"new"`
	Licence     string   `json:"licence"` // as the archive says it
	Published   string   `json:"published,omitempty"`
	Files       int      `json:"files"` // of the solution
	FailToPass  int      `json:"fail_to_pass"`
	PassToPass  int      `json:"pass_to_pass"`
	Quarantined []string `json:"quarantined"`
	OK          bool     `json:"ok"`
	Reason      string   `json:"reason,omitempty"`
}

// TaskCanaryOptions is `agon task canary`.
type TaskCanaryOptions struct {
	Common
	Task string // a task's directory, or the key of a shipped one
	Dir  string // to be made
	Seed string // secret
}

// TaskCanary is a task that was made of another, with the names that it changed.
type TaskCanary struct {
	Task  string            `json:"task"` // whose statement it has
	Dir   string            `json:"dir"`
	Names map[string]string `json:"names"` // old to new
}

// TaskListOptions is `agon task list`.
type TaskListOptions struct {
	Common
	Set string // "" = all
}

// TaskInfo describes one task.
type TaskInfo struct {
	Task       string `json:"task"`
	Kind       string `json:"kind"`
	Difficulty string `json:"difficulty,omitempty"`
	Visible    bool   `json:"visible"`   // the failing tests are in the tree
	Available  bool   `json:"available"` // its files are here (released tasks: fetched)
	Title      string `json:"title,omitempty"`
}

// SetupOptions is `agon setup`: what make setup calls after the build.
type SetupOptions struct {
	Common
	Image  string // OCI image to take the root file system from; "" = made here
	Driver string
}
