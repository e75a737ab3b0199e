package pack

import (
	"context"
	_ "embed" // board.html
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/ui/web"
)

// What the demo's validators without a platform are.
const (
	// aloneNet is added to an arena's netuid: their weights must not meet the platform's.
	aloneNet = 1000
	// aloneTask is the scenario that they play: one is enough to see them agree.
	aloneTask = "standup"
	// aloneRounds is how often a phase is tried before the next begins, as time would have it.
	aloneRounds = 3
)

// aloneStakes are the validators' stakes, in alpha: no single one decides.
var aloneStakes = []uint64{40_000, 35_000, 25_000}

// together is a demo arena's validators without a platform. Each has a key,
// state, books and boxes of its own and knows the ledger only by HTTP; what
// they share is the folder of payloads, and a clock whose phases end when all
// are done with them, so that nobody waits for a day.
type together struct {
	arena string
	file  kit.ArenaFile
	vals  []*alone
	keys  []*kit.Party
	names map[string]string // of the samples, by hotkey; written before done
	clock demoClock
	read  func(ctx context.Context) (*ledger.Metagraph, error)
	say   func(format string, args ...any)
	note  string // why nothing was agreed on; written before done
	shown atomic.Pointer[client.Agreement]
}

// demoClock says in which window and phase the demo is.
type demoClock struct {
	mu     sync.Mutex
	window packfile.Window // guarded by mu
}

func (c *demoClock) at(int64) packfile.Window {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.window
}

func (c *demoClock) set(number int64, phase string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window = packfile.Window{Number: number, Phase: phase}
}

// agreement implements Kit.Agreement.
func agreement(without *sync.Map, arena string) *client.Agreement {
	t, ok := without.Load(arena)
	if !ok {
		return nil
	}
	return t.(*together).shown.Load()
}

//go:embed board.html
var boardHTML string

// boardPart shows on the board what the validators without a platform agree on.
func boardPart(without *sync.Map) *web.Part {
	return &web.Part{HTML: boardHTML, Run: runHTML, RunData: runData, Data: func(_ context.Context, arena string) any {
		if g := agreement(without, arena); g != nil {
			return g
		}
		return nil
	}}
}

// aloneFile is the arena that they play beside f's: on a subnet of their own, and a shipped scenario whatever f plays,
// since its tasks may be hidden, or drawn anew in each period.
func aloneFile(f kit.ArenaFile) kit.ArenaFile {
	f.Netuid, f.Only = f.Netuid+aloneNet, aloneTask
	f.Sets, f.Hidden, f.Retired, f.Supply = []string{officeSet}, nil, nil, nil
	return f
}

// openTogether commits the samples on a subnet of their own, each by its
// miner, and makes the validators.
func openTogether(ctx context.Context, s *kit.Server, without *sync.Map, f kit.ArenaFile, d sandbox.Driver, root string) (_ *together, err error) {
	f = aloneFile(f)
	keyed := s.Options.Getenv("AGON_LLM_BASE_URL") != ""
	t := &together{arena: f.ID, file: f, say: s.Options.Sayf, names: map[string]string{}}
	t.read = func(ctx context.Context) (*ledger.Metagraph, error) { return s.Ledger.Metagraph(ctx, f.Netuid) }
	if err := s.EnsureSubnet(ctx, f.Arena(), nil); err != nil {
		return nil, err
	}
	for _, sa := range Kit().Samples {
		hotkey, err := commitSample(ctx, s, f.Arena(), sa.Name)
		if err != nil {
			return nil, err
		}
		t.names[hotkey] = sa.Name
	}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	for i, stake := range aloneStakes {
		p, err := kit.LoadParty(s.Data.Path("wallets"), fmt.Sprintf("alone-%d", i+1))
		if err != nil {
			return nil, err
		}
		if _, err := s.EnsureRegistered(ctx, f.Arena(), p); err != nil {
			return nil, err
		}
		if err := s.Ledger.SetValidator(ctx, f.Netuid, p.Hotkey.SS58(), true, stake*1e9); err != nil {
			return nil, fmt.Errorf("give %s its permit: %w", p.Name, err)
		}
		o := s.Options
		o.Data, o.ScriptPrice, o.Say = s.Data.Path("alone"), true, nil
		v, err := openAlone(ctx, o, d, root, f, commands.DiscoverOptions{
			Key: p.Hotkey, Ledger: s.Near(), Store: s.Data.Path("alone", "payloads"), Burn: 0.5, AllowPrivate: true,
		}, func(c *consensus.NodeConfig) {
			c.Clock, c.LivePointers, c.Sealed, c.Unpaid = t.clock.at, true, false, !keyed
		}) // its clock has no halves
		if err != nil {
			return nil, err
		}
		t.vals, t.keys = append(t.vals, v), append(t.keys, p)
	}
	if keyed {
		bound := gateway.UpperBound(f.Policy.Budget, len(aloneStakes)*len(Kit().Samples))
		s.Options.Sayf("%d validators without a platform use a real model: they can cost at most $%.2f", len(aloneStakes), float64(bound)/1e6)
	}
	t.show()
	without.Store(f.ID, t)
	return t, nil
}

// commitSample makes a sample's miner commit to its pack, at the address under
// which this server shows it. What is committed already stays: a second
// commitment would only be later.
func commitSample(ctx context.Context, s *kit.Server, a agon.Arena, name string) (hotkey string, err error) {
	miner, err := kit.LoadParty(s.Data.Path("wallets"), "miner-"+name)
	if err != nil {
		return "", err
	}
	if _, err := s.EnsureRegistered(ctx, a, miner); err != nil {
		return "", err
	}
	files, err := kit.SampleFiles(data.FS, name)
	if err != nil {
		return "", err
	}
	p, err := packfile.Read(files[kindpack.File])
	if err != nil {
		return "", fmt.Errorf("read sample %s: %w", name, err)
	}
	text, err := packfile.Commitment{Hash: p.Hash, URL: s.URL() + samplePacks + name + ".json"}.Write()
	if err != nil {
		return "", fmt.Errorf("commit sample %s: %w", name, err)
	}
	list, err := s.Ledger.Commitments(ctx, a.Netuid)
	if err != nil {
		return "", fmt.Errorf("commit sample %s: %w", name, err)
	}
	for _, c := range list {
		if c.Hotkey == miner.Hotkey.SS58() && len(c.Fields) == 1 && string(c.Fields[0].Data) == text {
			return miner.Hotkey.SS58(), nil
		}
	}
	l, err := remote.New(remote.Config{URL: s.Near(), Signer: func(string) (auth.Signer, error) { return miner.Hotkey, nil }})
	if err != nil {
		return "", err
	}
	if _, err := l.Commit(ctx, a.Netuid, miner.Hotkey.SS58(), ledger.Raw([]byte(text))); err != nil {
		return "", fmt.Errorf("commit sample %s: %w", name, err)
	}
	return miner.Hotkey.SS58(), nil
}

// samplePacks is where a server shows its own sample packs: at an address that
// a commitment can hold.
const samplePacks = "/packs/"

// serveSamplePacks answers for one pack of the samples.
func serveSamplePacks(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(r.PathValue("file"), ".json")
	known := ok && slices.ContainsFunc(Kit().Samples, func(sa kit.Sample) bool { return sa.Name == name })
	if !known {
		http.NotFound(w, r)
		return
	}
	files, err := kit.SampleFiles(data.FS, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(files[kindpack.File]) // a client that is gone reads no error
}

func (t *together) Close() {
	for _, v := range t.vals {
		v.close()
	}
}

// Run lets the validators work through a window, and through another one
// whenever the packs on the ledger have changed. once ends it after the first.
func (t *together) Run(ctx context.Context, once bool) {
	number := int64(0)
	for _, v := range t.vals {
		number = max(number, v.node.Status().Agreed+1, v.node.Status().Published+1)
	}
	for ; ctx.Err() == nil; number++ {
		t.window(ctx, number)
		t.show()
		if g := t.shown.Load(); g.Agreed && ctx.Err() == nil {
			winner := "nobody"
			if g.Winner != nil {
				winner = fmt.Sprintf("%s at $%.6f an episode", *g.Winner, g.CostUSD)
			}
			t.say("%d validators without a platform agree on %s", len(t.vals), winner)
		}
		if once || t.idle(ctx) != nil {
			return
		}
	}
}

// window takes all through the phases of one window.
func (t *together) window(ctx context.Context, number int64) {
	for _, phase := range []struct {
		name string
		done func(consensus.Status) bool
	}{
		{packfile.PhaseEvaluation, func(s consensus.Status) bool { return s.Window.Number == number && s.Judged == s.Packs }},
		{packfile.PhasePropagation, func(s consensus.Status) bool { return s.Published == number }},
		{packfile.PhaseAggregation, func(s consensus.Status) bool { return s.Agreed == number && len(s.Weights) > 0 }},
	} {
		t.clock.set(number, phase.name)
		for range aloneRounds {
			err := t.step(ctx)
			if ctx.Err() != nil {
				return
			}
			t.note = ""
			switch i := slices.IndexFunc(t.vals, func(v *alone) bool { return !phase.done(v.node.Status()) }); {
			case err != nil:
				t.note = err.Error()
			case i >= 0:
				t.note = fmt.Sprintf("%s is not done with the %s phase", t.keys[i].Name, phase.name)
				if s := t.vals[i].node.Status(); s.Fault != "" {
					t.note += fmt.Sprintf(": fault %s: %s", s.Fault, s.Reason)
				}
			}
			t.show()
			if t.note == "" {
				break
			}
		}
	}
}

// step lets each validator do what the phase asks for, all at once.
func (t *together) step(ctx context.Context) error {
	errs := make([]error, len(t.vals))
	var wg sync.WaitGroup
	for i, v := range t.vals {
		wg.Go(func() { errs[i] = v.step(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// idle waits until the packs on the ledger are others than were judged.
func (t *together) idle(ctx context.Context) error {
	commits := func() ([]ledger.Commitment, error) {
		list, err := t.vals[0].ledger.Commitments(ctx, t.file.Netuid)
		return slices.DeleteFunc(list, func(c ledger.Commitment) bool {
			return slices.ContainsFunc(t.keys, func(p *kit.Party) bool { return p.Hotkey.SS58() == c.Hotkey })
		}), err
	}
	before, err := commits()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, nerr := commits()
		if nerr == nil && (err != nil || !reflect.DeepEqual(now, before)) {
			return nil
		}
	}
}

// excluded says why a validator does not play a pack, in words of ours: the
// protocol's are for programs.
func (t *together) excluded(x consensus.Excluded) string {
	switch {
	case strings.HasPrefix(x.Reason, kindpack.CodeIntegrity):
		return "its policy breaks rules of the arena"
	case x.Of != "":
		of := t.names[x.Of]
		if of == "" {
			of = x.Of
		}
		return "its policy is a near copy of an earlier one, that of " + of
	}
	return strings.ReplaceAll(x.Reason, "_", " ")
}

// show puts together what the validators say now.
func (t *together) show() {
	g := &client.Agreement{Netuid: t.file.Netuid, Window: -1, Scripted: t.vals[0].eval.scripted, Tasks: []string{}, Validators: []client.Agreeing{}, Note: t.note, Names: t.names}
	for _, task := range t.vals[0].eval.arena.Tasks {
		g.Tasks = append(g.Tasks, task.Key)
	}
	var first consensus.Status
	same := true
	for i, v := range t.vals {
		s := v.node.Status()
		a := client.Agreeing{
			Hotkey: s.Hotkey, Stake: aloneStakes[i] * 1e9, Winner: s.Winner, CostUSD: s.Cost, Judged: s.Judged, Filter: s.Filter.String(), Fault: s.Fault, Reason: s.Reason,
			Weights: append([]agon.Weight{}, s.Weights...), Outvoted: []string{}, Excluded: map[string]string{},
		}
		for _, o := range s.Outvoted {
			a.Outvoted = append(a.Outvoted, o.Validator)
		}
		for _, x := range s.Excluded {
			a.Excluded[x.Miner] = t.excluded(x)
		}
		g.Validators = append(g.Validators, a)
		if i == 0 {
			first, g.Window = s, s.Agreed
		}
		g.Window = min(g.Window, s.Agreed)
		same = same && s.Winner == first.Winner && s.Cost == first.Cost && len(s.Weights) > 0 && reflect.DeepEqual(s.Weights, first.Weights)
	}
	g.Agreed = same && g.Window >= 0
	if g.Agreed && first.Winner != "" {
		g.Winner, g.PackHash, g.CostUSD = &first.Winner, &first.WinnerPack, first.Cost
	}
	if !g.Agreed && g.Note == "" {
		g.Note = "they are at work"
	}
	t.shown.Store(g)
}
