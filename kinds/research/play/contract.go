// Package play is the kind of arena in which a patch to a task's repository must
// improve a measured number. Validators replay it; README.md shows how.
package play

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// Name is the kind's name.
const Name = "research"

// CheckTask says what is wrong with a task of the kind.
func CheckTask(t *task.Task) error {
	return task.Form{Files: []string{TaskFile}, Limit: 1 << 20, Dirs: []string{BaseDir}}.Check(t)
}

// Files of a research task directory, beside task.toml and instruction.md (the brief).
const (
	TaskFile    = "environment/research.toml" // Task, public
	BaseDir     = "environment/repo"          // the repository at the base
	OnboardFile = "environment/onboard.md"    // optional: what the author says before the generated part
	PrivateFile = "tests/validator.toml"      // Private; optional, validators only
	HiddenDir   = "tests/hidden"              // optional: mounted for the benchmark only
)

// Files of a submission.
const (
	PatchFile = "patch.diff" // may be empty where there is an artifact
	ClaimFile = "claim.json" // Claim
)

// Competition modes.
const (
	ModeStandard       = "standard"
	ModeCenterless     = "centerless"
	ModePeer           = "peer_evaluation"
	ModeSelfValidation = "self_validation"
)

// Ranking modes.
const (
	RankScalar = "scalar"
	RankPareto = "pareto" // inside the noise band the second metric decides
)

// Statuses of a submission, and of one verification of it.
const (
	StatusPending  = "pending_verification"
	StatusAccepted = "accepted" // replays ran and agree; it says nothing about best
	StatusRejected = "rejected" // the patch or the task's own check says no
	StatusError    = "error"    // no number came of it
)

// OutcomeRejected is the outcome of a replay that the task's own check ended. Any other
// word but agon.OutcomeOK is an error.
const OutcomeRejected = "rejected"

// Names of numbers in a replay's Score.Metrics. Metrics of the benchmark stand
// under MetricPrefix and their own name.
const (
	MetricPrefix   = "observed."
	MetricObserved = "observed" // the task's metric
	MetricClaimed  = "claimed"  // the same as the miner claims it; it decides nothing
	// A duel replays the incumbent beside the challenger on the same machine
	// and seeds: Score.Metrics has one pair per seed, numbered from 0.
	MetricDuelPrefix  = "duel."      // duel.<i>.challenger, duel.<i>.incumbent, of a second metric challenger2, incumbent2
	MetricDuelNumbers = "duel"       // how many pairs
	MetricDuelAgain   = "duel.again" // the challenger's number on the first pair's seed, measured once more
)

// Limits of a task's fields (bytes, unless said).
const (
	MaxSlug, MinSlug       = 120, 3
	MaxTitle, MinTitle     = 255, 3
	MaxBrief               = 20_000
	MaxOnboard             = 40_000
	MaxGlobs               = 64
	DefaultMaxPatch        = 262_144
	HighestMaxPatch        = 4 << 20
	MaxBudgetSeconds       = 86_400
	MaxPeers               = 20
	MaxEnv                 = 64
	maxCommand             = 8_000
	maxRef                 = 255
	maxName                = 120
	MaxResultBytes         = 10 << 20 // of the result file
	defaultMinPeers        = 2
	defaultAgree           = 2
	defaultReplays         = 5
	defaultPairs           = 12
	defaultAlpha           = 0.01
	defaultBudgetSeconds   = 3600
	defaultArtifactMax     = int64(2 << 30)
	defaultProposerPercent = 20
)

// Task is what miners may know of a task: the fields of the coordinator's wire
// (spec/bitsota.md 2.2) and our rules of acceptance.
type Task struct {
	Slug  string `toml:"slug" json:"slug"`
	Title string `toml:"title" json:"title"`
	// Brief and Onboard are Markdown; LoadTask takes them from instruction.md and OnboardFile.
	Brief   string `toml:"-" json:"brief"`
	Onboard string `toml:"-" json:"onboard_md"`
	// Repository is where the base can be cloned. Empty: the coordinator serves
	// the tree of BaseDir over git HTTP.
	Repository string `toml:"repository,omitempty" json:"repository"`
	BaseRef    string `toml:"base_ref" json:"base_ref"` // default "main"

	SetupCommand      string   `toml:"setup_command,omitempty" json:"setup_command"`
	BenchmarkCommand  string   `toml:"benchmark_command" json:"benchmark_command"`
	ResultPath        string   `toml:"result_path,omitempty" json:"result_path"` // relative; empty: the metric is read from the output
	AllowedPatchPaths []string `toml:"allowed_patch_paths" json:"allowed_patch_paths"`
	// Fnmatch lets * cross "/" in AllowedPatchPaths, as Python's fnmatch does;
	// else * stays in one directory and ** crosses.
	Fnmatch       bool `toml:"fnmatch,omitempty" json:"fnmatch"`
	MaxPatchBytes int  `toml:"max_patch_bytes,omitempty" json:"max_patch_bytes"`

	MetricName               string `toml:"metric_name" json:"metric_name"`
	MetricDirection          string `toml:"metric_direction" json:"metric_direction"`
	RankingMode              string `toml:"ranking_mode,omitempty" json:"ranking_mode"` // scalar or pareto
	SecondaryMetricName      string `toml:"secondary_metric_name,omitempty" json:"secondary_metric_name"`
	SecondaryMetricDirection string `toml:"secondary_metric_direction,omitempty" json:"secondary_metric_direction"`

	CompetitionMode    string          `toml:"competition_mode,omitempty" json:"competition_mode"`
	MinPeerEvaluations int             `toml:"min_peer_evaluations,omitempty" json:"min_peer_evaluations"`
	SelfValidation     *SelfValidation `toml:"self_validation_policy,omitempty" json:"self_validation_policy,omitempty"`
	TimeBudgetSeconds  int             `toml:"time_budget_seconds,omitempty" json:"time_budget_seconds"` // setup and benchmark together

	// Network lists what setup may reach: "none" (default) or "setup", which
	// means that setup, and only setup, has the box's package door.
	Network string `toml:"network,omitempty" json:"network"`
	// SetupWrites are globs of what setup may leave besides AllowedPatchPaths.
	// Empty: new files anywhere, but none that Python loads unasked (caches,
	// sitecustomize, .pth) and no module below a directory of protected ones,
	// which might take it for another. What the base holds may change in no case.
	SetupWrites []string `toml:"setup_writes,omitempty" json:"setup_writes,omitempty"`
	// Isolate runs the miner's programs apart from the benchmark: it asks for
	// each by HTTP at AGON_PLAY, and each runs in a box of its own, without
	// hidden data and with nothing that an earlier one left.
	Isolate bool `toml:"isolate,omitempty" json:"isolate,omitempty"`
	// Resumable says that the benchmark can go on after its validator had to stop it, from
	// the file that it leaves at AGON_STATE, of at most MaxStateBytes.
	Resumable     bool `toml:"resumable,omitempty" json:"resumable,omitempty"`
	MaxStateBytes int  `toml:"max_state_bytes,omitempty" json:"max_state_bytes,omitempty"`
	// Image is the root file system of the boxes, and Datasets are what they see below
	// /datasets, each by digest, as task.toml names them; "": each machine's own tree.
	Image    string   `toml:"-" json:"image,omitempty"`
	Datasets []string `toml:"-" json:"datasets,omitempty"`
	// Artifact says whether a submission may (or must) name an artifact: "", "allowed", "required".
	Artifact         string `toml:"artifact,omitempty" json:"artifact"`
	ArtifactMaxBytes int64  `toml:"artifact_max_bytes,omitempty" json:"artifact_max_bytes"`
	// Baseline is the metric of the unpatched base, as preflight measured it;
	// scores are relative to it. It is not 0.
	Baseline float64 `toml:"baseline" json:"baseline"`
	// BestKnown is the best value of the metric that anybody is known to have
	// reached, here or elsewhere, as its author says; nil: not known. It decides
	// nothing, charts show it.
	BestKnown *float64 `toml:"best_known,omitempty" json:"best_known,omitempty"`
	// Members begins the names of the benchmark's metrics that are the members of a suite:
	// each has a record of its own, in the direction of the metric. Empty: the task is not a suite.
	Members string `toml:"members,omitempty" json:"members,omitempty"`
	// Gate is a bound that an entry must reach over several seeds; nil: none.
	Gate *GateRule `toml:"gate,omitempty" json:"gate,omitempty"`
	// Rules turn replays into a result and a takeover.
	Rules agon.Contest `toml:"rules" json:"rules"`
	// ProposerPercent is the share of an accepted gain that goes to who proposed the implemented idea.
	ProposerPercent int `toml:"proposer_percent,omitempty" json:"proposer_percent"`
}

// Private is what only validators may know of a task.
type Private struct {
	// BenchmarkEnv is set for the benchmark only, and never shown.
	BenchmarkEnv map[string]string `toml:"benchmark_env" json:"benchmark_env"`
}

// SelfValidation is the policy of that mode (spec/bitsota.md 5.7).
type SelfValidation struct {
	CommitteeSize            int      `toml:"committee_size" json:"committee_size"`
	CommitteeHotkeys         []string `toml:"committee_hotkeys,omitempty" json:"committee_hotkeys"`
	ApprovalThreshold        float64  `toml:"approval_threshold,omitempty" json:"approval_threshold"`
	MinEffectiveCommittee    int      `toml:"min_effective_committee_size,omitempty" json:"min_effective_committee_size"`
	MaxApprovalConcentration float64  `toml:"max_approval_concentration,omitempty" json:"max_approval_concentration"`
	NewIdentityWeight        float64  `toml:"new_identity_weight,omitempty" json:"new_identity_weight"`
	ReputationGain           float64  `toml:"reputation_gain,omitempty" json:"reputation_gain"`
	MaxReputationWeight      float64  `toml:"max_reputation_weight,omitempty" json:"max_reputation_weight"`
	SlashTolerance           float64  `toml:"slash_tolerance,omitempty" json:"slash_tolerance"`
	MinImprovement           float64  `toml:"min_improvement,omitempty" json:"min_improvement"`
	SortitionSeed            string   `toml:"sortition_seed,omitempty" json:"sortition_seed"`
}

// Claim is what a miner says of a submission: claim.json. Nothing in it decides.
type Claim struct {
	ClaimID        string             `json:"claim_id"`
	BaseRef        string             `json:"base_ref"`
	Summary        string             `json:"summary"`
	ClaimedMetrics map[string]float64 `json:"claimed_metrics"`
	ProposedIdea   string             `json:"proposed_idea,omitempty"`
	Implemented    string             `json:"implemented_submission_id,omitempty"`
	ArtifactURI    string             `json:"artifact_uri,omitempty"`
	ArtifactSHA256 string             `json:"artifact_sha256,omitempty"`
	ArtifactBytes  int64              `json:"artifact_size_bytes,omitempty"`
	ExecutionLog   string             `json:"execution_log,omitempty"`
}

var (
	slugForm   = lazyregexp.New(`^[a-z0-9][a-z0-9-]*$`)
	metricForm = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	envForm    = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	refForm    = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)
)

// ParseTask reads TaskFile. Unknown fields are mistakes. Defaults are filled in.
func ParseTask(b []byte) (Task, error) {
	var t Task
	d := toml.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("%s: %w", TaskFile, err)
	}
	t.Defaults()
	return t, t.Validate()
}

// ParsePrivate reads PrivateFile.
func ParsePrivate(b []byte) (Private, error) {
	var p Private
	d := toml.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("%s: %w", PrivateFile, err)
	}
	return p, p.Validate()
}

// Validate checks names and sizes.
func (p Private) Validate() error {
	if len(p.BenchmarkEnv) > MaxEnv {
		return fmt.Errorf("validator_benchmark_env: %d variables, at most %d", len(p.BenchmarkEnv), MaxEnv)
	}
	for k, v := range p.BenchmarkEnv {
		if !envForm().MatchString(k) || len(k) > 128 || len(v) > 64<<10 || strings.ContainsRune(v, 0) {
			return fmt.Errorf("validator_benchmark_env: %.40q is not a name of a variable, or its value is over 65536 bytes", k)
		}
	}
	return nil
}

// Defaults fills in what is empty.
func (t *Task) Defaults() {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	num := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&t.BaseRef, "main")
	def(&t.RankingMode, RankScalar)
	def(&t.CompetitionMode, ModeCenterless)
	def(&t.Network, "none")
	def(&t.MetricDirection, agon.Minimize)
	num(&t.MaxPatchBytes, DefaultMaxPatch)
	num(&t.TimeBudgetSeconds, defaultBudgetSeconds)
	num(&t.MinPeerEvaluations, defaultMinPeers)
	num(&t.ProposerPercent, defaultProposerPercent)
	if t.Resumable {
		num(&t.MaxStateBytes, defaultMaxState)
	}
	if t.ArtifactMaxBytes == 0 {
		t.ArtifactMaxBytes = defaultArtifactMax
	}
	r := &t.Rules
	r.Direction = t.MetricDirection
	if r.Secondary = ""; t.RankingMode == RankPareto {
		r.Secondary = t.SecondaryMetricDirection
	}
	num(&r.Agree, defaultAgree)
	num(&r.Replays, max(defaultReplays, r.Agree))
	num(&r.Pairs, defaultPairs)
	if r.Alpha == 0 {
		r.Alpha = defaultAlpha
	}
	if p := t.SelfValidation; p != nil {
		p.defaults()
	}
}

func (p *SelfValidation) defaults() {
	real := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	real(&p.ApprovalThreshold, 0.5)
	real(&p.SlashTolerance, 0.05)
	real(&p.MaxApprovalConcentration, 1)
	real(&p.NewIdentityWeight, 1)
	real(&p.MaxReputationWeight, max(p.NewIdentityWeight, 1))
	if p.MinEffectiveCommittee == 0 {
		p.MinEffectiveCommittee = (p.CommitteeSize + 1) / 2
	}
}

// FieldError is a mistake in one field of a task.
type FieldError struct {
	Field, Limit, Message string
}

func (e *FieldError) Error() string {
	if e.Limit != "" {
		return e.Field + ": " + e.Message + " (" + e.Limit + ")"
	}
	return e.Field + ": " + e.Message
}

func bad(field, limit, format string, args ...any) error {
	return &FieldError{field, limit, fmt.Sprintf(format, args...)}
}

// Validate checks every field against the limits of spec/bitsota.md 2.2 and
// returns all mistakes, joined; each is a *FieldError.
func (t *Task) Validate() error {
	var errs []error
	no := func(field, limit, format string, args ...any) {
		errs = append(errs, bad(field, limit, format, args...))
	}
	sized := func(field, s string, low, high int) {
		if len(s) < low || len(s) > high || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			no(field, fmt.Sprintf("%d to %d bytes of UTF-8", low, high), "%d bytes", len(s))
		}
	}
	oneOf := func(field, s string, words ...string) {
		if !slices.Contains(words, s) {
			no(field, strings.Join(words, ", "), "%.40q is none of them", s)
		}
	}
	sized("slug", t.Slug, MinSlug, MaxSlug)
	if !slugForm().MatchString(t.Slug) {
		no("slug", "", "want lower-case letters, digits and dashes, not a dash first")
	}
	sized("title", t.Title, MinTitle, MaxTitle)
	sized("brief", t.Brief, 0, MaxBrief)
	sized("onboard_md", t.Onboard, 0, MaxOnboard)
	sized("repository", t.Repository, 0, 2000)
	sized("base_ref", t.BaseRef, 1, maxRef)
	if !refForm().MatchString(t.BaseRef) || strings.Contains(t.BaseRef, "..") {
		no("base_ref", "", "%.80q is not a name of a branch, tag or commit", t.BaseRef)
	}
	sized("setup_command", t.SetupCommand, 0, maxCommand)
	sized("benchmark_command", t.BenchmarkCommand, 1, maxCommand)
	if t.ResultPath != "" {
		if err := plainPath(t.ResultPath); err != nil {
			no("result_path", "", "%v", err)
		}
	}
	if n := len(t.AllowedPatchPaths); n < 1 || n > MaxGlobs {
		no("allowed_patch_paths", fmt.Sprintf("1 to %d globs", MaxGlobs), "%d globs", n)
	}
	for _, g := range t.AllowedPatchPaths {
		if g == "" || len(g) > 500 || !utf8.ValidString(g) || strings.ContainsAny(g, "\x00\n\\") || strings.HasPrefix(g, "/") || slices.Contains(strings.Split(g, "/"), "..") {
			no("allowed_patch_paths", "500 bytes", "%.80q is not a relative glob", g)
		}
	}
	between := func(field string, n, low, high int) {
		if n < low || n > high {
			no(field, fmt.Sprintf("%d to %d", low, high), "%d", n)
		}
	}
	if len(t.SetupWrites) > 0 {
		if err := surface.CheckGlobs(t.SetupWrites); err != nil {
			no("setup_writes", "", "%v", err)
		}
	}
	between("max_patch_bytes", t.MaxPatchBytes, 1, HighestMaxPatch)
	between("time_budget_seconds", t.TimeBudgetSeconds, 1, MaxBudgetSeconds)
	between("min_peer_evaluations", t.MinPeerEvaluations, 1, MaxPeers)
	between("proposer_percent", t.ProposerPercent, 0, 100)
	if !metricForm().MatchString(t.MetricName) || len(t.MetricName) > maxName {
		no("metric_name", fmt.Sprintf("%d bytes", maxName), "%.40q: want a word of letters, digits and _.-", t.MetricName)
	}
	oneOf("metric_direction", t.MetricDirection, agon.Minimize, agon.Maximize)
	oneOf("ranking_mode", t.RankingMode, RankScalar, RankPareto)
	if t.RankingMode == RankPareto || t.SecondaryMetricName != "" {
		if !metricForm().MatchString(t.SecondaryMetricName) || len(t.SecondaryMetricName) > maxName || t.SecondaryMetricName == t.MetricName {
			no("secondary_metric_name", "", "pareto needs the name of a second metric")
		}
		oneOf("secondary_metric_direction", t.SecondaryMetricDirection, agon.Minimize, agon.Maximize)
	}
	if t.Members != "" && (!metricForm().MatchString(t.Members) || len(t.Members) > maxName || strings.HasPrefix(t.MetricName, t.Members)) {
		no("members", fmt.Sprintf("%d bytes", maxName), "%.40q: want what the names of the members' metrics begin with, and that of the metric does not", t.Members)
	}
	oneOf("competition_mode", t.CompetitionMode, ModeStandard, ModeCenterless, ModePeer, ModeSelfValidation)
	oneOf("network", t.Network, "none", "setup")
	oneOf("artifact", t.Artifact, "", "allowed", "required")
	if t.ArtifactMaxBytes < 1 || t.ArtifactMaxBytes > 64<<30 {
		no("artifact_max_bytes", "1 to 64 GiB", "%d", t.ArtifactMaxBytes)
	}
	if t.Baseline == 0 || math.IsNaN(t.Baseline) || math.IsInf(t.Baseline, 0) {
		no("baseline", "", "want the metric of the unpatched base, finite and not 0")
	}
	if b := t.BestKnown; b != nil && (math.IsNaN(*b) || math.IsInf(*b, 0)) {
		no("best_known", "", "want a finite number")
	}
	if t.CompetitionMode == ModeSelfValidation {
		if p := t.SelfValidation; p == nil || p.CommitteeSize < 1 || p.CommitteeSize > 100 || len(p.CommitteeHotkeys) > 1000 ||
			!(p.ApprovalThreshold > 0 && p.ApprovalThreshold < 1) || !(p.SlashTolerance >= 0 && p.SlashTolerance <= 1) {
			no("self_validation_policy", "", "want a committee of 1 to 100 and a threshold between 0 and 1")
		}
	}
	switch {
	case t.Resumable:
		between("max_state_bytes", t.MaxStateBytes, 1, kind.MaxKeptState)
	case t.MaxStateBytes != 0:
		no("max_state_bytes", "", "the task is not resumable")
	}
	t.Gate.mistakes(t, no)
	t.checkStands(no)
	if err := quorum.CheckContest(t.Rules); err != nil {
		no("rules", "", "%v", err)
	}
	return errors.Join(errs...)
}

// plainPath wants a relative path in its shortest form.
func plainPath(p string) error {
	if len(p) > 500 || path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsAny(p, "\x00\\\n") || !utf8.ValidString(p) {
		return fmt.Errorf("%.80q is not a plain relative path", p)
	}
	return nil
}

// ScoreValue maps an observed metric into 0..1 so that more is better and the
// baseline is 0.5. It keeps the order of metrics of one task. Metrics with the
// sign opposite to the baseline's are the best or the worst there is.
func (t *Task) ScoreValue(x float64) float64 {
	b := t.Baseline
	if b < 0 { // mirrored: minimising a negative number is maximising its size
		b, x = -b, -x
		if t.MetricDirection == agon.Minimize {
			return x2(max(x, 0), b)
		}
		return x2(b, max(x, 0))
	}
	if t.MetricDirection == agon.Minimize {
		return x2(b, max(x, 0))
	}
	return x2(max(x, 0), b)
}

func x2(a, b float64) float64 {
	if a+b == 0 {
		return 0.5
	}
	v := a / (a + b)
	if math.IsNaN(v) { // both are too large to add
		return 0.5
	}
	return v
}
