package consensus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// sealed lets the validators of a world promise their payloads before they show them.
func (w *world) sealed() {
	w.conf = func(c *NodeConfig) { c.Sealed = true }
	for i := range w.vals {
		w.start(i)
	}
}

// commits puts a text of a validator on the ledger.
func (w *world) commits(val int, text string) {
	w.t.Helper()
	if _, err := w.l.Commit(w.t.Context(), testNet, w.vals[val], ledger.Raw([]byte(text))); err != nil {
		w.t.Fatal(err)
	}
}

// promises commits the digest of a payload made by hand, which it returns.
func (w *world) promises(val int, window int64, costs map[string]float64) []byte {
	w.t.Helper()
	p := Payload{Protocol: Protocol, Scoring: Scoring, Window: window, Validator: w.vals[val], Software: "1.0.0", Timestamp: w.now.Unix(), Costs: costs, Qualified: map[string]bool{}, Nonce: fmt.Sprint(val, window, costs)}
	for k := range costs {
		p.Qualified[k] = true
	}
	b := p.Canonical()
	w.commits(val, packfile.Pointer{Protocol: Protocol, Window: window, Scoring: Scoring, Address: string(agon.Sum(b))}.Seal())
	return b
}

// shown puts a payload into the store and points to it.
func (w *world) shown(val int, window int64, b []byte) {
	w.t.Helper()
	address, err := w.store.Put(w.t.Context(), b)
	if err != nil {
		w.t.Fatal(err)
	}
	w.points(val, window, address)
}

// payloadOf is what a validator has shown of a window.
func (w *world) payloadOf(val int, window int64) (Payload, string) {
	w.t.Helper()
	list, err := w.l.History(w.t.Context(), testNet, w.vals[val], 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list {
		at, ok := packfile.ParsePointer(text(c))
		if !ok || at.Window != window {
			continue
		}
		b, _, err := w.store.Get(w.t.Context(), at.Address)
		if err != nil {
			w.t.Fatal(err)
		}
		p, err := Parse(b)
		if err != nil {
			w.t.Fatal(err)
		}
		return p, at.Address
	}
	w.t.Fatalf("validator %d has shown nothing of window %d", val, window)
	return Payload{}, ""
}

// files counts what the store holds.
func (w *world) files() int {
	w.t.Helper()
	list, err := os.ReadDir(w.store.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

// A season of three windows: seven validators of whom two are killed, one forges, one
// equivocates, one points far ahead and one copies what the first has shown: its
// bytes, its figures under an own name, its figures after a promise of something
// else. An empty machine comes to the weights of all honest ones, and names the others.
func TestSeason(t *testing.T) {
	w := newWorld(t, 40_000, 38_000, 36_000, 20_000, 15_000, 14_000, 12_000)
	w.sealed()
	const forger, equivocator, copier, far = 3, 4, 5, 6
	w.to(5)
	a := w.commit(0, policyA, 1)
	b := w.commit(2, policyB, 2)
	for i := range 3 { // no two measure the same
		w.eval[i] = func(p *packfile.Pack) (Evaluation, error) {
			return Evaluation{Cost: w.costs[p.Hash] * (1 + 0.01*float64(i)), Qualified: true}, nil
		}
	}
	for n := range int64(3) {
		base := uint64(n) * 100
		if n == 1 {
			w.costs[b.Hash] = 0.5 // it gets cheap
		}
		running := []int{0, 1, 2}
		w.to(base+10, running...)
		held := w.files()
		w.to(base+82, running...)
		if w.files() != held {
			t.Fatalf("window %d: payloads lie in the store before they may be shown", n)
		}
		lie := w.promises(forger, n, map[string]float64{w.miners[3]: 1e-7})
		one, other := w.promises(equivocator, n, map[string]float64{w.miners[0]: 1}), w.promises(equivocator, n, map[string]float64{w.miners[0]: 3})
		if n == 2 {
			w.promises(copier, n, map[string]float64{w.miners[3]: 7})
		}
		w.says(far, 999_999, map[string]float64{w.miners[3]: 1e-7})
		if n == 1 { // killed between promising and showing; its disk stays
			w.nodes[2] = nil
			running = []int{0, 1}
		}
		w.to(base+86, running...)
		w.shown(forger, n, lie)
		w.shown(equivocator, n, one)
		w.shown(equivocator, n, other)
		seen, at := w.payloadOf(0, n)
		if n == 0 {
			w.points(copier, n, at)
		} else {
			seen.Validator, seen.Nonce = w.vals[copier], "mine"
			for miner := range seen.Costs {
				seen.Costs[miner] *= 1.001 // which alike does not see
			}
			w.shown(copier, n, seen.Canonical())
		}
		if n == 1 {
			w.start(2)
			w.to(base+88, 2)
			if _, got := w.payloadOf(2, 1); got == "" {
				t.Error("the killed validator shows nothing")
			}
			w.nodes[1] = nil // killed before it decides
			running = []int{0, 2}
		}
		w.to(base+92, running...)
		au := w.audit(n)
		for v, want := range map[int]string{forger: "outvoted", equivocator: "equivocates", copier: []string{"copied: its payload names", "may be copied: it had promised no payload", "may be copied: its payload is not the one"}[n], far: "has not come"} {
			if got := reasonOf(au.Rejected, w.vals[v]); !strings.Contains(got, want) {
				t.Errorf("window %d, validator %d: %q, want %q", n, v, got, want)
			}
		}
		for v := range 3 {
			if got := reasonOf(au.Rejected, w.vals[v]); got != "" {
				t.Errorf("window %d, honest validator %d: %s", n, v, got)
			}
		}
		if !au.Agreed || au.Filter.Passed != 5 || len(au.Alike) != 0 {
			t.Errorf("window %d: %s, %+v", n, au.Filter, au)
		}
		if n == 1 {
			w.start(1)
		}
	}
	w.to(305, 0, 1, 2)
	w.agree(w.miners[2], 0, 1, 2)
	au := w.audit(2)
	if !au.Agreed || au.Winner != w.miners[2] || au.Pack != b.Hash || len(au.Weights) != 2 || a.Hash == b.Hash {
		t.Errorf("%+v", au)
	}
	// Somebody gives other weights than the rules do.
	m, err := w.l.Metagraph(t.Context(), testNet)
	if err != nil {
		t.Fatal(err)
	}
	mine, _ := m.Neuron(w.miners[3])
	if err := w.l.SetWeights(t.Context(), testNet, w.vals[forger], ledger.Weights{UIDs: []uint16{mine.UID}, Values: []uint16{65535}}); err != nil {
		t.Fatal(err)
	}
	if au = w.audit(-1); au.Agreed {
		t.Errorf("%+v", au.Rows)
	}
	var back struct {
		Weights  []any
		Agreed   *bool
		Rejected []Rejected
	}
	raw, err := json.Marshal(au)
	if err != nil || json.Unmarshal(raw, &back) != nil || back.Agreed == nil || len(back.Rejected) < 4 {
		t.Errorf("%s", fmt.Sprintf("%.300s", raw))
	}
}

// A promise counts only before others show their payloads, and of the validator that
// made it: copied, it promises nothing. Who promised and showed nothing is named.
func TestPromises(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000, 25_000, 20_000)
	w.sealed()
	w.to(5)
	w.commit(0, policyA, 1)
	w.to(10, 0, 1)
	w.to(82, 0, 1)
	list, err := w.l.Commitments(t.Context(), testNet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if at, ok := packfile.ParseSeal(text(c)); ok && c.Hotkey == w.vals[0] {
			w.commits(2, at.Seal()) // another's promise, word for word
		}
	}
	w.promises(4, 0, map[string]float64{w.miners[0]: 1})
	w.to(86, 0, 1)
	_, at := w.payloadOf(0, 0)
	w.points(2, 0, at)
	late := w.promises(3, 0, map[string]float64{w.miners[0]: 1})
	w.shown(3, 0, late)
	w.to(92, 0, 1)
	w.agree(w.miners[0], 0, 1)
	s := w.nodes[0].Status()
	for v, want := range map[int]string{2: "copied: its payload names", 3: "promised no payload before block 85", 4: "showed none"} {
		if got := reasonOf(s.Rejected, w.vals[v]); !strings.Contains(got, want) {
			t.Errorf("validator %d: %q, want %q", v, got, want)
		}
	}
	if s.Filter.Passed != 2 || s.Filter.Sealed != 1 || !strings.HasSuffix(s.Filter.String(), "writer=1 sealed=1") {
		t.Errorf("%s", s.Filter)
	}
	if _, err := NewNode(NodeConfig{Ledger: w.l, Store: w.store, Fetch: w.nodes[0].cfg.Fetch, Evaluate: w.nodes[0].cfg.Evaluate, Hotkey: "x", Dir: t.TempDir(), Sealed: true, Window: packfile.WindowRule{Blocks: MinSealed - 1}}); err == nil {
		t.Error("a window without room for promises is taken")
	}
}

// A ledger that remembers one commitment only: promises are known to those who saw them.
func TestPromisesOfForgetfulLedger(t *testing.T) {
	w := newWorld(t, 40_000, 35_000)
	w.conf = func(c *NodeConfig) {
		c.Sealed, c.Ledger = true, &shaky{Ledger: w.l, history: errors.New("no state of then")}
	}
	w.start(0)
	w.start(1)
	w.to(5)
	w.commit(0, policyA, 1)
	w.to(10, 0, 1)
	w.to(82, 0, 1)
	w.to(84, 0, 1) // each sees what the other has promised
	w.start(0)     // and remembers it
	w.to(86, 0, 1)
	w.to(92, 0, 1)
	w.agree(w.miners[0], 0, 1)
	if s := w.nodes[0].Status(); s.Filter.Passed != 2 {
		t.Errorf("%s, %+v", s.Filter, s.Rejected)
	}
}
