package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
)

const testNet = 11

// world is an embedded ledger with miners and validators, and what their URLs hold.
type world struct {
	t      testing.TB
	l      *local.Ledger
	store  Folder
	urls   map[string][]byte
	miners []string
	vals   []string
	nodes  []*Node
	dirs   []string
	costs  map[string]float64 // by pack hash
	eval   []func(p *packfile.Pack) (Evaluation, error)
	now    time.Time
	conf   func(*NodeConfig) // of the validators that start from now on
}

func address(t testing.TB, n byte) string { return ledgertest.Key(t, fmt.Sprint("key-", n)) }

func newWorld(t testing.TB, stakes ...uint64) *world {
	t.Helper()
	w := &world{t: t, store: Folder{t.TempDir()}, urls: map[string][]byte{}, costs: map[string]float64{}, now: time.Unix(1_700_000_000, 0)}
	var err error
	if w.l, err = local.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), local.Config{Stepped: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.l.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	owner := address(t, 1)
	must(w.l.EnsureSubnet(t.Context(), testNet, local.Subnet{OwnerHotkey: owner, OwnerColdkey: owner}))
	m, err := w.l.Metagraph(t.Context(), testNet)
	must(err)
	h := m.Hyper
	h.WeightsRateLimit, h.MinAllowedWeights, h.CommitReveal = 0, 1, false
	must(w.l.SetHyperparameters(t.Context(), testNet, h))
	for i := range byte(4) {
		a := address(t, 10+i)
		_, err := w.l.Register(t.Context(), testNet, a, a)
		must(err)
		w.miners = append(w.miners, a)
	}
	for i, stake := range stakes {
		a := address(t, 100+byte(i))
		_, err := w.l.Register(t.Context(), testNet, a, a)
		must(err)
		must(w.l.SetValidator(t.Context(), testNet, a, true, stake*1e9))
		w.vals = append(w.vals, a)
		w.dirs = append(w.dirs, t.TempDir())
		w.eval = append(w.eval, func(p *packfile.Pack) (Evaluation, error) {
			return Evaluation{Cost: w.costs[p.Hash], Qualified: true}, nil
		})
		w.nodes = append(w.nodes, nil)
		w.start(i)
	}
	return w
}

// start starts a validator from what is on its disk.
func (w *world) start(i int) {
	w.t.Helper()
	c := NodeConfig{
		Ledger: w.l, Netuid: testNet, Hotkey: w.vals[i], Store: w.store, Dir: w.dirs[i], Software: "1.0.0", Burn: 0.5, Window: packfile.WindowRule{Blocks: 100},
		Fetch: func(_ context.Context, url string) ([]byte, error) {
			b, ok := w.urls[url]
			if !ok {
				return nil, errors.New("status 404")
			}
			return b, nil
		},
		Evaluate: func(_ context.Context, _ string, p *packfile.Pack) (Evaluation, error) { return w.eval[i](p) },
		Now:      func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler), CacheTTL: -1,
	}
	if w.conf != nil {
		w.conf(&c)
	}
	n, err := NewNode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[i] = n
}

// commit publishes a pack at a URL and commits it.
func (w *world) commit(miner int, policy string, cost float64) *packfile.Pack {
	w.t.Helper()
	p := packfile.Build(packfile.BuildOptions{Policy: policy})
	url := fmt.Sprintf("https://m%d.example/%.8s.json", miner, p.Hash)
	w.urls[url] = p.Canonical
	w.costs[p.Hash] = cost
	s, err := packfile.Commitment{Hash: p.Hash, URL: url}.Write()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.l.Commit(w.t.Context(), testNet, w.miners[miner], ledger.Raw([]byte(s))); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// to moves the ledger to a block of the window cut and lets the running nodes step.
func (w *world) to(block uint64, running ...int) {
	w.t.Helper()
	now, err := w.l.Block(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if block > now {
		if _, err := w.l.Step(w.t.Context(), block-now); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, i := range running {
		if err := w.nodes[i].Step(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// window plays all phases of a window.
func (w *world) window(n uint64, running ...int) {
	w.t.Helper()
	w.to(n*100+10, running...)
	w.to(n*100+82, running...)
	w.to(n*100+92, running...)
}

func (w *world) agree(winner string, running ...int) {
	w.t.Helper()
	m, err := w.l.Metagraph(w.t.Context(), testNet)
	if err != nil {
		w.t.Fatal(err)
	}
	burn, _ := m.BurnUID()
	win, _ := m.Neuron(winner)
	rows := map[uint16]ledger.WeightRow{}
	for _, r := range m.Weights {
		rows[r.UID] = r
	}
	for _, i := range running {
		s := w.nodes[i].Status()
		v, _ := m.Neuron(w.vals[i])
		row := rows[v.UID]
		if s.Winner != winner || len(row.UIDs) != 2 || row.UIDs[0] != win.UID || row.UIDs[1] != burn || row.Values[0] != row.Values[1] {
			w.t.Errorf("validator %d: winner %q (want %q), weights %v %v", i, s.Winner, winner, row.UIDs, row.Values)
		}
	}
}

const (
	policyA = "Read the list first and open a message only when its line does not tell enough; ask before anything is sent, and name the source of every fact that the answer holds."
	policyB = "Start from the calendar, then the tasks that are overdue, then whoever waits for a reply. Offer drafts. Stop as soon as all questions have an answer that a tool gave."
)

// Three validators, one of which is killed and comes back, and one of which
// lies, come to the same winner and set the same weights.
func TestConverge(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 25_000)
	const liar = 2
	w.to(5)
	a := w.commit(0, policyA, 1.00)
	w.to(6)
	w.commit(1, policyA+" Be brief.", 0.10) // a near copy, and cheap
	w.to(7)
	b := w.commit(2, policyB, 1.50)
	w.eval[liar] = func(p *packfile.Pack) (Evaluation, error) {
		return Evaluation{Cost: map[string]float64{a.Hash: 50, b.Hash: 0.001}[p.Hash], Qualified: p.Hash == b.Hash}, nil
	}
	w.to(10, 0, 1, liar)
	w.to(82, 0, 1, liar)
	w.nodes[1] = nil // killed between publishing and aggregating
	w.to(92, 0, liar)
	w.agree(w.miners[0], 0, liar)
	w.start(1)
	w.to(94, 1)
	w.agree(w.miners[0], 0, 1, liar)
	s := w.nodes[0].Status()
	if len(s.Excluded) != 1 || s.Excluded[0].Miner != w.miners[1] || s.Excluded[0].Similarity < 0.8 {
		t.Errorf("excluded %+v", s.Excluded)
	}
	if len(s.Outvoted) != 1 || s.Outvoted[0].Validator != w.vals[liar] || len(s.Outvoted[0].Miners) != 2 {
		t.Errorf("outvoted %+v", s.Outvoted)
	}
	if s.Filter.Passed != 3 {
		t.Errorf("%s", s.Filter)
	}

	// B gets cheaper, but not by a tenth: the winner is protected at its frozen cost.
	w.costs[b.Hash] = 0.91
	w.window(2, 0, 1, liar)
	w.agree(w.miners[0], 0, 1, liar)
	w.costs[b.Hash] = 0.89
	w.window(4, 0, 1, liar)
	w.agree(w.miners[2], 0, 1, liar)
}

// A provider that is not paid for a whole window changes nothing.
func TestProviderOutForAWindow(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 25_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.window(0, 0, 1, 2)
	w.agree(w.miners[0], 0, 1, 2)
	for i := range w.eval {
		w.eval[i] = func(*packfile.Pack) (Evaluation, error) {
			return Evaluation{}, fmt.Errorf("%w: payment: status 402", ErrProvider)
		}
	}
	w.commit(0, policyA+" One word more about nothing in particular, so that everything is to be played anew.", 0.01)
	b := w.commit(1, policyB, 0.01)
	w.window(1, 0, 1, 2)
	w.agree(w.miners[0], 0, 1, 2)
	for _, n := range w.nodes {
		if s := n.Status(); s.Fault != agon.FaultProvider || !strings.Contains(s.Reason, "402") || s.Filter.Passed != 0 {
			t.Errorf("%+v", s)
		}
	}
	// It pays again: what was missed is played, and the cheaper one wins.
	for i := range w.eval {
		w.eval[i] = func(p *packfile.Pack) (Evaluation, error) {
			return Evaluation{Cost: map[string]float64{b.Hash: 0.5}[p.Hash] + 0.01, Qualified: p.Hash == b.Hash}, nil
		}
	}
	w.window(2, 0, 1, 2)
	w.agree(w.miners[1], 0, 1, 2)
	if s := w.nodes[0].Status(); s.Fault != "" {
		t.Errorf("fault %q", s.Fault)
	}
}

// One bad payload of each sort is told and changes nothing.
func TestBadPayloads(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 25_000, 20_000, 9_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.to(10, 0, 1)
	w.to(82, 0, 1)
	point := func(val int, address string) {
		t.Helper()
		s, err := packfile.Pointer{Protocol: 1, Window: 0, Scoring: 2, Address: address}.Write()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.l.Commit(t.Context(), testNet, w.vals[val], ledger.Raw([]byte(s))); err != nil {
			t.Fatal(err)
		}
	}
	// Other bytes under a name.
	forged := Payload{Protocol: 1, Scoring: 2, Validator: w.vals[2], Software: "1.0.0", Costs: map[string]float64{w.miners[3]: 0.01}, Qualified: map[string]bool{w.miners[3]: true}}
	name := agon.Sum([]byte("something else"))
	if err := os.WriteFile(filepath.Join(w.store.Dir, name.Hex()+".json"), forged.Canonical(), 0o600); err != nil {
		t.Fatal(err)
	}
	point(2, string(name))
	point(3, string(agon.Sum([]byte("nowhere"))))
	w.to(84, 4) // too little stake
	w.to(92, 0, 1)
	w.agree(w.miners[0], 0, 1)
	s := w.nodes[0].Status()
	if s.Filter.Integrity != 1 || s.Filter.Stake != 1 || s.Filter.Passed != 2 || len(s.Rejected) != 3 || reasonOf(s.Rejected, w.vals[2]) == "" || reasonOf(s.Rejected, w.vals[3]) == "" {
		t.Errorf("%s, rejected %+v", s.Filter, s.Rejected)
	}
}

// The same pack belongs to who committed it first, as more than half of the
// stake saw it; committing again, or one validator's word, moves nothing.
func TestOwners(t *testing.T) {
	h := strings.Repeat("ab", 32)
	sub := func(v string, stake float64, seen map[string]uint64) Submission {
		p := Payload{Sightings: map[string]Sighting{}}
		for m, b := range seen {
			p.Sightings[m] = Sighting{h, b}
		}
		return Submission{Hotkey: v, Stake: stake, Payload: p}
	}
	owner, copies := Owners([]Submission{
		sub("a", 40, map[string]uint64{"first": 10, "thief": 20}), sub("b", 35, map[string]uint64{"first": 10, "thief": 20}),
		sub("liar", 25, map[string]uint64{"thief": 1}),
	})
	if owner[h] != "first" || copies["thief"] != "first" || len(copies) != 1 {
		t.Errorf("%v %v", owner, copies)
	}
	if owner, _ := Owners([]Submission{sub("a", 40, map[string]uint64{"x": 1}), sub("b", 60, nil)}); len(owner) != 0 {
		t.Errorf("a minority decided: %v", owner)
	}
}

func TestRestartKeepsState(t *testing.T) {
	w := newWorld(t, 40_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.window(0, 0)
	before := w.nodes[0].st
	w.start(0)
	after := w.nodes[0].st
	if !reflect.DeepEqual(before, after) || after.Winner != w.miners[0] || after.Published != 0 || after.Aggregated != 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
	// Another scoring version begins anew.
	var st map[string]any
	b, err := os.ReadFile(w.nodes[0].path())
	if err != nil || json.Unmarshal(b, &st) != nil {
		t.Fatal(err)
	}
	st["scoring_version"] = 1
	b, _ = json.Marshal(st)
	if err := os.WriteFile(w.nodes[0].path(), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if w.start(0); w.nodes[0].st.Winner != "" {
		t.Error("a winner of another version stayed")
	}
}
