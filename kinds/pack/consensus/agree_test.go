package consensus

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

func reasonOf(list []Rejected, validator string) string {
	var out []string
	for _, r := range list {
		if r.Validator == validator {
			out = append(out, r.Reason)
		}
	}
	return strings.Join(out, "; ")
}

// says publishes a payload of a validator by hand and points to it.
func (w *world) says(val int, window int64, costs map[string]float64) {
	w.t.Helper()
	p := Payload{Protocol: Protocol, Scoring: Scoring, Window: window, Validator: w.vals[val], Software: "1.0.0", Timestamp: w.now.Unix(), Costs: costs, Qualified: map[string]bool{}}
	for k := range costs {
		p.Qualified[k] = true
	}
	address, err := w.store.Put(w.t.Context(), p.Canonical())
	if err != nil {
		w.t.Fatal(err)
	}
	w.points(val, window, address)
}

func (w *world) points(val int, window int64, address string) {
	w.t.Helper()
	s, err := packfile.Pointer{Protocol: Protocol, Window: window, Scoring: Scoring, Address: address}.Write()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.l.Commit(w.t.Context(), testNet, w.vals[val], ledger.Raw([]byte(s))); err != nil {
		w.t.Fatal(err)
	}
}

// audit works out a window on a machine that knows nothing.
func (w *world) audit(window int64) *Audited {
	w.t.Helper()
	c := NodeConfig{Ledger: w.l, Netuid: testNet, Store: w.store, Software: "1.0.0", Burn: 0.5, Window: packfile.WindowRule{Blocks: 100}}
	if w.conf != nil {
		w.conf(&c)
	}
	a, err := Audit(w.t.Context(), c, window)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// One payload decides nothing while others are active: not the seat, not its cost.
func TestOneAlone(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 23_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.commit(2, policyB, 2)
	w.window(0, 0, 1, 2)
	w.agree(w.miners[0], 0, 1, 2)
	w.to(110)
	w.says(2, 1, map[string]float64{w.miners[3]: 1e-7})
	w.to(192, 0)
	w.agree(w.miners[0], 0)
	s := w.nodes[0].Status()
	if s.Short == "" || s.Quorum > 0.3 || s.Agreed != 0 || s.Cost != 1 {
		t.Errorf("%+v", s)
	}
	if a := w.audit(1); a.Short == "" || a.Winner != w.miners[0] || a.Cost != 1 {
		t.Errorf("%+v", a)
	}
}

// What is decided is about the set of scenarios that more than half of the stake has
// played; who played another is named and does not count, and without such a half
// nothing is decided.
func TestTargetSpec(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000)
	w.conf = func(c *NodeConfig) { c.Spec = 7 }
	for i := range w.nodes {
		w.start(i)
	}
	w.to(5)
	w.commit(0, policyA, 0.002)
	w.conf = func(c *NodeConfig) { c.Spec = 8 }
	w.start(2)
	w.window(0, 0, 1, 2)
	w.agree(w.miners[0], 0, 1, 2)
	for i := range 3 {
		if s := w.nodes[i].Status(); s.Spec != 7 || s.Filter.Spec != 1 || s.Filter.Passed != 2 || !strings.Contains(reasonOf(s.Rejected, w.vals[2]), "set of scenarios 8") {
			t.Errorf("validator %d: spec %d, %s, %+v", i, s.Spec, s.Filter, s.Rejected)
		}
	}
	if a := w.audit(0); !a.Agreed || a.Filter.Spec != 1 || a.Winner != w.miners[0] {
		t.Errorf("%+v", a)
	}
	// The heaviest alone has not half: 40,000 of 105,000.
	for i, spec := range []int64{7, 8, 9} {
		w.conf = func(c *NodeConfig) { c.Spec = spec }
		w.start(i)
	}
	w.to(105)
	w.commit(1, policyB, 0.001)
	w.window(1, 0, 1, 2)
	for i := range 3 {
		if s := w.nodes[i].Status(); !strings.Contains(s.Short, "no set of scenarios") || s.Winner != w.miners[0] || s.Agreed != 0 {
			t.Errorf("validator %d: %q, winner %s", i, s.Short, s.Winner)
		}
	}
	if n, ok := target([]Submission{{Stake: 1, Payload: Payload{Spec: 1}}, {Stake: 1, Payload: Payload{Spec: 2}}, {Stake: 9}}); ok {
		t.Errorf("one half of the stake made %d the target", n)
	}
}

// A pointer to a window that has not come is ignored by a validator that starts
// without state, and named.
func TestFarWindow(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000, 25_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.to(10)
	w.says(3, 999_999, map[string]float64{w.miners[3]: 1e-7})
	w.window(0, 0, 1)
	w.nodes[2] = nil
	w.start(2)
	w.to(110, 2)
	w.agree(w.miners[0], 0, 1, 2)
	if a := w.audit(0); !a.Agreed || !strings.Contains(reasonOf(a.Rejected, w.vals[3]), "has not come") {
		t.Errorf("%+v", a)
	}
}

// What is pointed to after pointers are read counts for nobody, whenever one
// reads; of two payloads the first counts; a paused validator ends where the others are.
func TestLateAndEquivocating(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000, 25_000)
	w.to(5)
	w.commit(0, policyA, 0.0020)
	w.to(10, 0, 1, 2)
	w.to(82, 0, 1, 2)
	w.says(3, 0, map[string]float64{w.miners[0]: 0.0011})
	w.to(85)
	w.says(3, 0, map[string]float64{w.miners[0]: 0.0019})
	w.to(92, 0, 1)
	w.says(3, 0, map[string]float64{w.miners[0]: 0.0039})
	w.to(95, 2) // it was paused
	w.agree(w.miners[0], 0, 1, 2)
	for i := range 3 {
		if s := w.nodes[i].Status(); s.Cost != 0.0020 || !strings.Contains(reasonOf(s.Rejected, w.vals[3]), "equivocates") {
			t.Errorf("validator %d: frozen at %v, rejected %+v", i, s.Cost, s.Rejected)
		}
	}
	w.says(3, 1, map[string]float64{w.miners[0]: 0.0020})
	w.to(110, 0, 1, 2)
	w.to(182, 0, 1, 2)
	w.to(192, 0, 1, 2)
	w.to(193)
	w.says(2, 1, map[string]float64{w.miners[0]: 9}) // too late
	a := w.audit(1)
	if !a.Agreed || a.Cost != 0.0020 || !strings.Contains(reasonOf(a.Rejected, w.vals[2]), "equivocates") && reasonOf(a.Rejected, w.vals[2]) != "" {
		t.Errorf("%+v", a)
	}
}
