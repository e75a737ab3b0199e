package platform

import (
	"context"
	"sync"
	"time"

	"github.com/agon-arena/agon"
)

// permitFor is how long a validator permit that the ledger has confirmed is
// taken for granted by claims. Ledgers change once a block, which is longer.
const permitFor = time.Second

// maxPermits bounds the permits remembered.
const maxPermits = 10_000

// permits remembers who held a validator permit: a crowd of claims asks the
// ledger once a second for each validator. Only good news is kept. The zero
// value is ready; safe for concurrent use.
type permits struct {
	mu     sync.Mutex
	until  map[permitKey]time.Time // guarded by mu
	owners map[permitKey]ownership // guarded by mu
}

// ownership is the coldkey of a hotkey, as the ledger last said.
type ownership struct {
	coldkey string
	until   time.Time
}

// owned returns the coldkey of a hotkey; empty where it is not registered. It
// is asked again as often as a permit.
func (p *permits) owned(ctx context.Context, l Ledger, at place, hotkey string, now time.Time) (string, error) {
	k := permitKey{at, hotkey}
	p.mu.Lock()
	o := p.owners[k]
	p.mu.Unlock()
	if now.Before(o.until) {
		return o.coldkey, nil
	}
	coldkey, ok, err := l.Registered(ctx, at.netuid, hotkey)
	if err != nil {
		return "", err
	}
	if !ok {
		coldkey = ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owners == nil || len(p.owners) >= maxPermits {
		p.owners = map[permitKey]ownership{}
	}
	p.owners[k] = ownership{coldkey, now.Add(permitFor)}
	return coldkey, nil
}

// place is a subnet of a ledger.
type place struct {
	ledger string // agon.Arena.Ledger
	netuid uint16
}

func placeOf(a agon.Arena) place { return place{a.Ledger, a.Netuid} }

type permitKey struct {
	place
	hotkey string
}

func (p *permits) ask(ctx context.Context, l Ledger, at place, hotkey string, now time.Time) (bool, error) {
	k := permitKey{at, hotkey}
	p.mu.Lock()
	until := p.until[k]
	p.mu.Unlock()
	if now.Before(until) {
		return true, nil
	}
	ok, err := l.IsValidator(ctx, at.netuid, hotkey)
	if err != nil || !ok {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil || len(p.until) >= maxPermits {
		p.until = map[permitKey]time.Time{}
	}
	p.until[k] = now.Add(permitFor)
	return true, nil
}
