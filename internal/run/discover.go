package run

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/consensus"
	"github.com/agon-arena/agon/fetch"
	"github.com/agon-arena/agon/incentive"
	kindpack "github.com/agon-arena/agon/kind/pack"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/pack"
	"github.com/agon-arena/agon/validator"
)

// packSoftware is the version of scenarios and harness that payloads carry;
// validators of another major version are not heard.
const packSoftware = "1.0.0"

// discover is `agon validator --discover ledger`: a validator that asks no
// platform. It finds packs by commitments, plays them, publishes what it
// measured, and agrees with the others.
func discover(ctx context.Context, c cli.DiscoverOptions) error {
	o := options(c.Common, c.Driver)
	o.Parallel = c.Boxes
	return runDiscover(ctx, o, c)
}

func runDiscover(ctx context.Context, o Options, c cli.DiscoverOptions) error {
	o.floor()
	f, err := LoadArenaFile(c.ArenaFile, KindNames())
	if err != nil {
		return err
	}
	if f.Kind != kindpack.Name {
		return &agon.Error{Code: "bad_kind", Status: 422, Field: "arena", Message: "only policy-pack arenas can be played without a platform, this is one of kind " + f.Kind}
	}
	store, err := consensus.OpenStore(c.Store, o.Getenv)
	if err != nil {
		return err
	}
	key := c.Key
	at := c.Ledger
	if f.Ledger != "" { // this machine's operator wrote the file
		at = f.Ledger
	}
	place, err := dial.Parse(at)
	if err != nil {
		return err
	}
	l := dial.NewLazy(place, dial.Config{Signer: func(address string) (auth.Signer, error) {
		if address != key.SS58() {
			return nil, fmt.Errorf("no key of %s is here", address)
		}
		return key, nil
	}})
	defer func() {
		if err := l.Close(); err != nil {
			o.Log.Warn("closing the ledger", "err", err)
		}
	}()
	dir := filepath.Join(o.Data, "discover-"+key.SS58())
	e, err := newEvaluator(ctx, o, f, dir)
	if err != nil {
		return err
	}
	defer e.close()
	get := fetch.New(fetch.Config{AllowPrivate: c.AllowPrivate})
	node, err := consensus.NewNode(consensus.NodeConfig{
		Ledger: l, Netuid: f.Netuid, Hotkey: key.SS58(), Store: store, Fetch: get.Get, Evaluate: e.evaluate, Exclude: e.exclude,
		Window: pack.WindowRule{Anchor: c.Anchor, Blocks: c.WindowBlocks}, Software: packSoftware, Dir: dir, MinStake: c.MinStake, MinValidators: c.MinValidators,
		PlainMean: c.PlainMean, Burn: c.Burn, Log: o.Log,
	})
	if err != nil {
		return err
	}
	o.say("validator %s reads the ledger at %s and plays %s without a platform; its state is in %s", key.SS58(), at, f.ID, dir)
	tick := time.NewTicker(c.Poll)
	defer tick.Stop()
	said := ""
	for {
		block, err := l.Block(ctx)
		if err == nil {
			e.epoch.Store(pack.WindowRule{Anchor: c.Anchor, Blocks: c.WindowBlocks}.At(int64(block)).Number)
			err = node.Step(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			o.Log.Warn("a step of the validator", "err", err)
		}
		if s := node.Status(); s.Agreed >= 0 {
			if line := fmt.Sprintf("window %d: winner %s at $%.6f, %s", s.Agreed, s.Winner, s.Cost, s.Filter); line != said {
				o.say("%s", line)
				said = line
			}
		} else if s.Fault != "" && said != string(s.Fault) {
			o.say("nothing is judged: fault %s: %s", s.Fault, s.Reason)
			said = string(s.Fault)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// evaluator plays packs by the validator's own player.
type evaluator struct {
	arena  agon.Arena
	player *player
	blobs  blob.Store
	epoch  atomic.Int64
	n      int
}

func newEvaluator(ctx context.Context, o Options, f ArenaFile, dir string) (*evaluator, error) {
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &evaluator{arena: f.Arena()}
	if e.blobs, err = blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{}); err != nil {
		return nil, err
	}
	if e.arena.Tasks, err = arenaTasks(ctx, o, f, e.blobs, filepath.Join(dir, "tmp")); err != nil {
		return nil, err
	}
	c := packConfig(parts{o: o, rootfs: root, model: o.Getenv("AGON_LLM_MODEL"), keyed: o.Getenv("AGON_LLM_BASE_URL") != ""})
	// For whom the agent works changes with the window, and is the same for all.
	c.Context = func(agon.RunSpec) pack.Context { return pack.NewContext(pack.EpochSeed(int(f.Netuid), e.epoch.Load())) }
	ks := kinds(o, root)
	ks[kindpack.Name] = kindpack.New(c)
	if e.player, err = newPlayer(ctx, o, d, root, ks, e.blobs, filepath.Join(dir, "trees")); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *evaluator) close() { e.player.close() }

// exclude says what needs no play: plain signs of gaming.
func (e *evaluator) exclude(p *pack.Pack) string {
	if kindpack.Refuses(kindpack.Signs(p)) {
		return kindpack.CodeIntegrity
	}
	return ""
}

// evaluate plays scenarios, the hardest first, until one does not qualify.
func (e *evaluator) evaluate(ctx context.Context, hotkey string, p *pack.Pack) (consensus.Evaluation, error) {
	digest, err := blob.PutFiles(ctx, e.blobs, []blob.File{{Path: kindpack.File, Content: p.Value.Plain()}}, blob.TreeLimits{})
	if err != nil {
		return consensus.Evaluation{}, err
	}
	sub := agon.Submission{ID: p.Hash, Arena: e.arena.ID, Miner: hotkey, Name: p.Hash[:8], Digest: digest}
	out := consensus.Evaluation{Qualified: true}
	played := 0
	for _, t := range e.arena.Tasks {
		e.n++
		att := e.player.Play(ctx, validator.Job{
			Run:     agon.RunSpec{Run: fmt.Sprintf("%s-%d-%d", p.Hash[:16], time.Now().UnixNano(), e.n), Arena: e.arena.ID, Tasks: []agon.TaskRef{t}, Policy: e.arena.Policy},
			Attempt: 1, Arena: e.arena, Submission: sub,
		})
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case att.Fault == agon.FaultProvider:
			return out, fmt.Errorf("%w: %s", consensus.ErrProvider, att.Reason)
		case att.Fault.Ours():
			return out, fmt.Errorf("play %s: fault %s: %s", t.Key, att.Fault, att.Reason)
		}
		for _, s := range att.Scores {
			if cost, ok := s.Metrics[incentive.CostMetric]; ok {
				out.Cost += cost / 1e6
				played++
			}
			if v, ok := s.Metrics[kindpack.MetricIntegrity]; ok && v == 0 {
				return consensus.Evaluation{Reason: kindpack.CodeIntegrity}, nil
			}
			out.Qualified = out.Qualified && s.Solved
		}
		if !out.Qualified {
			break
		}
	}
	if played > 0 {
		out.Cost /= float64(played)
	}
	if out.Cost <= 0 {
		out.Qualified = false // a cost that nobody measured is no win
	}
	return out, nil
}
