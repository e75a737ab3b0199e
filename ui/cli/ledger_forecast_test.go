package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
)

// A seat has its share of the miners' half; what nobody earns, or a hotkey that
// left the subnet, is burned, and the assumptions are said.
func TestForesee(t *testing.T) {
	m := &ledger.Metagraph{Netuid: 3, Block: 99, Burn: 5e8, Hyper: ledger.Hyperparameters{EmissionPerBlock: 1e9, OwnerCut: 0}, Neurons: []ledger.Neuron{{UID: 0, Hotkey: "a", Incentive: 65535}}}
	x := &client.Arena{Arena: agon.Arena{ID: "x", Netuid: 3}, Burned: 0.25, Seats: []client.Place{{Place: 1, Share: 0.5, Seat: agon.Seat{Miner: "a"}}, {Place: 2, Share: 0.25, Seat: agon.Seat{Miner: "gone"}}}}
	e := ledger.EconomyOf(m, 12*time.Second)
	e.Price = 5e8
	v, err := foresee(x, 2, m, e)
	if err != nil {
		t.Fatal(err)
	}
	if v.Subnet.Miners != 3600e9 || v.Seats[0].AlphaDay != 900e9 || v.Seats[0].RaoDay != 450e9 || v.Seats[0].LastDay != 3600e9 || *v.Seats[0].UID != 0 {
		t.Errorf("%+v", v.Seats[0])
	}
	if v.Seats[1].AlphaDay != 0 || v.Seats[1].UID != nil || v.Burned != 450e9+450e9 || v.Vacant {
		t.Errorf("%+v, burned %d", v.Seats[1], v.Burned)
	}
	said := strings.Join(v.Assumptions, "\n")
	for _, part := range []string{"0.5 TAO", "12s", "2 arenas", "25.0 % of the arena's reward", "selling"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not said: %s", part, said)
		}
	}
	// With a second mechanism that has 30 % the seats share what is left.
	m.Mechanisms, m.MechanismSplit = make([]ledger.Mechanism, 1), []uint16{45875, 19660}
	two := ledger.EconomyOf(m, 12*time.Second)
	if v, err = foresee(x, 1, m, two); err != nil || v.Subnet.Miners != 3600e9 || v.Seats[0].LastDay != ledger.Part(3600e9, 45875./65535)+1 || v.Seats[0].AlphaDay != v.Seats[0].LastDay/2 || !strings.Contains(strings.Join(v.Assumptions, " "), "30.0 %") {
		t.Errorf("%+v %v", v, err)
	}
	// An arena on the second has those 30 %, and the incentive of that mechanism.
	m.Mechanisms[0].Neurons = []ledger.MechanismNeuron{{Incentive: 32768}}
	on, ok := m.Mechanism(1)
	y := *x
	y.Mechanism = 1
	if v, err = foresee(&y, 1, on, two); !ok || err != nil || v.Seats[0].AlphaDay != two.Of(1, 3600e9)/2 || v.Seats[0].LastDay != ledger.Part(two.Of(1, 3600e9), 32768./65535) || !strings.Contains(strings.Join(v.Assumptions, " "), "70.0 %") {
		t.Errorf("%+v %v", v, err)
	}
	m.Mechanisms, m.MechanismSplit = nil, nil
	m.Hyper.NullConsensus, m.Hyper.CollateralShare = true, 32768
	if v, err = foresee(x, 1, m, e); err != nil || !strings.Contains(strings.Join(v.Assumptions, " "), "consensus Null") || !strings.Contains(strings.Join(v.Assumptions, " "), "50.0 % of a registration's price") {
		t.Errorf("%+v %v", v, err)
	}
	if v, err = foresee(&client.Arena{}, 1, m, e); err != nil || !v.Vacant {
		t.Errorf("%+v %v", v, err)
	}
}
