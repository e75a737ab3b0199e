package consensus

import (
	"strings"
	"testing"
)

// A stake of just the least counts, one below it does not.
func TestLeastStake(t *testing.T) {
	for stake, want := range map[float64]int{100: 1, 99.5: 0} {
		s := Submission{Hotkey: "v", Stake: stake, Intact: true, Payload: Payload{Protocol: Protocol, Scoring: Scoring, Validator: "v", Software: "1.0.0", Window: 3}}
		_, c, rejected := filter([]Submission{s}, Expect{Window: 3, MinStake: 100, Software: "1.0.0"})
		if c.Stake != 1-want {
			t.Errorf("stake %v: %+v, %v", stake, c, rejected)
		}
	}
}

// A cost may be a tenth away from what was agreed, and no more.
func TestOutvotedByATenth(t *testing.T) {
	agreed := map[string]Result{"m": {Qualified: true, Cost: 10}}
	for cost, want := range map[float64]string{9.1: "", 10.9: "", 8.9: "m", 11.1: "m", 6: "m", 15: "m"} {
		s := Submission{Payload: Payload{Costs: map[string]float64{"m": cost}, Qualified: map[string]bool{"m": true}}}
		if got := strings.Join(Outvoted(s, agreed), " "); got != want {
			t.Errorf("cost %v: outvoted about %q, want %q", cost, got, want)
		}
	}
}

// Half of the stake agrees on no block: more than half must.
func TestOwnersNeedMoreThanHalf(t *testing.T) {
	at := func(stake float64, miner string) Submission {
		s := Submission{Stake: stake}
		if miner != "" {
			s.Payload.Sightings = map[string]Sighting{miner: {Hash: "h", Block: 5}}
		}
		return s
	}
	for stake, want := range map[float64]string{50: "", 51: "m"} {
		owner, _ := Owners([]Submission{at(stake, "m"), at(50, "")})
		if owner["h"] != want {
			t.Errorf("%v beside 50: the owner is %q, want %q", stake, owner["h"], want)
		}
	}
}
