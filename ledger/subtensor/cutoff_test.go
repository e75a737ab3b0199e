package subtensor_test

import (
	"testing"

	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// The activity cutoff stands where the runtime has it: in blocks before dynamic
// tempos, in thousandths of a tempo since.
func TestActivityCutoff(t *testing.T) {
	const five = 5
	for _, spec := range []uint32{218, 393, 424} {
		l := newLedger(t)
		h, err := local.Hyperparameters(local.PresetDemo)
		if err != nil {
			t.Fatal(err)
		}
		h.Tempo, h.ActivityCutoffFactor = 20, 5000 // not the default
		if err := l.EnsureSubnet(t.Context(), five, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold"), Hyper: &h}); err != nil {
			t.Fatal(err)
		}
		n := newNode(t, l, l, spec)
		m, err := client(t, subtensor.Config{URLs: []string{n.http.URL}}).Metagraph(t.Context(), five)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Hyper.ActivityCutoff(); got != 100 {
			t.Errorf("runtime %d: %d blocks, want 100 (%+v)", spec, got, m.Hyper)
		}
		if dynamic := m.Hyper.ActivityCutoffBlocks == 0; dynamic != (spec >= 424) {
			t.Errorf("runtime %d: cutoff of %d blocks", spec, m.Hyper.ActivityCutoffBlocks)
		}
	}
}
