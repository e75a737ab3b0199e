package subtensor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/timelock"
)

var _ ledger.TimelockCommitter = (*Client)(nil)

const (
	blockTime = 12 * time.Second // where the metadata does not say
	// revealMargin is how many blocks into its epoch a reveal is aimed at: a block
	// that comes a little early must not open the weights before their time.
	revealMargin = 3
)

// blockTimeOf is how long a block takes.
func blockTimeOf(m *scale.Metadata) time.Duration {
	v, err := m.Constant("Aura", "SlotDuration")
	if ms, ok := v.(uint64); err == nil && ok && ms > 0 && ms < 600_000 {
		return time.Duration(ms) * time.Millisecond
	}
	return blockTime
}

// SealWeights implements ledger.TimelockCommitter.
func (c *Client) SealWeights(ctx context.Context, g *ledger.Metagraph, hotkey string, w ledger.Weights) (s ledger.Sealed, err error) {
	rt, err := c.runtime(ctx, "")
	if err != nil {
		return s, err
	}
	if !rt.meta.HasCall(module, "commit_timelocked_weights") {
		return s, ledger.ErrNoTimelocks
	}
	block, _, err := g.RevealBlock()
	if err != nil {
		return s, fmt.Errorf("foresee the reveal: %w", err)
	}
	s.Round = timelock.RoundAt(c.cfg.Now().Add(time.Duration(block+revealMargin-min(block, g.Block)) * blockTimeOf(rt.meta)))
	s.Data, err = seal(hotkey, w, s.Round)
	return s, err
}

// seal encrypts weights to a round, in the form that the chain reads.
func seal(hotkey string, w ledger.Weights, round uint64) ([]byte, error) {
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return nil, badAddress("hotkey", err)
	}
	plain, err := (&timelock.Payload{Hotkey: pub, UIDs: w.UIDs, Values: w.Values, VersionKey: w.VersionKey}).Encode()
	if err != nil {
		return nil, err
	}
	return timelock.Encrypt(nil, round, plain)
}

// version is the version of commit-reveal that the chain wants. One whose
// layout is not known here is an error.
func (c *Client) timelockVersion(ctx context.Context) (uint16, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return 0, err
	}
	v, err := c.get(ctx, m, at, module, "CommitRevealWeightsVersion")
	if errors.Is(err, scale.ErrUnknown) {
		return timelock.Version, nil
	}
	if err != nil {
		return 0, err
	}
	if n, _ := v.(uint64); n != timelock.Version {
		return 0, &ledger.Error{Name: "IncorrectCommitRevealVersion", Message: fmt.Sprintf("the chain wants version %v of commit-reveal, this software has %d", v, timelock.Version)}
	}
	return timelock.Version, nil
}

// CommitSealed implements ledger.TimelockCommitter.
func (c *Client) CommitSealed(ctx context.Context, netuid uint16, hotkey string, s ledger.Sealed) error {
	return c.CommitSealedMechanism(ctx, netuid, 0, hotkey, s)
}

// CommitSealedMechanism is CommitSealed for a mechanism of the subnet.
func (c *Client) CommitSealedMechanism(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, s ledger.Sealed) error {
	version, err := c.timelockVersion(ctx)
	if err != nil {
		return err
	}
	args := scale.Map{"netuid": netuid, "commit": s.Data, "reveal_round": s.Round, "commit_reveal_version": version}
	call := "commit_timelocked_weights"
	if mechanism > 0 {
		call, args["mecid"] = "commit_timelocked_mechanism_weights", mechanism
	}
	_, err = c.Submit(ctx, hotkey, module, call, args)
	return err
}

// CommitTimelocked commits weights that the chain reveals by itself when a
// drand round is out. It returns what was committed.
func (c *Client) CommitTimelocked(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, round uint64) ([]byte, error) {
	data, err := seal(hotkey, w, round)
	if err != nil {
		return nil, err
	}
	return data, c.CommitSealed(ctx, netuid, hotkey, ledger.Sealed{Round: round, Data: data})
}

// RoundSignature reads the signature of a drand round: from the chain, which
// keeps those of a week, else from the relays that were configured. It is
// checked against the network's key. ErrRoundNotOut says that it is not due yet.
func (c *Client) RoundSignature(ctx context.Context, round uint64) ([]byte, error) {
	if round > math.MaxInt32*16 || timelock.TimeOf(round).After(c.cfg.Now()) {
		return nil, ledger.ErrRoundNotOut
	}
	sig, err := c.pulse(ctx, round)
	if err == nil {
		return sig, nil
	}
	if len(c.cfg.Relays) > 0 {
		r := timelock.Relay{Hosts: c.cfg.Relays}
		more, rerr := r.Signature(ctx, round)
		if rerr == nil {
			return more, nil
		}
		err = errors.Join(err, rerr)
	}
	return nil, err
}

// pulse reads a round that the chain keeps.
func (c *Client) pulse(ctx context.Context, round uint64) ([]byte, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	v, err := c.get(ctx, m, at, "Drand", "Pulses", round)
	if err != nil {
		return nil, fmt.Errorf("read drand round %d: %w", round, err)
	}
	x, _ := v.(scale.Map)
	sig, _ := x["signature"].(scale.Bytes)
	if len(sig) == 0 {
		return nil, fmt.Errorf("drand round %d: %w: the chain does not have it", round, timelock.ErrNoBeacon)
	}
	if err := timelock.Verify(round, sig); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	return sig, nil
}

// OpenWeights implements ledger.TimelockCommitter.
func (c *Client) OpenWeights(ctx context.Context, hotkey string, s ledger.Sealed) (w ledger.Weights, err error) {
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return w, badAddress("hotkey", err)
	}
	sig, err := c.RoundSignature(ctx, s.Round)
	if err != nil {
		return w, err
	}
	plain, err := timelock.Decrypt(s.Data, sig)
	if err != nil {
		return w, fmt.Errorf("open the weights of round %d: %w", s.Round, err)
	}
	p, legacy, err := timelock.DecodePayload(plain)
	if err != nil {
		return w, fmt.Errorf("open the weights of round %d: %w", s.Round, err)
	}
	if !legacy && p.Hotkey != pub {
		return w, fmt.Errorf("open the weights of round %d: they are of another hotkey", s.Round)
	}
	return ledger.Weights{UIDs: p.UIDs, Values: p.Values, VersionKey: p.VersionKey}, nil
}
