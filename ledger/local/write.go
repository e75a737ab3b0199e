package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/ledger"
)

// SetWeights implements ledger.Writer with the chain's checks in the chain's
// order (spec/chain.md 2.7), and stores the weights scaled up.
func (l *Ledger) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	if netuid == 0 {
		return ledger.ErrRootWeights
	}
	return l.write(ctx, func(tx *sql.Tx, block uint64) error {
		s, err := readSubnet(ctx, tx, netuid)
		if err != nil {
			return err
		}
		n, err := checkWeights(ctx, tx, netuid, s, hotkey, w, block)
		if err != nil {
			return err
		}
		uids, err := json.Marshal(nonNil(w.UIDs))
		if err != nil {
			return err
		}
		values, err := json.Marshal(ledger.MaxUpscale(w.Values))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO weights (netuid, uid, block, uids, vals) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (netuid, uid) DO UPDATE SET block = excluded.block, uids = excluded.uids, vals = excluded.vals`,
			netuid, n.UID, int64(block), string(uids), string(values)); err != nil {
			return fmt.Errorf("store weights: %w", err)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE neurons SET last_update = ? WHERE netuid = ? AND uid = ?", int64(block), netuid, n.UID); err != nil {
			return fmt.Errorf("store last update: %w", err)
		}
		return nil
	})
}

func checkWeights(ctx context.Context, tx *sql.Tx, netuid uint16, s subnet, hotkey string, w ledger.Weights, block uint64) (ledger.Neuron, error) {
	// The call itself is closed where weights are committed and revealed, before anything is looked at.
	if s.hyper.CommitReveal {
		return ledger.Neuron{}, ledger.ErrCommitRevealEnabled
	}
	if len(w.UIDs) != len(w.Values) {
		return ledger.Neuron{}, ledger.ErrUnequalLengths.With(fmt.Sprintf("%d uids and %d values", len(w.UIDs), len(w.Values)))
	}
	count, err := countNeurons(ctx, tx, netuid)
	if err != nil {
		return ledger.Neuron{}, err
	}
	if len(w.UIDs) > count {
		return ledger.Neuron{}, ledger.ErrTooManyUIDs.With(fmt.Sprintf("%d uids: the subnet has %d", len(w.UIDs), count))
	}
	n, err := readNeuron(ctx, tx, netuid, hotkey)
	if err != nil {
		return n, err
	}
	owner := hotkey == s.ownerHotkey
	selfOnly := len(w.UIDs) == 1 && w.UIDs[0] == n.UID
	h := s.hyper
	switch {
	case n.Stake < h.StakeThreshold && !owner:
		return n, ledger.ErrNotEnoughStake.With(fmt.Sprintf("stake %d rao: the threshold is %d", n.Stake, h.StakeThreshold))
	case h.WeightsVersionKey > 0 && w.VersionKey < h.WeightsVersionKey:
		return n, ledger.ErrVersionKey.With(fmt.Sprintf("version key %d: want at least %d", w.VersionKey, h.WeightsVersionKey))
	case n.LastUpdate != 0 && block-n.LastUpdate < h.WeightsRateLimit:
		return n, ledger.ErrSettingWeightsTooFast.With(fmt.Sprintf("block %d: next at block %d", block, n.LastUpdate+h.WeightsRateLimit))
	case !n.Permit && !owner && !selfOnly:
		return n, ledger.ErrNoPermit
	}
	seen := make(map[uint16]bool, len(w.UIDs))
	for _, uid := range w.UIDs {
		if seen[uid] {
			return n, ledger.ErrDuplicateUIDs.With(fmt.Sprintf("uid %d is given twice", uid))
		}
		seen[uid] = true
	}
	for _, uid := range w.UIDs {
		if int(uid) >= count {
			return n, ledger.ErrInvalidUID.With(fmt.Sprintf("uid %d does not exist: the subnet has %d", uid, count))
		}
	}
	if least := min(int(h.MinAllowedWeights), count); len(w.UIDs) < least && !selfOnly {
		return n, ledger.ErrTooFewWeights.With(fmt.Sprintf("%d weights: want at least %d", len(w.UIDs), least))
	}
	return n, nil
}

// Limits of a commitment (spec/chain.md 2.6).
const (
	maxFields = 3
	minSpace  = 100 // what a commitment costs at least
)

// Commit implements ledger.Writer. It is free; the space per hotkey and epoch is bounded.
func (l *Ledger) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (block uint64, err error) {
	space, err := fieldSpace(fields)
	if err != nil {
		return 0, err
	}
	encoded, err := json.Marshal(nonNil(fields))
	if err != nil {
		return 0, fmt.Errorf("encode commitment: %w", err)
	}
	err = l.write(ctx, func(tx *sql.Tx, at uint64) error {
		block = at
		s, err := readSubnet(ctx, tx, netuid)
		if err != nil {
			return err
		}
		if _, err := readNeuron(ctx, tx, netuid, hotkey); errors.Is(err, ledger.ErrNotRegistered) {
			return ledger.ErrAccountMayNotCommit.With("only hotkeys that are registered on the subnet may commit")
		} else if err != nil {
			return err
		}
		var used uint64
		from := epochStart(netuid, s.hyper.Tempo, at)
		if err := tx.QueryRowContext(ctx, "SELECT COALESCE(SUM(space), 0) FROM commitments WHERE netuid = ? AND hotkey = ? AND block >= ?",
			netuid, hotkey, int64(from)).Scan(&used); err != nil {
			return fmt.Errorf("read commitment space: %w", err)
		}
		if used+space > s.hyper.CommitmentSpace {
			return ledger.ErrCommitmentSpace.With(fmt.Sprintf("%d bytes: %d of %d are used until block %d",
				space, used, s.hyper.CommitmentSpace, from+uint64(s.hyper.Tempo)+1))
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO commitments (netuid, hotkey, block, space, fields) VALUES (?, ?, ?, ?, ?)",
			netuid, hotkey, int64(at), int64(space), string(encoded)); err != nil {
			return fmt.Errorf("store commitment: %w", err)
		}
		return nil
	})
	return block, err
}

// fieldSpace checks the fields and returns what they cost.
func fieldSpace(fields []ledger.Field) (uint64, error) {
	if len(fields) > maxFields {
		return 0, ledger.ErrTooManyFields.With(fmt.Sprintf("%d fields: at most %d", len(fields), maxFields))
	}
	space := 0
	for i, f := range fields {
		least, most := 0, 0
		switch f.Type {
		case ledger.FieldRaw:
			most = 128
		case ledger.FieldBigRaw:
			most = 512
		case ledger.FieldSha256:
			least, most = 32, 32
		default:
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d: unknown form %q", i, f.Type))
		}
		if len(f.Data) < least || len(f.Data) > most {
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d of %d bytes: a %s field has %d to %d", i, len(f.Data), f.Type, least, most))
		}
		space += len(f.Data)
	}
	return uint64(max(space, minSpace)), nil
}

// epochStart is the first block of the epoch of block, by the formula
// (block + netuid + 1) mod (tempo + 1): 0 ends an epoch.
func epochStart(netuid, tempo uint16, block uint64) uint64 {
	into := (block + uint64(netuid) + 1) % (uint64(tempo) + 1)
	return block - min(into, block)
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
