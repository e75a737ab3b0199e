package yuma

import "testing"

// A stake of just the threshold counts, one below it does not, and the owner's
// always does.
func TestStakeThreshold(t *testing.T) {
	in := &Input{Stake: []uint64{100, 99, 50, 200}, StakeThreshold: 100, Owner: 2}
	got := in.normalStake()
	for i, want := range []bool{true, false, true, true} {
		if (got[i] > 0) != want {
			t.Errorf("stake %d of neuron %d counts: %t, want %t", in.Stake[i], i, got[i] > 0, want)
		}
	}
	if got[3] != 2*got[0] && got[3] != 2*got[0]+1 {
		t.Errorf("shares %v: the last has twice the first's stake", got)
	}
}

// Nobody but the owner weighs itself.
func TestOwnWeightsRow(t *testing.T) {
	in := &Input{Owner: 1, LastUpdate: []uint64{5, 5}, RegisteredAt: []uint64{1, 1}, Weights: [][]Pair{{{0, 9}, {1, 9}}, {{0, 9}, {1, 9}}}}
	m := in.weights([]bool{true, true})
	if len(m[0]) != 1 || m[0][0].col != 1 || len(m[1]) != 2 {
		t.Errorf("rows %v: neuron 0 must not weigh itself, the owner may", m)
	}
}
