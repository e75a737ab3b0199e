package consensus

import (
	"math"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// With the frozen cost stands what the validators measured at that moment: the mean with its
// interval. It stays with the cost, over a restart and for who begins later, and a liar is not in it.
func TestFrozenCostHasItsInterval(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000, 25_000)
	factor := []float64{1, 1.1, 0.95, 9} // of what each measures; the last one lies
	for i := range w.eval {
		w.eval[i] = func(p *packfile.Pack) (Evaluation, error) {
			return Evaluation{Cost: w.costs[p.Hash] * factor[i], Qualified: true}, nil
		}
	}
	w.to(5)
	pack := w.commit(0, policyA, 0.002)
	w.window(0, 0, 1, 2, 3)
	same := func(got *Spread) {
		t.Helper()
		// Student's t with two degrees of freedom: the mean of 0.002, 0.0022 and 0.0019.
		const mean = 0.0061 / 3
		half := 4.303 * math.Sqrt((math.Pow(0.002-mean, 2)+math.Pow(0.0022-mean, 2)+math.Pow(0.0019-mean, 2))/2/3)
		if got == nil || got.Validators != 3 || math.Abs(got.Mean-mean) > 1e-12 || math.Abs(got.Low-(mean-half)) > 1e-9 || math.Abs(got.High-(mean+half)) > 1e-9 {
			t.Fatalf("%+v, want %v ± %v of 3", got, mean, half)
		}
	}
	for i := range 4 {
		same(w.nodes[i].Status().Spread)
	}
	w.costs[pack.Hash] = 0.003 // dearer now: the cost stays frozen, and so does what was measured then
	w.start(0)
	w.window(1, 0, 1, 2, 3)
	if s := w.nodes[0].Status(); s.Cost != 0.002 || s.Agreed != 1 {
		t.Fatalf("cost %v, window %d", s.Cost, s.Agreed)
	}
	same(w.nodes[0].Status().Spread)
	same(w.audit(1).Spread)
	w.to(205)
	w.commit(1, policyB, 0.001)
	w.window(2, 0, 1, 2, 3)
	if a := w.audit(2); a.Winner != w.miners[1] || a.Spread == nil || math.Abs(a.Spread.Mean-0.00305/3) > 1e-12 {
		t.Errorf("who takes the seat has its own: %+v", a.Spread)
	}
}

func TestSpreadInWords(t *testing.T) {
	var none *Spread
	if none.Text() != "" || spreadOf(nil, "m", 1) != nil {
		t.Error("nothing was measured")
	}
	one := spreadOf([]Submission{{Hotkey: "v", Payload: Payload{Costs: map[string]float64{"m": 1}, Qualified: map[string]bool{"m": true}}}}, "m", 1)
	if one == nil || one.Validators != 1 || !strings.Contains(one.Text(), "one validator") {
		t.Errorf("%+v", one)
	}
}

// The frozen cost protects the pack that won. A winner that puts a dearer one in its place
// stands there with that one's cost, and keeps the seat only if that is the lowest.
func TestFrozenCostIsOfThePack(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000)
	w.to(5)
	w.commit(0, policyA, 0.001)
	w.commit(1, policyB, 0.002)
	w.window(0, 0, 1, 2)
	w.agree(w.miners[0], 0, 1, 2)
	w.to(105)
	w.commit(0, policyC, 0.009)
	w.window(1, 0, 1, 2)
	w.agree(w.miners[1], 0, 1, 2)
	if a := w.audit(1); !a.Agreed || a.Winner != w.miners[1] || a.Cost != 0.002 {
		t.Errorf("a machine that knows nothing: %s at %v", a.Winner, a.Cost)
	}
	w.to(205)
	better := w.commit(1, policyA+policyC, 0.0019) // its own, not a tenth cheaper: nobody else is cheaper
	w.window(2, 0, 1, 2)
	w.agree(w.miners[1], 0, 1, 2)
	if s := w.nodes[2].Status(); s.WinnerPack != better.Hash || s.Cost != 0.0019 {
		t.Errorf("%s at %v, want %s", s.WinnerPack, s.Cost, better.Hash)
	}
}

const policyC = "Write down what was asked. Look into the tracker for what is late and into the chat for why. Compare both, name what contradicts, and leave every decision to the reader who asked."
