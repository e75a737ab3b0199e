package platform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// The operator makes the secrets of the periods, and could make secrets until one draws
// a set that suits the operator. Where the supply says so, a set is also drawn by a round
// of drand that comes after the commitment of the secret is public.

// Rounds are those of a public beacon.
type Rounds interface {
	// After returns the first round at or after a time, and when it comes.
	After(t time.Time) (round uint64, at time.Time)
	// Signature returns the checked signature of a round. An error: it is not published yet, or no relay answers.
	Signature(ctx context.Context, round uint64) ([]byte, error)
}

// Waits for a round without which an arena cannot go on.
const (
	roundWait  = 2 * time.Minute
	roundPause = time.Second
)

// worldSecret is the secret that the set of a period is drawn by, with the round of drand
// that is in it. A period that was committed to before anybody wrote down when is drawn by
// its own secret.
func (p *Platform) worldSecret(ctx context.Context, a agon.Arena, x store.SeedPeriod, needed bool) (string, *store.Drand, error) {
	if a.Supply.Beacon != agon.BeaconDrand || x.CommittedAt.IsZero() {
		return x.Secret, nil, nil
	}
	round, at := p.cfg.Rounds.After(x.CommittedAt.Add(agon.DrandOffset))
	if !needed && at.After(p.now()) {
		return "", nil, ErrDrawing
	}
	sig, err := p.signature(ctx, round, needed)
	if err != nil {
		return "", nil, fmt.Errorf("the set is drawn by a round of drand: %w", err)
	}
	randomness := sha256.Sum256(sig)
	secret, err := seeds.World(x.Secret, randomness[:])
	return secret, &store.Drand{Round: round, Signature: hex.EncodeToString(sig)}, err
}

// signature asks for a round; where the arena cannot go on without it, until it is there or
// roundWait is over.
func (p *Platform) signature(ctx context.Context, round uint64, needed bool) ([]byte, error) {
	for waited := time.Duration(0); ; waited += roundPause {
		sig, err := p.cfg.Rounds.Signature(ctx, round)
		if err == nil || !needed || waited >= roundWait {
			return sig, err
		}
		t := time.NewTimer(roundPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

func drandView(d *store.Drand) *client.Drand {
	if d == nil {
		return nil
	}
	x := &client.Drand{Round: d.Round, Signature: d.Signature}
	if b, err := hex.DecodeString(d.Signature); err == nil {
		x.Randomness = agon.Sum(b).Hex()
	}
	return x
}
