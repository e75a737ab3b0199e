package pack

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/cost"
	"github.com/agon-arena/agon/kinds/pack/ncd"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/sandbox"
)

// PackSoftware is the version of scenarios and harness that payloads carry;
// validators of another major version are not heard.
const PackSoftware = "1.0.0"

// Discover is `agon validator --discover ledger`: a validator that asks no
// platform. It finds packs by commitments, plays them, publishes what it
// measured, and agrees with the others.
func Discover(ctx context.Context, kits kit.List, c commands.DiscoverOptions) error {
	o := kits.Options(c.Common, c.Driver)
	o.Parallel = c.Boxes
	return RunDiscover(ctx, o, c)
}

func RunDiscover(ctx context.Context, o kit.Options, c commands.DiscoverOptions) error {
	f, err := kit.LoadArenaFile(c.ArenaFile, o.Kits)
	if err != nil {
		return err
	}
	if f.Kind != kindpack.Name {
		return &agon.Error{Code: "bad_kind", Status: 422, Field: "arena", Message: "only policy-pack arenas can be played without a platform, this is one of kind " + f.Kind}
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return err
	}
	v, err := openAlone(ctx, o, d, root, f, c, nil)
	if err != nil {
		return err
	}
	defer v.close()
	o.Sayf("validator %s reads the ledger at %s and plays %s without a platform; its state is in %s", c.Key.SS58(), v.at, f.ID, v.dir)
	tick := time.NewTicker(c.Poll)
	defer tick.Stop()
	said := ""
	for {
		err := v.step(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			o.Log.Warn("a step of the validator", "err", err)
		}
		if s := v.node.Status(); s.Agreed >= 0 {
			if line := fmt.Sprintf("window %d: winner %s at $%.6f, %s", s.Agreed, s.Winner, s.Cost, s.Filter); line != said {
				o.Sayf("%s", line)
				said = line
			}
		} else if s.Fault != "" && said != string(s.Fault) {
			o.Sayf("nothing is judged: fault %s: %s", s.Fault, s.Reason)
			said = string(s.Fault)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// alone is one validator that asks no platform.
type alone struct {
	node   *consensus.Node
	eval   *evaluator
	ledger ledger.Ledger
	kept   *keeper.Kept // ledger, with the promises that a subnet may want
	clock  func(block int64) packfile.Window
	at     string // where the ledger is
	dir    string
	close  func()
	report *consensus.Reporter // nil: nobody is told
	log    strings.Builder     // of the cycle, a line for each pack
}

// openAlone makes a validator of c's key that plays f's arena. more changes
// what its node is made of.
func openAlone(ctx context.Context, o kit.Options, d sandbox.Driver, root string, f kit.ArenaFile, c commands.DiscoverOptions, more func(*consensus.NodeConfig)) (_ *alone, err error) {
	store, err := consensus.OpenStore(c.Store, o.Getenv, c.Key, time.Now)
	if err != nil {
		return nil, err
	}
	key := c.Key
	at := c.Ledger
	if f.Ledger != "" { // this machine's operator wrote the file
		at = f.Ledger
	}
	place, err := dial.Parse(at)
	if err != nil {
		return nil, err
	}
	l := dial.NewLazy(place, dial.Config{Over: o.Over, Signer: func(address string) (auth.Signer, error) {
		if address != key.SS58() {
			return nil, fmt.Errorf("no key of %s is here", address)
		}
		return key, nil
	}})
	v := &alone{ledger: l, at: at, dir: filepath.Join(o.Data, "discover-"+key.SS58())}
	v.close = func() {
		if v.report != nil {
			v.report.Close()
		}
		if v.eval != nil {
			v.eval.close()
		}
		if err := l.Close(); err != nil {
			o.Log.Warn("closing the ledger", "err", err)
		}
	}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if v.eval, err = newEvaluator(ctx, o, d, root, f, v.dir); err != nil {
		return nil, err
	}
	if f.Mechanism > 0 {
		return nil, &agon.Error{Code: "bad_arena_file", Status: 422, Field: "mechanism", Message: fmt.Sprintf("mechanism %d: validators without a platform give weights on mechanism 0 alone", f.Mechanism)}
	}
	if v.kept, err = keeper.NewKept(l, f.Netuid, key.SS58(), filepath.Join(v.dir, "promises.json")); err != nil {
		return nil, err
	}
	window := packfile.WindowRule{Anchor: c.Anchor, Blocks: c.WindowBlocks}
	conf := consensus.NodeConfig{
		FetchPayload: fetch.New(fetch.Config{AllowPrivate: c.AllowPrivate, MaxBytes: consensus.MaxPayload}).Get,
		Ledger:       v.kept, Netuid: f.Netuid, Hotkey: key.SS58(), VersionKey: max(f.WeightsVersion, agon.DefaultWeightsVersion), Store: store, Fetch: fetch.New(fetch.Config{AllowPrivate: c.AllowPrivate}).Get, Evaluate: v.eval.evaluate,
		Near: v.eval.near(), Exclude: v.eval.exclude, Window: window, Clock: window.At, Software: PackSoftware, Dir: v.dir, MinStake: c.MinStake, MinValidators: c.MinValidators, PlainMean: c.PlainMean,
		Sealed: sealed(f),
		Burn:   c.Burn, Tasks: v.eval.tasks(), Spec: v.eval.spec(), CacheTTL: c.CacheTTL, Bootstrap: c.Bootstrap || f.Options[kindpack.OptionBootstrap] == "on", Schema: kindpack.Schema(&v.eval.arena), Blacklist: c.Blacklist, Log: o.Log,
	}
	if c.Report != "" {
		model := o.Getenv("AGON_LLM_MODEL")
		if v.eval.scripted {
			model = scripted.Name
		}
		if v.report, err = consensus.NewReporter(consensus.ReporterConfig{URL: c.Report, Signer: key, Dir: filepath.Join(v.dir, "logs"), Version: PackSoftware, Model: model, Log: o.Log}); err != nil {
			return nil, err
		}
		conf.Admit = v.report.Admit
		conf.Told = func(x consensus.Report) {
			v.report.Tell(x)
			fmt.Fprintf(&v.log, "%s window=%d block=%d miner=%s pack=%s qualified=%t cost=%.6f %s %s\n", time.Now().UTC().Format(time.RFC3339), x.Window, x.Block, x.Miner, x.Hash, x.Evaluation.Qualified, x.Evaluation.Cost, x.Stage, x.Detail) //nolint:forbidigo // a line of a log, or an id of a rehearsal
		}
	}
	if more != nil {
		more(&conf)
	}
	v.clock = conf.Clock
	if v.node, err = consensus.NewNode(conf); err != nil {
		return nil, err
	}
	return v, nil
}

// step does what the present block asks for.
func (v *alone) step(ctx context.Context) error {
	block, err := v.ledger.Block(ctx)
	if err != nil {
		return err
	}
	v.eval.epoch.Store(v.clock(int64(block)).Number)
	err = errors.Join(v.node.Step(ctx), v.kept.Keep(ctx))
	if v.report != nil {
		s := v.node.Status()
		v.report.Beat(s.LastEval, s.LastWeights)
		if v.log.Len() > 0 {
			fmt.Fprintf(&v.log, "%s\n", s.Filter)
			v.report.Cycle(s.Window.Number, s.Block, []byte(v.log.String()))
			v.log.Reset()
		}
	}
	return err
}

// evaluator plays packs by the validator's own player.
type evaluator struct {
	arena  agon.Arena
	player *kit.Player
	blobs  blob.Store
	scorer string
	// scripted says that no model answers but a script.
	scripted bool
	epoch    atomic.Int64
	n        int
}

func newEvaluator(ctx context.Context, o kit.Options, d sandbox.Driver, root string, f kit.ArenaFile, dir string) (_ *evaluator, err error) {
	if f.Supply != nil {
		return nil, &agon.Error{
			Code: "bad_arena_file", Status: 422, Field: "supply", Message: "the arena " + f.ID + " has its sets drawn by a platform, whose secret nobody knows here: validators without a platform would play other tasks than its entries are decided on",
			Mend: "name the scenarios in sets, and leave [supply] out of this file",
		}
	}
	e := &evaluator{arena: f.Arena(), scripted: o.Getenv("AGON_LLM_BASE_URL") == ""}
	if e.blobs, err = blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{}); err != nil {
		return nil, err
	}
	if e.arena.Tasks, err = kit.ArenaTasks(ctx, o, f, e.blobs, filepath.Join(dir, "tmp")); err != nil {
		return nil, err
	}
	if f.Only != "" {
		e.arena.Tasks = slices.DeleteFunc(e.arena.Tasks, func(t agon.TaskRef) bool { return !strings.HasSuffix(t.Key, "/"+f.Only) })
	}
	c := packConfig(o.Parts(root))
	// For whom the agent works changes with the window, and is the same for all.
	c.Context = func(agon.RunSpec) packfile.Context {
		return packfile.NewContext(packfile.EpochSeed(int(f.Netuid), e.epoch.Load()))
	}
	ks := o.Kinds(root)
	k := kindpack.New(c)
	ks[kindpack.Name], e.scorer = k, k.Scorer()
	if e.player, err = kit.NewPlayer(ctx, o, d, root, ks, e.blobs, filepath.Join(dir, "trees")); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *evaluator) close() { e.player.Close() }

// tasks names what is played and how it is judged.
func (e *evaluator) tasks() string {
	var b strings.Builder
	for _, t := range e.arena.Tasks {
		fmt.Fprintln(&b, t.Key, t.Digest)
	}
	fmt.Fprintln(&b, e.scorer, PackSoftware, e.arena.Policy.Models)
	return string(agon.Sum([]byte(b.String())))
}

// spec is a number of the scenarios alone, from 1: validators whose scenarios are
// the same have the same.
func (e *evaluator) spec() int64 {
	var b strings.Builder
	for _, t := range e.arena.Tasks {
		fmt.Fprintln(&b, t.Key, t.Digest)
	}
	h := sha256.Sum256([]byte(b.String()))
	return int64(binary.BigEndian.Uint32(h[:4])>>1) + 1
}

// exclude says what needs no play: plain signs of gaming.
func (e *evaluator) exclude(p *packfile.Pack) string {
	if kindpack.Refuses(kindpack.Signs(p)) {
		return kindpack.CodeIntegrity
	}
	return ""
}

// near finds copies by the stricter measures, where the arena wants them; nil: it does not.
func (e *evaluator) near() func(earlier, later *packfile.Pack) string {
	if e.arena.Options[kindpack.OptionCopies] != kindpack.CopiesStrict {
		return nil
	}
	return func(earlier, later *packfile.Pack) string {
		k := ncd.NewComparer()
		defer k.Close()
		why, _ := kindpack.StrictCopy(k, earlier, later)
		if why == "" {
			return ""
		}
		return "near_copy: by the stricter measures: " + why
	}
}

// evaluate plays scenarios, the hardest first, until one does not qualify.
func (e *evaluator) evaluate(ctx context.Context, hotkey string, p *packfile.Pack) (consensus.Evaluation, error) {
	digest, err := blob.PutFiles(ctx, e.blobs, []blob.File{{Path: kindpack.File, Content: p.Value.Plain()}}, blob.TreeLimits{})
	if err != nil {
		return consensus.Evaluation{}, err
	}
	sub := agon.Submission{ID: p.Hash, Arena: e.arena.ID, Miner: hotkey, Name: p.Hash[:8], Digest: digest}
	out := consensus.Evaluation{Qualified: true, Logs: map[string][]byte{}}
	played := 0
	for _, t := range e.arena.Tasks {
		e.n++
		att := e.player.Play(ctx, validator.Job{
			Run:     agon.RunSpec{Run: fmt.Sprintf("%s-%d-%d", p.Hash[:16], time.Now().UnixNano(), e.n), Arena: e.arena.ID, Tasks: []agon.TaskRef{t}, Policy: e.arena.Policy}, //nolint:forbidigo // a line of a log, or an id of a rehearsal
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
		name := strings.ReplaceAll(t.Key[strings.LastIndexByte(t.Key, '/')+1:], "-", "_")
		for from, to := range map[string]string{kindpack.FileCalls: "_calls.jsonl", kindpack.FileRequests: "_all_requests.jsonl", kindpack.FileConversation: "_conversation.jsonl"} {
			if b := att.Files[from]; b != nil {
				out.Logs[name+to] = b
			}
		}
		out.Logs["miner.log"] = append(out.Logs["miner.log"], att.Files[kindpack.FileLog]...)
		for _, s := range att.Scores {
			out.Scenarios = append(out.Scenarios, consensus.Scenario{Name: name, Cost: s.Metrics[cost.Metric] / 1e6, Score: s.Value, Weight: max(s.Metrics[kindpack.MetricWeight], 0.001), Qualified: s.Solved})
			out.Logs["validator.log"] = fmt.Appendf(out.Logs["validator.log"], "%s %s qualified=%t score=%.4f cost_micros=%.0f %s\n", time.Now().UTC().Format(time.RFC3339), name, s.Solved, s.Value, s.Metrics[cost.Metric], s.Detail) //nolint:forbidigo // a line of a log, or an id of a rehearsal
			if cost, ok := s.Metrics[cost.Metric]; ok {
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
		out.Qualified = false // a cost that nobody measured is not a win
	}
	return out, nil
}

// sealed says whether payloads of an arena are promised before they are shown.
func sealed(f kit.ArenaFile) bool { return f.Options[kindpack.OptionPayloads] != kindpack.PayloadsOpen }

// Audit is `agon discover audit`.
func Audit(ctx context.Context, kits kit.List, c commands.AuditOptions) (*consensus.Audited, error) {
	o := kits.Options(c.Common, "")
	f, err := kit.LoadArenaFile(c.ArenaFile, o.Kits)
	if err != nil {
		return nil, err
	}
	if f.Kind != kindpack.Name {
		return nil, &agon.Error{Code: "bad_kind", Status: 422, Field: "arena", Message: "only policy-pack arenas are played without a platform, this is one of kind " + f.Kind}
	}
	key, err := auth.NewKey() // stores that are servers want one; nothing is signed with it
	if err != nil {
		return nil, err
	}
	store, err := consensus.OpenStore(c.Store, o.Getenv, key, time.Now)
	if err != nil {
		return nil, err
	}
	at := c.Ledger
	if f.Ledger != "" {
		at = f.Ledger
	}
	place, err := dial.Parse(at)
	if err != nil {
		return nil, err
	}
	l := dial.NewLazy(place, dial.Config{Over: o.Over, Signer: func(string) (auth.Signer, error) { return nil, errors.New("an audit signs nothing") }})
	defer func() {
		if err := l.Close(); err != nil {
			o.Log.Warn("closing the ledger", "err", err)
		}
	}()
	window := packfile.WindowRule{Anchor: c.Anchor, Blocks: c.WindowBlocks}
	return consensus.Audit(ctx, consensus.NodeConfig{
		FetchPayload: fetch.New(fetch.Config{AllowPrivate: c.AllowPrivate, MaxBytes: consensus.MaxPayload}).Get,
		Ledger:       l, Netuid: f.Netuid, Store: store, Window: window, Software: PackSoftware, MinStake: c.MinStake, MinValidators: c.MinValidators, PlainMean: c.PlainMean,
		Sealed: sealed(f),
		Burn:   c.Burn, Bootstrap: c.Bootstrap || f.Options[kindpack.OptionBootstrap] == "on", Unpaid: c.Unpaid, Log: o.Log,
	}, c.Window)
}
