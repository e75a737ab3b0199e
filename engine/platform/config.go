package platform

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
)

// Ledger is what the platform asks of a ledger. Answers may lag the chain by a
// block; the platform does not cache them.
type Ledger interface {
	// Registered returns the coldkey of a registered hotkey.
	Registered(ctx context.Context, netuid uint16, hotkey string) (coldkey string, ok bool, err error)
	// IsValidator reports whether the hotkey holds a validator permit.
	IsValidator(ctx context.Context, netuid uint16, hotkey string) (bool, error)
	// Metagraph returns neurons and weights.
	Metagraph(ctx context.Context, netuid uint16) (*client.Metagraph, error)
}

// Burner is a Ledger of Config.Ledgers that knows who gets what is burned there.
type Burner interface {
	// OwnerUID is the uid of the subnet owner's hotkey; ok is false where it is not registered.
	OwnerUID(ctx context.Context, netuid uint16) (uid uint16, ok bool, err error)
}

// ledgerOf is the ledger that an arena is on.
func (p *Platform) ledgerOf(a agon.Arena) Ledger {
	if a.Ledger == "" || p.cfg.Ledgers == nil {
		return p.cfg.Ledger
	}
	return p.cfg.Ledgers(a.Ledger)
}

// ownerUID is who gets what is burned on an arena's subnet.
func (p *Platform) ownerUID(ctx context.Context, a agon.Arena) (uint16, bool, error) {
	if b, ok := p.ledgerOf(a).(Burner); ok {
		return b.OwnerUID(ctx, a.Netuid)
	}
	if p.cfg.OwnerUID != nil {
		return p.cfg.OwnerUID(ctx, a.Netuid)
	}
	return 0, true, nil
}

// Config configures a Platform. Store, Blobs, Kinds, Ledger and Incentives are
// needed; a zero value elsewhere means the default named.
type Config struct {
	// Protocols are the versions of the protocol that validators may speak; nil: those of this agon.
	Protocols *client.Protocols
	Store     *store.Store
	Blobs     blob.Store
	Kinds     map[string]kind.Kind
	Ledger    Ledger
	// Ledgers returns the ledger that an arena names (agon.Arena.Ledger, not
	// empty); nil: all arenas are on Ledger.
	Ledgers func(name string) Ledger
	// Incentives maps agon.Arena.Incentive to its rule.
	Incentives map[string]incentive.Rule
	// OwnerUID names who gets what is burned, such as the weight of an arena where
	// nobody sits; ok is false where the owner is not registered. nil means uid 0.
	OwnerUID func(ctx context.Context, netuid uint16) (uid uint16, ok bool, err error)

	// Commons are what kinds give away, templates and samples: what stands there
	// makes nobody a copy.
	Commons Commons

	// Coordinators maps the name of a kind to what keeps books of its own beside
	// the engine's. Most kinds have none.
	Coordinators map[string]Coordinator

	// Agreement is what validators without a platform say of an arena, for its
	// board; nil, or nil from it: there are none here.
	Agreement func(arena string) *client.Agreement

	// Gauged are the calibrations of judges on record, one for each judge; nil: none
	// are. It is asked within transactions and must not wait.
	Gauged func() ([]judge.Record, error)

	// Disk returns what is left of the disk of the data directory and its size, in bytes; nil: not known.
	Disk func() (free, total int64, err error)

	// Rounds are drand's, for arenas whose sets are drawn by it; nil: there are none.
	Rounds Rounds

	// Draw returns a number in [0, 1): below an arena's share, a result is judged
	// again. Nobody may know it before; nil: the system's randomness.
	Draw func() float64

	Now func() time.Time // time.Now
	Log *slog.Logger     // slog.Default()

	Lease     time.Duration // how long a lease lives without a heartbeat; 60 s
	Heartbeat time.Duration // how often holders should send one; Lease / 6
	QueueFor  time.Duration // how long a run may wait for a validator; 24 h
	// ProviderWaits are how long a run waits in the queue after the first, second … of its
	// attempts that a model's provider failed, and after all later ones; none: not at all.
	ProviderWaits []time.Duration

	MaxHold    time.Duration // least bound of one attempt, heartbeats or not; 1 h
	AnswerFor  time.Duration // how long the operator has to answer an appeal, which is granted then; 72 h
	SeenFor    time.Duration // how long a silent validator still counts as serving an arena; 90 s
	SweepEvery time.Duration // 500 ms

	MaxFileBytes   int64 // one submitted file; 2 MiB
	MaxSubmitBytes int64 // a submission; 8 MiB
	MaxFiles       int   // of a submission; 64
	MaxBlobBytes   int64 // PutBlob; 32 MiB
	UploadPerDay   int64 // bytes that one validator may store by PutBlob on a day (UTC); 32 GiB
	MaxEventBytes  int64 // data of one event; 1 MiB
	MaxEvents      int64 // of one attempt; 50,000
	MaxLogBytes    int64 // event data of one attempt; 64 MiB
	MaxRuns        int   // of one submission; 10,000
}

// FixedWeight is a weight for a uid, or for the hotkey if there is one.
type FixedWeight struct {
	UID    uint16
	Hotkey string
	Weight float64 // above 0, of any scale
}

func (c *Config) fill() error {
	if c.Store == nil || c.Blobs == nil || c.Kinds == nil || c.Ledger == nil || c.Incentives == nil {
		return errors.New("platform config: Store, Blobs, Kinds, Ledger and Incentives are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	setDefault(&c.Lease, time.Minute)
	setDefault(&c.Heartbeat, c.Lease/6)
	setDefault(&c.QueueFor, 24*time.Hour)
	setDefault(&c.MaxHold, time.Hour)
	setDefault(&c.AnswerFor, 72*time.Hour)
	setDefault(&c.SeenFor, 90*time.Second)
	setDefault(&c.SweepEvery, 500*time.Millisecond)
	setDefault(&c.MaxFileBytes, 2<<20)
	setDefault(&c.MaxSubmitBytes, 8<<20)
	setDefault(&c.MaxFiles, 64)
	setDefault(&c.MaxBlobBytes, 32<<20)
	setDefault(&c.UploadPerDay, 32<<30)
	setDefault(&c.MaxEventBytes, 1<<20)
	setDefault(&c.MaxEvents, 50_000)
	setDefault(&c.MaxLogBytes, 64<<20)
	setDefault(&c.MaxRuns, 10_000)
	if c.Heartbeat >= c.Lease {
		return fmt.Errorf("platform config: Heartbeat %s must be shorter than Lease %s", c.Heartbeat, c.Lease)
	}
	return nil
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Platform implements API on a store. Safe for concurrent use.
type Platform struct {
	cfg     Config
	hub     hub     // those who wait for changes of a run
	waiters waiters // those who wait for work
	judges  waiters // those who wait for results to judge again
	seen    seen    // when each validator last served an arena
	turns   turns   // whose turn it is among arenas
	known   known   // what is known of validators
	permits permits // who lately held a validator permit
	uploads uploads // what validators have stored today
	nonces  recentNonces

	statements gateway.Checker // of gateways' closing statements
	// busy says that the last look for work found some: the next claim looks at
	// once, without asking first whether that is worth a turn at the writer.
	busy atomic.Bool

	embargoes atomic.Bool // an arena has an embargo
	clusters  clusters    // what is like what
	deeds     deeds       // what agents did
	gauges    gauges      // of the judges, as decisions last saw them
	entering  locks       // by arena: held from a look at others until the submission is stored

	history History // the transparency log; nil: there is none
	sets    supplies

	draining chan struct{} // closed by Drain
	drain    func()

	started time.Time // attempts not heard from since are the platform's loss

	mu        sync.Mutex
	stop      context.CancelFunc // of the sweeper; nil while it does not run
	done      chan struct{}
	retryNews time.Time // when waiters were last told of retried runs
}

// New returns a platform. Nothing moves on its own until Start.
func New(cfg Config) (*Platform, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if cfg.Protocols == nil {
		spoken := client.Spoken()
		cfg.Protocols = &spoken
	}
	p := &Platform{cfg: cfg, started: cfg.Now(), draining: make(chan struct{})}
	p.drain = sync.OnceFunc(func() { close(p.draining) })
	return p, nil
}

// Start gives leases of an earlier process time to be heard of, and starts the
// sweeper. Calling it again changes nothing.
func (p *Platform) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		return nil
	}
	if err := p.renewLeases(ctx, p.started); err != nil {
		return err
	}
	if err := p.findEmbargoes(ctx); err != nil {
		return err
	}
	if err := p.findOpened(ctx); err != nil {
		return err
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done = make(chan struct{})
	go p.sweepLoop(ctx, p.done)
	return nil
}

// Stop ends the sweeper and waits for it. Calling it again changes nothing.
func (p *Platform) Stop() {
	p.mu.Lock()
	stop, done := p.stop, p.done
	p.stop = nil
	p.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-done
	p.hub.close()
}

func (p *Platform) now() time.Time { return p.cfg.Now().UTC().Truncate(time.Microsecond) }

// PolicyDigest names a policy; it is part of a score's key.
func PolicyDigest(pol agon.Policy) (agon.Digest, error) {
	b, err := json.Marshal(pol)
	if err != nil {
		return "", fmt.Errorf("encode policy: %w", err)
	}
	return agon.Sum(b), nil
}

// PlayedPolicy names a policy and the box driver that a run was played with: its
// name, version and what it enforced, because scores compare within one driver.
func PlayedPolicy(policy agon.Digest, d agon.Driver) (agon.Digest, error) {
	played := []any{"agon-played-v1", policy, d.Name, d.Version, slices.Sorted(slices.Values(d.Limits))}
	if len(d.Images) > 0 { // a reference may name several machines' images: these were played on
		played = append(played, slices.Sorted(slices.Values(d.Images)))
	}
	b, err := json.Marshal(played)
	if err != nil {
		return "", fmt.Errorf("encode driver: %w", err)
	}
	return agon.Sum(b), nil
}

// ScoreKey names what a score depends on; policy is from PlayedPolicy.
func ScoreKey(submission, task agon.Digest, scorer string, policy agon.Digest, seed int64) (agon.Digest, error) {
	b, err := json.Marshal([]any{"agon-score-v1", submission, task, scorer, policy, seed})
	if err != nil {
		return "", fmt.Errorf("encode score key: %w", err)
	}
	return agon.Sum(b), nil
}

// refuse makes the coded error of a rule that said no.
func refuse(status int, code, format string, args ...any) *agon.Error {
	return &agon.Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// badField refuses a field of a request with code bad_FIELD.
func badField(field, format string, args ...any) *agon.Error {
	e := refuse(422, "bad_"+field, format, args...)
	e.Field = field
	return e
}

func notFound(what, id string) *agon.Error {
	return refuse(404, "not_found", "no %s %q", what, cut(id, 80))
}

// noArena is found for arenas: it says which one may be meant.
func noArena(tx *store.Tx, err error, id string) error {
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	e := notFound("arena", id)
	e.Mend = "list them: agon arena list"
	list, lerr := tx.Arenas()
	if lerr != nil {
		return e
	}
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.ID
	}
	if near := plain.Near(id, names); near != "" {
		e.Mend = "did you mean " + near + "?"
	}
	return e
}

// found turns the store's ErrNotFound into a 404.
func found(err error, what, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return notFound(what, id)
	}
	return err
}

// token returns n random bytes in hex.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}
