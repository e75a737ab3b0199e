package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/timelock"
)

const (
	// maxSealed is how long timelocked weights may be, in bytes.
	maxSealed = 5000
	// sealedVersion is the layout of timelocked weights (commit-reveal 4).
	sealedVersion = 4
	// keepRounds is how many rounds of drand are kept.
	keepRounds = 1000
)

// CommitTimelocked takes weights that are opened with the signature of a drand
// round (AddRound), in the epoch in which they are to be revealed.
func (l *Ledger) CommitTimelocked(ctx context.Context, netuid uint16, hotkey string, data []byte, round uint64, version uint16) error {
	return l.CommitTimelockedMechanism(ctx, netuid, 0, hotkey, data, round, version)
}

// CommitTimelockedMechanism is CommitTimelocked for a mechanism of the subnet.
func (l *Ledger) CommitTimelockedMechanism(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, data []byte, round uint64, version uint16) error {
	if len(data) > maxSealed {
		return &agon.Error{Code: "too_large", Status: http.StatusUnprocessableEntity, Field: "commit", Limit: fmt.Sprintf("%d bytes", maxSealed), Message: "commit is too long"}
	}
	if version != sealedVersion {
		return ledger.ErrCommitRevealVersion.With(fmt.Sprintf("layout %d: want %d", version, sealedVersion))
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callSealed, Netuid: netuid, Mechanism: mechanism, Hotkey: hotkey, Data: data, Round: round})
	return err
}

// Drand is the key of the network that signs the ledger's rounds.
func (l *Ledger) Drand() timelock.Key { return l.drand }

// AddRound takes the signature of a round (Drand), and opens what waits for it.
func (l *Ledger) AddRound(ctx context.Context, round uint64, signature []byte) error {
	if err := l.drand.Verify(round, signature); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callRound, Round: round, Data: signature})
	return err
}

// Pulse is the signature of a round; nil: the ledger has none.
func (l *Ledger) Pulse(ctx context.Context, round uint64) (signature []byte, err error) {
	err = l.view(ctx, func(s *state) error {
		signature = s.Rounds[round]
		return nil
	})
	return signature, err
}

// LastRound is the newest round that the ledger has; 0 = none.
func (l *Ledger) LastRound(ctx context.Context) (round uint64, err error) {
	err = l.view(ctx, func(s *state) error {
		round = s.LastRound
		return nil
	})
	return round, err
}

// Timelocked lists the weights of a subnet that are not opened, oldest first.
func (l *Ledger) Timelocked(ctx context.Context, netuid uint16) (out []ledger.SealedCommit, err error) {
	err = l.view(ctx, func(s *state) error {
		sub, err := s.subnet(netuid)
		if err != nil {
			return err
		}
		out = slices.Clone(sub.Sealed)
		return nil
	})
	return out, err
}

// Wanted lists the rounds that something waits for, ascending.
func (l *Ledger) Wanted(ctx context.Context) (rounds []uint64, err error) {
	err = l.view(ctx, func(s *state) error {
		for _, netuid := range s.order {
			for _, c := range s.Subnets[netuid].Sealed {
				rounds = append(rounds, c.RevealRound)
			}
			for _, c := range s.Subnets[netuid].Commitments {
				for _, f := range c.Fields {
					if f.Type == ledger.FieldTimelock {
						rounds = append(rounds, f.Round)
					}
				}
			}
		}
		slices.Sort(rounds)
		rounds = slices.DeleteFunc(slices.Compact(rounds), func(r uint64) bool { return s.Rounds[r] != nil })
		return nil
	})
	return rounds, err
}

func (s *state) commitSealed(x *extrinsic) error {
	if x.Netuid == 0 {
		return ledger.ErrRootWeights
	}
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	if !sub.Hyper.CommitReveal {
		return ledger.ErrCommitRevealDisabled
	}
	if x.Round < s.LastRound {
		return ledger.ErrInvalidRevealRound.With(fmt.Sprintf("round %d is over: the newest is %d", x.Round, s.LastRound))
	}
	b, epoch, err := s.mayCommit(x)
	if err != nil {
		return err
	}
	open := 0
	for _, c := range sub.Sealed {
		if c.Hotkey == x.Hotkey && c.Mechanism == x.Mechanism {
			open++
		}
	}
	if open >= maxOpenCommits {
		return ledger.ErrTooManyCommits.With(fmt.Sprintf("%d weight commits wait to be opened", open))
	}
	sub.Sealed = append(sub.Sealed, ledger.SealedCommit{Hotkey: x.Hotkey, Epoch: epoch, Block: s.Block, Data: x.Data, RevealRound: x.Round, Mechanism: x.Mechanism})
	b.LastUpdate = s.Block
	return nil
}

// addRound keeps a round and opens what waits for it.
func (s *state) addRound(x *extrinsic) error {
	if s.Rounds[x.Round] != nil {
		return errUnchanged
	}
	s.Rounds[x.Round] = x.Data
	s.LastRound = max(s.LastRound, x.Round)
	for _, netuid := range s.order {
		s.openSealed(netuid, s.Subnets[netuid])
		s.openCommitments(s.Subnets[netuid])
	}
	for round := range s.Rounds {
		if round+keepRounds < s.LastRound {
			delete(s.Rounds, round)
		}
	}
	return nil
}

// openSealed sets the weights whose epoch it is and whose round is out. What is
// of an older epoch, cannot be opened, or may not be set, is dropped.
func (s *state) openSealed(netuid uint16, sub *subnet) {
	epoch, period := sub.epochIndex(netuid, s.Block), sub.Hyper.RevealEpochs()
	var left []ledger.SealedCommit
	for _, c := range sub.Sealed {
		switch at := c.Epoch + period; {
		case at < epoch:
			continue
		case at > epoch || s.Rounds[c.RevealRound] == nil:
			left = append(left, c)
			continue
		}
		w, err := openWeights(c, s.Rounds[c.RevealRound])
		if err != nil {
			continue
		}
		if n, err := s.checkWeights(&extrinsic{Netuid: netuid, Mechanism: c.Mechanism, Hotkey: c.Hotkey, Weights: &w}); err == nil {
			n.set(sub.rowOf(&w), s.Block)
		}
	}
	sub.Sealed = left
}

func openWeights(c ledger.SealedCommit, signature []byte) (w ledger.Weights, err error) {
	plain, err := timelock.Decrypt(c.Data, signature)
	if err != nil {
		return w, err
	}
	p, legacy, err := timelock.DecodePayload(plain)
	if err != nil {
		return w, err
	}
	if pub, err := auth.ParseSS58(c.Hotkey); err != nil || !legacy && p.Hotkey != pub {
		return w, ledger.ErrBadOrigin
	}
	return ledger.Weights{UIDs: p.UIDs, Values: p.Values, VersionKey: p.VersionKey}, nil
}

// sealedOf are a hotkey's timelocked weights, as its metagraph has them.
func (sub *subnet) sealedOf(hotkey string, mechanism uint8) (out []ledger.WeightCommit) {
	for _, c := range sub.Sealed {
		if c.Hotkey == hotkey && c.Mechanism == mechanism {
			out = append(out, ledger.WeightCommit{Hash: blake2b.Sum256(c.Data), Epoch: c.Epoch, Block: c.Block, Round: c.RevealRound})
		}
	}
	return out
}

// FollowRounds takes the rounds that something waits for from a source, such as
// drand's relays, until ctx ends. What the source has not yet is asked for again.
func (l *Ledger) FollowRounds(ctx context.Context, every time.Duration, source func(ctx context.Context, round uint64) ([]byte, error), log *slog.Logger) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		if err := l.fetchRounds(ctx, source); err != nil && ctx.Err() == nil {
			log.Warn("rounds of drand", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (l *Ledger) fetchRounds(ctx context.Context, source func(ctx context.Context, round uint64) ([]byte, error)) error {
	rounds, err := l.Wanted(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, round := range rounds {
		if round == 0 {
			continue // drand has none
		}
		if timelock.TimeOf(round).After(l.now()) {
			break // ascending
		}
		// One that cannot be had, as of a round that somebody made up, keeps no other from coming.
		signature, err := source(ctx, round)
		if err == nil {
			err = l.AddRound(ctx, round, signature)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("round %d: %w", round, err))
		}
	}
	return failed
}
