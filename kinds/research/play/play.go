package play

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/artifact"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Files of a record.
const (
	ObservedFile = "observed.json" // Observed
	LogFile      = "replay.log"    // secrets are out of it
)

// Outcomes of a replay besides those of package agon. Each is an error: no number came.
const (
	OutcomeSetup     = "setup_failed"
	OutcomeNoMetric  = "no_metric"
	OutcomeBenchmark = "benchmark_failed"
)

// maxReplayLog bounds a replay's log, in bytes.
const maxReplayLog = 128_000

// Observed is what a replay came to.
type Observed struct {
	Status  string             `json:"status"`           // StatusAccepted, StatusRejected, StatusError
	Reason  string             `json:"reason,omitempty"` // of a rejection: the code behind validator_rejection=
	Notes   string             `json:"notes,omitempty"`  // one line
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Claimed is the task's metric as the miner claims it; nil: it claims none.
	// It decides nothing.
	Claimed *float64 `json:"claimed,omitempty"`
	// Duel holds the pairs of challenger and incumbent: same machine, same seed.
	Duel []DuelPair `json:"duel,omitempty"`
	// Changed lists the paths that the patch changes; Digest names the change
	// whatever way the patch is written.
	Changed []string    `json:"changed,omitempty"`
	Digest  agon.Digest `json:"digest,omitempty"`
	// SetupMS and BenchmarkMS are wall times; MaxRSS is in bytes, where the driver knows it.
	SetupMS     int64 `json:"setup_ms"`
	BenchmarkMS int64 `json:"benchmark_ms"`
	MaxRSS      int64 `json:"max_rss,omitempty"`
	Seed        int64 `json:"seed"`
	// Stops says how often it was stopped and went on.
	Stops int `json:"stops,omitempty"`
}

// DuelPair is one paired replay.
type DuelPair struct {
	Seed int64 `json:"seed"`
	quorum.Pair
	Lost bool `json:"lost,omitempty"` // the challenger gave no number: its number here is the incumbent's
}

// player is one replay under way. One goroutine uses it.
type player struct {
	k      *Kind
	env    kind.Env
	run    agon.RunSpec
	key    string // of the task
	t      Task
	priv   Private
	dir    string // of the task's tree
	digest agon.Digest
	root   rootfs.Root // what its boxes stand on: the task's image, or the machine's own tree
	base   *base
	tmp    string // host directory of this play
	hidden string // host directory; empty: the task has none
	log    tail
	patch  []byte // of the submission, where it could be read
	resume resume // what an earlier attempt has left
}

// ended is an end that is the miner's: no number came, or the task says no.
type ended struct {
	outcome  string
	rejected string // code of a rejection; empty for errors
	notes    string
}

func (e *ended) Error() string { return e.notes }

// Play replays a submission: its patch on the clean base, setup, then the
// benchmark in a box that holds nothing but what setup left.
func (k *Kind) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	p, done, err := k.player(ctx, env, r)
	if err != nil {
		return agon.Record{}, err
	}
	defer done()
	obs, outcome, err := p.play(ctx, s)
	if err != nil {
		return agon.Record{}, err
	}
	env.Progress(agon.EventNote, p.key, p.note(obs))
	b, err := json.Marshal(obs)
	if err != nil {
		return agon.Record{}, fmt.Errorf("encode result: %w", err)
	}
	rec := agon.Record{Outcome: outcome, Detail: plain.Short(obs.Notes, 400), Files: map[string][]byte{ObservedFile: b, LogFile: p.redacted()}}
	return rec, nil
}

// player reads the task and brings its base and hidden data onto this host.
func (k *Kind) player(ctx context.Context, env kind.Env, r agon.RunSpec) (_ *player, done func(), err error) {
	if len(r.Tasks) != 1 {
		return nil, nil, fmt.Errorf("research: a run has one task, this one has %d", len(r.Tasks))
	}
	p := &player{k: k, env: env, run: r, key: r.Tasks[0].Key, digest: r.Tasks[0].Digest, log: tail{limit: maxReplayLog}}
	if p.dir, err = env.Tree(ctx, p.digest); err != nil {
		return nil, nil, err
	}
	if p.t, p.priv, err = OpenTask(p.dir); err != nil {
		return nil, nil, err
	}
	tk, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return nil, nil, err
	}
	if p.root, err = k.root(ctx, env, tk); err != nil {
		return nil, nil, err
	}
	if p.tmp, err = tempdir.Make("replay"); err != nil {
		return nil, nil, err
	}
	remove := func() { _ = tempdir.Remove(p.tmp) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if err := os.Chmod(p.tmp, 0o711); err != nil { // boxes mount what lies below
		return nil, nil, fmt.Errorf("open replay directory: %w", err)
	}
	if err := p.hiddenData(ctx); err != nil {
		return nil, nil, err
	}
	base, release, err := k.baseOf(ctx, env, &p.t, p.dir, r)
	if err != nil {
		return nil, nil, err
	}
	p.base = base
	if err := p.resumes(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return p, func() { release(); remove() }, nil
}

// root is what a task's boxes stand on.
func (k *Kind) root(ctx context.Context, env kind.Env, t *task.Task) (rootfs.Root, error) {
	if image := t.Image(); image != "" {
		return env.Root(ctx, image)
	}
	return rootfs.NewRoots(k.cfg.Rootfs, nil).Own(), nil
}

// play makes the observation. An error is never the miner's doing.
func (p *player) play(ctx context.Context, s agon.Submission) (Observed, string, error) {
	// All validators use one seed for a submission, so that their numbers can be
	// compared; it hangs on the submission's own bytes, so that none can be
	// written for it. Submissions are compared by duels, on common seeds.
	obs := Observed{Status: StatusAccepted, Seed: ReplaySeed(p.digest, p.run.Seed)}
	if p.run.Rival != nil { // on the first pair's, to see whether one seed gives one number
		obs.Seed = DuelSeed(p.digest, p.run, 0)
	}
	obs.Stops = p.resume.Stops
	p.line("replay_execution_surface=box")
	if p.base.commit != "" {
		p.line("base_commit_sha=" + p.base.commit)
	}
	var challenger, incumbent *side
	// Whatever was made for a side is taken down in the end.
	defer func() {
		for _, x := range []*side{challenger, incumbent} {
			if x != nil && x.layer != nil {
				_ = x.layer.Remove()
			}
		}
	}()
	fail := func(err error) (Observed, string, error) {
		var e *ended
		if !errors.As(err, &e) {
			return obs, "", err
		}
		_, _ = p.log.Write(fmt.Appendf(nil, "%s\n", e.notes))
		obs.Notes, obs.Status = e.notes, StatusError
		if e.rejected != "" {
			obs.Status, obs.Reason = StatusRejected, e.rejected
			p.line("validator_rejection=" + e.rejected)
		}
		return obs, e.outcome, nil
	}
	dir, err := p.env.Tree(ctx, s.Digest)
	if err != nil {
		return obs, "", err
	}
	if challenger, err = p.side(ctx, "challenger", dir); err != nil {
		return fail(err)
	}
	if e, err := ReadEntry(os.DirFS(dir)); err == nil { // side has said what is wrong with it
		if x, ok := e.Claim.ClaimedMetrics[p.t.MetricName]; ok {
			obs.Claimed = &x
		}
	}
	obs.Changed, obs.Digest = challenger.changes.Paths(), challenger.changes.Digest
	if p.run.Rival != nil {
		if incumbent, err = p.rival(ctx, p.run.Rival); err != nil {
			return obs, "", err
		}
	}
	if err := p.setup(ctx, challenger, &obs); err != nil {
		return fail(err)
	}
	if obs.Metrics = p.resume.Metrics; obs.Metrics == nil {
		if obs.Metrics, err = p.benchmark(ctx, challenger, obs.Seed, &obs); err != nil {
			return fail(err)
		}
	}
	if incumbent != nil {
		if err := p.duel(ctx, challenger, incumbent, &obs); err != nil {
			return fail(err)
		}
	}
	return obs, agon.OutcomeOK, nil
}

// duel replays both sides on the same machine and seeds, taking turns in who
// goes first. Where an incumbent gives no number the base does, as while the seat is
// empty: a program that stops working some day cannot hold the seat by that. A pair
// without a number of either is left out. A challenger that gives no number loses its
// pair, as if it were equal to the incumbent: the pairs that it has lost before stay.
func (p *player) duel(ctx context.Context, challenger, incumbent *side, obs *Observed) error {
	var ignored Observed
	var e *ended
	base := &side{name: "base", changes: &surface.Result{OK: true}}
	if err := p.setup(ctx, incumbent, &ignored); errors.As(err, &e) {
		p.line("duel: the incumbent's setup failed, and the base stands in for it: " + e.notes)
		incumbent = base
	} else if err != nil {
		return err
	}
	void, its := 0, 0
	obs.Duel = p.resume.Pairs
	for i := p.resume.Next; i < max(1, p.run.Rival.Pairs); i++ {
		why, mine, err := p.pair(ctx, i, challenger, incumbent, base, obs)
		switch {
		case err != nil && ctx.Err() != nil:
			p.leaveDuel(obs, i)
			return err
		case err != nil:
			return err
		case why == "":
			continue
		}
		// Made again, on the same seed, and not without end: who could make the machine
		// unsteady could else wait for a pair that suits.
		p.line(fmt.Sprintf("duel pair=%d is void: %s", i, why))
		if mine {
			its++
		}
		switch void++; {
		case void <= maxVoid:
		case its == void && incumbent != base:
			p.line("duel: the machine is unsteady while the incumbent runs and at no other time: the base stands in for it")
			incumbent, void, its = base, 0, 0
		default:
			return p.giveUp()
		}
		i--
	}
	return nil
}

// pair plays one pair of a duel. void says why it counts for nobody; "": it counts. mine: it was
// void by what happened while the incumbent ran, and at no other time.
func (p *player) pair(ctx context.Context, i int, challenger, incumbent, base *side, obs *Observed) (void string, mine bool, err error) {
	var ignored Observed
	var e *ended
	pair := DuelPair{Seed: DuelSeed(p.digest, p.run, i), Pair: quorum.Pair{Base: incumbent == base}}
	sides := []*side{challenger, incumbent}
	if i%2 == 1 {
		sides[0], sides[1] = sides[1], sides[0]
	}
	spans := map[bool][]kind.GPUSpan{} // by whether they are the challenger's
	play := func(x *side) (m map[string]float64, err error) {
		span, err := p.span(ctx, false, func() error {
			m, err = p.benchmark(ctx, x, pair.Seed, &ignored)
			return err
		})
		spans[x == challenger] = append(spans[x == challenger], span)
		return m, err
	}
	broken, lost := false, false
	for _, x := range sides {
		m, err := play(x)
		switch {
		case err == nil && x == challenger:
			pair.Challenger, pair.Challenger2 = m[p.t.MetricName], m[p.t.SecondaryMetricName]
		case err == nil:
			pair.Incumbent, pair.Incumbent2 = m[p.t.MetricName], m[p.t.SecondaryMetricName]
		case x == incumbent && errors.As(err, &e):
			broken = true
			p.line(x.name + " gave no number in a duel: " + e.notes)
		case errors.As(err, &e):
			lost = true
			p.line("duel: the challenger gave no number and loses the pair: " + e.notes)
		default:
			return "", false, err
		}
	}
	if broken && incumbent != base {
		m, err := play(base)
		switch {
		case err == nil:
			pair.Incumbent, pair.Incumbent2, pair.Base, broken = m[p.t.MetricName], m[p.t.SecondaryMetricName], true, false
			p.line("duel: the base stands in for the incumbent")
		case !errors.As(err, &e):
			return "", false, err
		}
	}
	if !lost { // who gives no number does not by an unsteady machine
		void = p.void(slices.Concat(spans[true], spans[false]))
		switch {
		case void == "":
		case p.upset(spans[true], spans[false]):
			lost = true
			p.line("duel: the challenger loses the pair: while it ran and at no other time, " + void)
		default:
			return void, p.upset(spans[false], spans[true]), nil
		}
	}
	if pair.Lost = lost; lost {
		pair.Challenger, pair.Challenger2 = pair.Incumbent, pair.Incumbent2
	}
	if !broken {
		obs.Duel = append(obs.Duel, pair)
		p.line(fmt.Sprintf("duel pair=%d seed=%d challenger=%v incumbent=%v", i, pair.Seed, pair.Challenger, pair.Incumbent))
	}
	return "", false, nil
}

// SeedVar is the variable of the benchmark that holds the seed of a replay.
const SeedVar = "AGON_SEED"

// ReplaySeed is the seed of every replay of a submission of a task: validators
// that repeat it get runs of one seed, which nothing that a contestant writes moves.
func ReplaySeed(task agon.Digest, run int64) int64 {
	return seedOf(task, fmt.Sprintf("replay %d", run), 0)
}

// DuelSeed is the seed of both sides of the ith pair of a duel.
func DuelSeed(task agon.Digest, r agon.RunSpec, i int) int64 {
	return seedOf(task, fmt.Sprintf("duel %d %d", r.Seed, r.Rival.Round), i)
}

// seedOf derives a seed that everybody derives alike; it is not negative.
func seedOf(d agon.Digest, what string, i int) int64 {
	h := sha256.Sum256(fmt.Appendf(nil, "agon research seed\n%s\n%s\n%d", d, what, i))
	return int64(binary.BigEndian.Uint64(h[:8]) >> 11) // exact in every language's numbers
}

// side is one contestant of a replay.
type side struct {
	name     string
	changes  *surface.Result
	artifact string // host directory with the file "artifact"; empty: none
	claim    Claim
	layer    *sandbox.Layer   // workspace with the patch, after setup; nil: boxes start from the base
	ran      bool             // setup has run over it
	times    map[string]int64 // when protected files last changed, before setup
}

// side reads an entry and judges its patch, before anything of it runs.
func (p *player) side(ctx context.Context, name, dir string) (*side, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open submission: %w", err)
	}
	defer func() { _ = root.Close() }()
	e, err := ReadEntry(root.FS())
	if errors.Is(err, errEntry) {
		return nil, &ended{agon.OutcomeOK, "invalid_entry", err.Error()}
	}
	if err != nil {
		return nil, err
	}
	x := &side{name: name, changes: &surface.Result{OK: true}, claim: e.Claim}
	if name == "challenger" {
		p.patch = e.Patch // shown even where it is refused below
	}
	if len(e.Patch) > 0 || e.Claim.ArtifactURI == "" {
		if x.changes, err = p.t.CheckPatch(p.base.tree, e.Patch); err != nil {
			return nil, err
		}
		if !x.changes.OK {
			return nil, &ended{agon.OutcomeOK, x.changes.Reasons[0].Code, x.changes.Error()}
		}
		for _, c := range x.changes.Changes {
			p.line("changed_path=" + c.Path)
		}
	}
	return x, p.fetchArtifact(ctx, x)
}

// fetchArtifact brings the file that the entry names onto this host.
func (p *player) fetchArtifact(ctx context.Context, x *side) error {
	c := x.claim
	switch {
	case p.t.Artifact == "required" && c.ArtifactURI == "":
		return &ended{agon.OutcomeOK, "", "the task wants an artifact and the submission names none"}
	case p.t.Artifact == "" || c.ArtifactURI == "":
		if c.ArtifactURI != "" && len(x.changes.Changes) == 0 {
			return &ended{agon.OutcomeOK, surface.CodeEmpty, "the task takes no artifacts and the submission has no patch"}
		}
		return nil
	}
	dir := filepath.Join(p.tmp, "artifact-"+x.name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make artifact directory: %w", err)
	}
	err := artifact.Fetch(ctx, p.k.cfg.Artifacts, c.ArtifactURI, c.ArtifactSHA256, c.ArtifactBytes, p.t.ArtifactMaxBytes, filepath.Join(dir, "artifact"))
	var bad *artifact.Error
	if errors.As(err, &bad) && ctx.Err() == nil {
		return &ended{agon.OutcomeOK, "", bad.Error()}
	}
	if err != nil {
		return err
	}
	p.line(fmt.Sprintf("submission_artifact_sha256=%s submission_artifact_bytes=%d", c.ArtifactSHA256, c.ArtifactBytes))
	x.artifact = dir
	return nil
}

// rival makes the incumbent's side. What is wrong with it is our failure: it
// was accepted before.
func (p *player) rival(ctx context.Context, r *agon.Rival) (*side, error) {
	if r.Submission == "" {
		return &side{name: "incumbent", changes: &surface.Result{OK: true}}, nil
	}
	dir, err := p.env.Tree(ctx, r.Digest)
	if err != nil {
		return nil, err
	}
	x, err := p.side(ctx, "incumbent", dir)
	if err != nil {
		return nil, fmt.Errorf("prepare the incumbent %s: %v", r.Submission, err) //nolint:errorlint // its text only: it rejects nobody
	}
	return x, nil
}

// line appends to the replay's log.
func (p *player) line(s string) { _, _ = p.log.Write([]byte(plain.Short(s, 500) + "\n")) }

func (p *player) redacted() []byte {
	var secrets []string
	for _, v := range p.priv.BenchmarkEnv {
		secrets = append(secrets, v)
	}
	return redact(p.log.bytes(), secrets)
}

// budget is what is left of the task's time for setup and benchmark.
func (p *player) budget(used time.Duration) time.Duration {
	return time.Duration(p.t.TimeBudgetSeconds)*time.Second - used
}
