package platform

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/teststore"
)

const (
	miner1, miner2 = "miner-1", "miner-2"
	val1, val2     = "validator-1", "validator-2"
	val3           = "validator-3"
	operator       = "operator"
	netuid         = 7
)

var bg = context.Background()

// clock is a settable time. Safe for concurrent use.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// fakeLedger knows miners 1..n with a coldkey each and three validators.
type fakeLedger struct {
	mu      sync.Mutex
	coldkey map[string]string
	down    bool
	weights []agon.Weight
}

func newLedger() *fakeLedger {
	return &fakeLedger{coldkey: map[string]string{miner1: "cold-1", miner2: "cold-2", val1: "cold-v1", val2: "cold-v2", val3: "cold-v3"}}
}

func (l *fakeLedger) Registered(_ context.Context, n uint16, hotkey string) (string, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return "", false, errors.New("no connection")
	}
	c, ok := l.coldkey[hotkey]
	return c, ok && n == netuid, nil
}

func (l *fakeLedger) IsValidator(_ context.Context, n uint16, hotkey string) (bool, error) {
	return n == netuid && (hotkey == val1 || hotkey == val2 || hotkey == val3), nil
}

func (l *fakeLedger) Metagraph(_ context.Context, n uint16) (*client.Metagraph, error) {
	return &client.Metagraph{Netuid: n, Weights: l.weights, Neurons: []client.Neuron{
		{UID: 0, Hotkey: "owner"}, {UID: 3, Hotkey: miner1}, {UID: 4, Hotkey: miner2},
	}}, nil
}

// fakeKind plays every task once for each replica.
type fakeKind struct {
	kind.Kind
	replicas int
}

func (k *fakeKind) Name() string   { return "fake" }
func (k *fakeKind) Scorer() string { return "fake-1" }

// Prints implements kind.Printed.
func (k *fakeKind) Prints(path string) bool { return strings.HasSuffix(path, "printed") }

func (k *fakeKind) Check(_ context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	b, err := fs.ReadFile(files, "agent.py")
	if err != nil {
		return []agon.Finding{{Code: "no_agent", Field: "agent.py", Message: "no agent.py"}}, nil //nolint:nilerror // the finding tells
	}
	if string(b) == "async" {
		return []agon.Finding{{Code: "style", Message: "odd", Warning: true}, {Code: "async", Field: "agent.py", Message: "agent_main is async"}}, nil
	}
	return []agon.Finding{{Code: "style", Message: "odd", Warning: true}}, nil
}

func (k *fakeKind) Plan(v agon.View) (agon.Plan, error) {
	if len(v.Runs) > 0 {
		return agon.Plan{Done: true}, nil
	}
	var p agon.Plan
	for rep := range max(k.replicas, 1) {
		for _, t := range v.Arena.Tasks {
			p.Runs = append(p.Runs, agon.RunSpec{Tasks: []agon.TaskRef{t}, Replica: rep, Policy: v.Arena.Policy})
		}
	}
	return p, nil
}

// podiumRule names the rule podium, as arenas and as decisions name it.
const (
	podiumRule    = "podium"
	podiumVerdict = "test.podium"
)

// podium is a rule with several seats, numbers and a margin: who scores more
// than the first and the margin comes first, and the last of three leaves.
func podium() incentive.Rule {
	const places = 3
	shares := func(n map[string]float64) []float64 { return []float64{n["share_1"], n["share_2"], n["share_3"]} }
	return incentive.Rule{
		Numbers: map[string]float64{"margin": 0, "share_1": 0.6, "share_2": 0.3, "share_3": 0.1},
		Check: func(n map[string]float64) error {
			sum := 0.0
			for _, s := range shares(n) {
				sum += s
			}
			if n["margin"] < 0 || sum > 1+1e-9 {
				return errors.New("margin is negative, or the shares sum to more than 1")
			}
			return nil
		},
		Decide: func(c incentive.Challenge) incentive.Verdict {
			v := incentive.Verdict{Rule: podiumVerdict, Takes: true}
			if first := c.First(); first != nil {
				bar := *first + c.Numbers["margin"]
				v.Bar, v.Takes = &bar, c.Challenger.Score > bar
			}
			return v
		},
		Seats: func(_ map[string]float64, entered []incentive.Entry) (out []incentive.Entry) {
			for _, e := range slices.Backward(entered) {
				same := func(o incentive.Entry) bool { return o.Miner == e.Miner || o.Submission == e.Submission }
				if len(out) < places && !slices.ContainsFunc(out, same) {
					out = append(out, e)
				}
			}
			return out
		},
		Shares: func(n map[string]float64, seats []incentive.Entry, _ time.Time) []float64 {
			return shares(n)[:len(seats)]
		},
	}
}

// scriptKind is a kind of Python scripts that knows copies whose bytes differ,
// and that plays many tasks in one run.
type scriptKind struct{ fakeKind }

// tasksPerRun is how many tasks a run of scriptKind has.
const tasksPerRun = 24

func (k *scriptKind) Name() string { return "script" }

func (k *scriptKind) Check(_ context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	b, err := fs.ReadFile(files, "agent.py")
	if err != nil {
		return nil, err
	}
	if err := copycat.CheckPython(string(b)); err != nil {
		return []agon.Finding{{Code: "syntax", Field: "agent.py", Message: err.Error()}}, nil
	}
	return nil, nil
}

// Structure implements kind.Copier.
func (k *scriptKind) Structure(files fs.FS) (string, error) {
	b, err := fs.ReadFile(files, "agent.py")
	if err != nil {
		return "", err
	}
	return copycat.StructureHash(string(b))
}

func (k *scriptKind) Plan(v agon.View) (agon.Plan, error) {
	if len(v.Runs) > 0 {
		return agon.Plan{Done: true}, nil
	}
	var p agon.Plan
	for batch := range slices.Chunk(v.Arena.Tasks, tasksPerRun) {
		p.Runs = append(p.Runs, agon.RunSpec{Arena: v.Arena.ID, Tasks: batch, Policy: v.Arena.Policy})
	}
	return p, nil
}

type fixture struct {
	*Platform
	t      testing.TB
	clock  *clock
	ledger *fakeLedger
	kind   *fakeKind
	dir    string
	arena  agon.Arena
}

// newFixture makes a platform with one arena of n tasks; the last is hidden if hidden is set.
func newFixture(t testing.TB, tasks int, change ...func(*Config, *agon.Arena)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: newClock(), ledger: newLedger(), kind: &fakeKind{}, dir: t.TempDir()}
	blobs, err := blobfs.Open(filepath.Join(f.dir, "blobs"), blobfs.Options{})
	must(t, err)
	f.arena = agon.Arena{ID: "demo", Kind: "fake", Netuid: netuid, Licence: "MIT", Incentive: "winner_takes_all", Attempts: 2, Evidence: agon.EvidenceForeign, UnjudgedSeats: true}
	for i := range tasks {
		key := fmt.Sprintf("small/t%d", i)
		d, err := blob.PutFiles(bg, blobs, []blob.File{{Path: "task.toml", Content: []byte(key)}}, blob.TreeLimits{})
		must(t, err)
		f.arena.Tasks = append(f.arena.Tasks, agon.TaskRef{Key: key, Digest: d})
	}
	f.open(blobs, change...)
	must(t, f.EnsureArena(bg, f.arena))
	return f
}

// open opens the store of the fixture's folder, as a start of the program would.
func (f *fixture) open(blobs blob.Store, change ...func(*Config, *agon.Arena)) {
	f.t.Helper()
	s := teststore.Open(f.t, f.dir)
	f.t.Cleanup(func() { s.Close() })
	cfg := Config{
		Store: s, Blobs: blobs, Kinds: map[string]kind.Kind{"fake": f.kind}, Ledger: f.ledger,
		Now: f.clock.Now,
		Incentives: map[string]incentive.Rule{
			incentive.WinnerTakesAllRule: incentive.WinnerTakesAll(), podiumRule: podium(),
		},
	}
	for _, c := range change {
		c(&cfg, &f.arena)
	}
	p, err := New(cfg)
	must(f.t, err)
	f.Platform = p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func request(content string) client.SubmitRequest {
	return client.SubmitRequest{Name: "agent", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte(content)}}}
}

func (f *fixture) submit(miner, content string) *client.Submission {
	f.t.Helper()
	s, err := f.Submit(bg, Caller{Hotkey: miner}, "demo", request(content))
	must(f.t, err)
	return s
}

func (f *fixture) claim(validator string) *client.Lease {
	f.t.Helper()
	l, err := f.Claim(bg, Caller{Hotkey: validator}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"})
	must(f.t, err)
	return l
}

func scored(l *client.Lease, value float64) client.Result {
	r := client.Result{Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "runc"}, Cost: 10, BoxMS: 5}
	for _, t := range l.Run.Tasks {
		r.Scores = append(r.Scores, agon.Score{Task: t.Key, Value: value, Solved: value > 0, Scorer: "fake-1"})
	}
	return r
}

func (f *fixture) result(validator string, l *client.Lease, r client.Result) *client.ResultReply {
	f.t.Helper()
	reply, err := f.Platform.Result(bg, Caller{Hotkey: validator}, l.ID, r)
	must(f.t, err)
	return reply
}

// playAll claims and scores until the queue is empty.
func (f *fixture) playAll(validator string, value func(l *client.Lease) float64) {
	f.t.Helper()
	for {
		l := f.claim(validator)
		if l == nil {
			return
		}
		f.result(validator, l, scored(l, value(l)))
	}
}

// wantCode checks the code and status of an *agon.Error.
func wantCode(t testing.TB, err error, status int, code string) *agon.Error {
	t.Helper()
	var e *agon.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %d %s", err, status, code)
	}
	if e.Status != status || e.Code != code {
		t.Fatalf("got %d %s (%s), want %d %s", e.Status, e.Code, e.Message, status, code)
	}
	return e
}

func (f *fixture) read(fn func(tx *store.Tx) error) {
	f.t.Helper()
	must(f.t, f.cfg.Store.Read(bg, fn))
}
