package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
)

// Subnet says what a subnet is made of.
type Subnet struct {
	OwnerHotkey  string
	OwnerColdkey string
	// Hyper is nil for the preset's hyperparameters.
	Hyper *ledger.Hyperparameters
}

// EnsureSubnet makes subnet netuid with its owner's hotkey as uid 0. Where the
// subnet exists with the same owner nothing changes (its hyperparameters stay);
// another owner is an error.
func (l *Ledger) EnsureSubnet(ctx context.Context, netuid uint16, s Subnet) error {
	if netuid == 0 {
		return ledger.ErrRootRegistration
	}
	if err := checkAddresses(s.OwnerHotkey, s.OwnerColdkey); err != nil {
		return err
	}
	h := l.hyper
	if s.Hyper != nil {
		h = *s.Hyper
	}
	hyper, err := encodeHyper(h)
	if err != nil {
		return err
	}
	return l.write(ctx, func(tx *sql.Tx, block uint64) error {
		sub, err := readSubnet(ctx, tx, netuid)
		switch {
		case err == nil && (sub.ownerHotkey != s.OwnerHotkey || sub.ownerColdkey != s.OwnerColdkey):
			return fmt.Errorf("subnet %d belongs to %s, not to %s", netuid, sub.ownerHotkey, s.OwnerHotkey)
		case err == nil:
			return nil
		case !errors.Is(err, ledger.ErrSubnetNotExists):
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO subnets (netuid, owner_hotkey, owner_coldkey, hyper, created) VALUES (?, ?, ?, ?, ?)",
			netuid, s.OwnerHotkey, s.OwnerColdkey, hyper, int64(block)); err != nil {
			return fmt.Errorf("insert subnet: %w", err)
		}
		if err := own(ctx, tx, s.OwnerHotkey, s.OwnerColdkey); err != nil {
			return err
		}
		return insertNeuron(ctx, tx, netuid, 0, s.OwnerHotkey, block)
	})
}

// SetHyperparameters replaces the rules of a subnet.
func (l *Ledger) SetHyperparameters(ctx context.Context, netuid uint16, h ledger.Hyperparameters) error {
	hyper, err := encodeHyper(h)
	if err != nil {
		return err
	}
	return l.write(ctx, func(tx *sql.Tx, _ uint64) error {
		r, err := tx.ExecContext(ctx, "UPDATE subnets SET hyper = ? WHERE netuid = ?", hyper, netuid)
		return oneRow(r, err, ledger.ErrSubnetNotExists)
	})
}

// SetValidator gives or takes the validator permit of a registered hotkey and
// sets its stake, in rao. On a chain an epoch does this.
func (l *Ledger) SetValidator(ctx context.Context, netuid uint16, hotkey string, permit bool, stake uint64) error {
	if stake > math.MaxInt64 {
		return &agon.Error{Code: "too_large", Status: http.StatusUnprocessableEntity, Field: "stake", Limit: fmt.Sprintf("%d rao", int64(math.MaxInt64)), Message: "stake is too large"}
	}
	return l.write(ctx, func(tx *sql.Tx, _ uint64) error {
		if _, err := readSubnet(ctx, tx, netuid); err != nil {
			return err
		}
		r, err := tx.ExecContext(ctx, "UPDATE neurons SET permit = ?, stake = ? WHERE netuid = ? AND hotkey = ?", permit, int64(stake), netuid, hotkey)
		return oneRow(r, err, ledger.ErrNotRegistered)
	})
}

// Subnets lists the netuids, ascending.
func (l *Ledger) Subnets(ctx context.Context) ([]uint16, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT netuid FROM subnets ORDER BY netuid")
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	defer rows.Close()
	var out []uint16
	for rows.Next() {
		var n uint16
		if err := rows.Scan(&n); err != nil {
			return nil, fmt.Errorf("list subnets: %w", err)
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

// Register implements ledger.Writer. Registration is free here; a full subnet refuses.
func (l *Ledger) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uid uint16, err error) {
	if netuid == 0 {
		return 0, ledger.ErrRootRegistration
	}
	if err := checkAddresses(hotkey, coldkey); err != nil {
		return 0, err
	}
	err = l.write(ctx, func(tx *sql.Tx, block uint64) error {
		s, err := readSubnet(ctx, tx, netuid)
		if err != nil {
			return err
		}
		if !s.hyper.RegistrationOpen {
			return ledger.ErrRegistrationDisabled
		}
		if n, err := readNeuron(ctx, tx, netuid, hotkey); err == nil {
			return ledger.ErrAlreadyRegistered.With(fmt.Sprintf("hotkey is registered already, as uid %d", n.UID))
		} else if !errors.Is(err, ledger.ErrNotRegistered) {
			return err
		}
		if err := own(ctx, tx, hotkey, coldkey); err != nil {
			return err
		}
		count, err := countNeurons(ctx, tx, netuid)
		if err != nil {
			return err
		}
		if count >= int(s.hyper.MaxUIDs) {
			return ledger.ErrSubnetFull.With(fmt.Sprintf("subnet %d is full: %d uids", netuid, s.hyper.MaxUIDs))
		}
		uid = uint16(count) // uids have no gaps
		return insertNeuron(ctx, tx, netuid, uid, hotkey, block)
	})
	return uid, err
}

// own binds hotkey to coldkey, or checks that it is bound to it.
func own(ctx context.Context, tx *sql.Tx, hotkey, coldkey string) error {
	var owner string
	err := tx.QueryRowContext(ctx, "SELECT coldkey FROM owners WHERE hotkey = ?", hotkey).Scan(&owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if _, err := tx.ExecContext(ctx, "INSERT INTO owners (hotkey, coldkey) VALUES (?, ?)", hotkey, coldkey); err != nil {
			return fmt.Errorf("insert owner: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read owner: %w", err)
	case owner != coldkey:
		return ledger.ErrNonAssociatedColdkey
	}
	return nil
}

// insertNeuron registers hotkey. As on the chain the last update is the
// registration's block, so the first weights wait for the rate limit too.
func insertNeuron(ctx context.Context, tx *sql.Tx, netuid, uid uint16, hotkey string, block uint64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO neurons (netuid, uid, hotkey, permit, stake, registered, last_update) VALUES (?, ?, ?, FALSE, 0, ?, ?)",
		netuid, uid, hotkey, int64(block), int64(block))
	if err != nil {
		return fmt.Errorf("insert neuron: %w", err)
	}
	return nil
}

func checkAddresses(hotkey, coldkey string) error {
	for _, a := range []struct{ field, address string }{{"hotkey", hotkey}, {"coldkey", coldkey}} {
		if _, err := auth.ParseSS58(a.address); err != nil {
			return &agon.Error{Code: "bad_address", Status: http.StatusUnprocessableEntity, Field: a.field, Message: a.field + " is not an SS58 address with prefix 42", Err: err}
		}
	}
	return nil
}

func encodeHyper(h ledger.Hyperparameters) (string, error) {
	if h.MaxUIDs == 0 || h.Tempo == 0 {
		return "", errors.New("hyperparameters: tempo and max uids must be at least 1")
	}
	b, err := json.Marshal(h)
	return string(b), err
}

func oneRow(r sql.Result, err error, none error) error {
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err == nil && n == 0 {
		err = none
	}
	return err
}
