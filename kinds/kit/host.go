package kit

import (
	"context"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/engine/platform"
)

// Replay is the replay guard of verifiers: nonces are kept in the store.
func (s *Server) Replay() auth.ReplayGuard { return replay{s.Platform} }

// Members says who is on an arena's subnet, from the ledger that it is on.
func (s *Server) Members(arena string) dialect.Registry { return members{s, arena} }

// replay makes the platform the verifier's replay guard.
type replay struct{ p *platform.Platform }

func (r replay) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	return r.p.Replay(ctx, scheme, hotkey, nonce, until)
}

// members tells who is on an arena's subnet, from the embedded ledger.
type members struct {
	s     *Server
	arena string
}

func (m members) Member(ctx context.Context, hotkey string) (dialect.Member, bool, error) {
	a, err := m.s.Platform.Arena(ctx, m.arena)
	if err != nil {
		return dialect.Member{}, false, err
	}
	g, err := Chain{m.s.Graphs(a.Arena)}.Metagraph(ctx, a.Netuid)
	if err != nil {
		return dialect.Member{}, false, err
	}
	for _, n := range g.Neurons {
		if n.Hotkey == hotkey {
			return dialect.Member{Hotkey: n.Hotkey, Coldkey: n.Coldkey, UID: n.UID, Validator: n.Validator, Stake: n.Stake}, true, nil
		}
	}
	return dialect.Member{}, false, nil
}

// Err0 forgives an error of a ledger elsewhere, but not the end of ctx.
func Err0(ctx context.Context, err error) error {
	if err != nil {
		return ctx.Err()
	}
	return nil
}
