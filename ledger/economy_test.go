package ledger

import (
	"math"
	"testing"
	"time"
)

// A day of a subnet that emits an alpha a block of 12 s: 7200 alpha, 18 % the
// owner's, the rest in halves.
func TestDay(t *testing.T) {
	m := &Metagraph{Hyper: Hyperparameters{EmissionPerBlock: 1e9, OwnerCut: 11796}}
	e := EconomyOf(m, 12*time.Second)
	f, err := e.Day()
	if err != nil {
		t.Fatal(err)
	}
	if f.Emitted != 7200e9 || f.Owner != uint64(7200e9)*11796/65535 || f.Owner+f.Miners+f.Validators != f.Emitted || f.Validators-f.Miners > 1 {
		t.Errorf("%+v", f)
	}
	e.Price = 25_000_000 // 0.025 TAO
	if got := e.Worth(f.Emitted); got != 180e9 {
		t.Errorf("worth %d", got)
	}
	for share, want := range map[float64]uint64{0: 0, 0.5: 50, 1: 100, 2: 100, -1: 0} {
		if got := Part(100, share); got != want {
			t.Errorf("part %v: %d, want %d", share, got, want)
		}
	}
	if _, err := EconomyOf(m, 0).Day(); err == nil {
		t.Error("a ledger without time has days")
	}
	big := Economy{BlockTime: time.Millisecond, AlphaPerBlock: math.MaxUint64, Price: 1}
	if f, err := big.Day(); err != nil || f.Emitted != math.MaxUint64 {
		t.Errorf("%+v %v", f, err)
	}
}
