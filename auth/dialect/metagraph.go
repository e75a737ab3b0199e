package dialect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// How old a metagraph may get.
const (
	MetagraphRefresh = 300 * time.Second
	MetagraphRetry   = 5 * time.Second // after a failed refresh
	MetagraphMaxAge  = 1200 * time.Second
)

// ErrStale means that nobody can be let in because the metagraph is not there or too old.
var ErrStale = errors.New("metagraph is missing or too old")

// Member is one neuron of the subnet.
type Member struct {
	Hotkey    string
	Coldkey   string
	UID       uint16
	Validator bool   // holds a validator permit
	Stake     uint64 // in rao
}

// Registry tells who is on the subnet.
type Registry interface {
	// Member returns the neuron of hotkey. ok is false when there is none; err is
	// ErrStale, or what else kept it from knowing. It does not block on the chain.
	Member(ctx context.Context, hotkey string) (m Member, ok bool, err error)
}

// Metagraph is a Registry that keeps a whole metagraph and refreshes it. Run
// refreshes; Member only reads.
type Metagraph struct {
	fetch func(ctx context.Context) ([]Member, error)
	now   func() time.Time
	last  atomic.Pointer[snapshot]
}

type snapshot struct {
	at      time.Time
	members map[string]Member
}

// NewMetagraph makes an empty one: until the first Refresh nobody is let in.
func NewMetagraph(now func() time.Time, fetch func(ctx context.Context) ([]Member, error)) *Metagraph {
	return &Metagraph{fetch: fetch, now: now}
}

// Refresh fetches once; the old snapshot stays when that fails. Its age counts
// from the start of the fetch.
func (g *Metagraph) Refresh(ctx context.Context) error {
	at := g.now()
	list, err := g.fetch(ctx)
	if err != nil {
		return fmt.Errorf("fetch metagraph: %w", err)
	}
	s := &snapshot{at: at, members: make(map[string]Member, len(list))}
	for _, m := range list {
		s.members[m.Hotkey] = m
	}
	g.last.Store(s)
	return nil
}

// Run refreshes until ctx ends, every MetagraphRefresh, or MetagraphRetry after
// a failure, which it hands to failed.
func (g *Metagraph) Run(ctx context.Context, failed func(error)) {
	for {
		wait := MetagraphRefresh
		fetchCtx, cancel := context.WithTimeout(ctx, time.Minute)
		if err := g.Refresh(fetchCtx); err != nil && ctx.Err() == nil {
			failed(err)
			wait = MetagraphRetry
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Member implements Registry.
func (g *Metagraph) Member(_ context.Context, hotkey string) (Member, bool, error) {
	s := g.last.Load()
	if s == nil || g.now().Sub(s.at) > MetagraphMaxAge {
		return Member{}, false, ErrStale
	}
	m, ok := s.members[hotkey]
	return m, ok, nil
}

// Need is what a route asks of its caller. The zero Need asks for a signature only.
type Need struct {
	Registered bool
	Validator  bool   // a validator permit and MinStake
	MinStake   uint64 // rao
	Coldkey    string // the owner that the hotkey must have
	// Allow lists the hotkeys that may call; nil means any. Dialects that know
	// such a list ask it before they check the signature.
	Allow map[string]bool
}

// Standing is how a hotkey stands to a Need.
type Standing int

// The standings, by what a caller is told first.
const (
	StandingUnknown Standing = iota // the registry could not be asked
	StandingGood
	StandingUnregistered
	StandingNoValidator
	StandingNotOwner
	StandingBanned
)

// Standing looks hotkey up. An error goes with StandingUnknown.
func (v *Verifier) Standing(ctx context.Context, hotkey string, need Need) (Member, Standing, error) {
	var m Member
	if need.Registered || need.Validator || need.Coldkey != "" {
		ok := false
		var err error
		if v.Members != nil {
			if m, ok, err = v.Members.Member(ctx, hotkey); err != nil {
				return Member{}, StandingUnknown, err
			}
		}
		switch {
		case !ok:
			return Member{}, StandingUnregistered, nil
		case need.Validator && (!m.Validator || m.Stake < need.MinStake):
			return m, StandingNoValidator, nil
		case need.Coldkey != "" && m.Coldkey != need.Coldkey:
			return m, StandingNotOwner, nil
		}
	}
	if v.Banned != nil {
		banned, err := v.Banned(ctx, hotkey)
		if err != nil {
			return Member{}, StandingUnknown, fmt.Errorf("ask for bans: %w", err)
		}
		if banned {
			return m, StandingBanned, nil
		}
	}
	return m, StandingGood, nil
}
