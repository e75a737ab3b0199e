package roles

import (
	"context"
	"strings"
	"time"

	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger/timelock"
)

// rounds are those of drand's quicknet, as its relays have them.
type rounds struct{ relay timelock.Relay }

// drandRounds asks the relays in AGON_DRAND_RELAYS, else drand's public ones.
func drandRounds(o kit.Options) rounds {
	hosts := strings.Fields(o.Getenv("AGON_DRAND_RELAYS"))
	if len(hosts) == 0 {
		hosts = timelock.Relays
	}
	return rounds{timelock.Relay{Hosts: hosts}}
}

// After implements platform.Rounds.
func (rounds) After(t time.Time) (uint64, time.Time) {
	round := timelock.RoundAt(t)
	if timelock.TimeOf(round).Before(t) {
		round++
	}
	return round, timelock.TimeOf(round)
}

// Signature implements platform.Rounds.
func (r rounds) Signature(ctx context.Context, round uint64) ([]byte, error) {
	return r.relay.Signature(ctx, round)
}
