package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/ledger"
)

type subnet struct {
	ownerHotkey, ownerColdkey string
	hyper                     ledger.Hyperparameters
}

func readSubnet(ctx context.Context, tx *sql.Tx, netuid uint16) (s subnet, err error) {
	var hyper []byte
	err = tx.QueryRowContext(ctx, "SELECT owner_hotkey, owner_coldkey, hyper FROM subnets WHERE netuid = ?", netuid).
		Scan(&s.ownerHotkey, &s.ownerColdkey, &hyper)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return s, ledger.ErrSubnetNotExists.With(fmt.Sprintf("subnet %d does not exist", netuid))
	case err != nil:
		return s, fmt.Errorf("read subnet: %w", err)
	}
	if err := json.Unmarshal(hyper, &s.hyper); err != nil {
		return s, fmt.Errorf("read hyperparameters: %w", err)
	}
	return s, nil
}

const neuronColumns = "SELECT n.uid, n.hotkey, o.coldkey, n.permit, n.stake, n.registered, n.last_update FROM neurons n JOIN owners o ON o.hotkey = n.hotkey "

func scanNeuron(scan func(...any) error) (n ledger.Neuron, err error) {
	var stake, registered, update int64 // as SQL stores them
	err = scan(&n.UID, &n.Hotkey, &n.Coldkey, &n.Permit, &stake, &registered, &update)
	n.Stake, n.RegisteredAt, n.LastUpdate = uint64(stake), uint64(registered), uint64(update)
	return n, err
}

func readNeuron(ctx context.Context, tx *sql.Tx, netuid uint16, hotkey string) (ledger.Neuron, error) {
	n, err := scanNeuron(tx.QueryRowContext(ctx, neuronColumns+"WHERE n.netuid = ? AND n.hotkey = ?", netuid, hotkey).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return n, ledger.ErrNotRegistered.With(fmt.Sprintf("hotkey is not registered on subnet %d", netuid))
	case err != nil:
		return n, fmt.Errorf("read neuron: %w", err)
	}
	return n, nil
}

func countNeurons(ctx context.Context, tx *sql.Tx, netuid uint16) (n int, err error) {
	if err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM neurons WHERE netuid = ?", netuid).Scan(&n); err != nil {
		err = fmt.Errorf("count neurons: %w", err)
	}
	return n, err
}

// Metagraph implements ledger.Reader.
func (l *Ledger) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	m := &ledger.Metagraph{Netuid: netuid}
	err := l.tx(ctx, func(tx *sql.Tx) error {
		s, err := readSubnet(ctx, tx, netuid)
		if err != nil {
			return err
		}
		m.Block, m.OwnerHotkey, m.OwnerColdkey, m.Hyper = l.block(), s.ownerHotkey, s.ownerColdkey, s.hyper
		m.Neurons, err = list(ctx, tx, scanNeuron, neuronColumns+"WHERE n.netuid = ? ORDER BY n.uid", netuid)
		if err != nil {
			return fmt.Errorf("list neurons: %w", err)
		}
		m.Weights, err = list(ctx, tx, scanWeights, "SELECT uid, block, uids, vals FROM weights WHERE netuid = ? ORDER BY uid", netuid)
		if err != nil {
			return fmt.Errorf("list weights: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func scanWeights(scan func(...any) error) (w ledger.WeightRow, err error) {
	var block int64
	var uids, values []byte
	if err := scan(&w.UID, &block, &uids, &values); err != nil {
		return w, err
	}
	w.Block = uint64(block)
	return w, errors.Join(json.Unmarshal(uids, &w.UIDs), json.Unmarshal(values, &w.Values))
}

// Commitments implements ledger.Reader.
func (l *Ledger) Commitments(ctx context.Context, netuid uint16) (out []ledger.Commitment, err error) {
	err = l.tx(ctx, func(tx *sql.Tx) error {
		if _, err := readSubnet(ctx, tx, netuid); err != nil {
			return err
		}
		out, err = list(ctx, tx, scanCommitment(netuid), `SELECT c.hotkey, c.block, c.fields FROM neurons n
			JOIN commitments c ON c.id = (SELECT MAX(id) FROM commitments WHERE netuid = n.netuid AND hotkey = n.hotkey)
			WHERE n.netuid = ? ORDER BY n.uid`, netuid)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list commitments: %w", err)
	}
	return out, nil
}

// History implements ledger.Reader.
func (l *Ledger) History(ctx context.Context, netuid uint16, hotkey string, from uint64) (out []ledger.Commitment, err error) {
	if from > maxBlock {
		from = maxBlock
	}
	err = l.tx(ctx, func(tx *sql.Tx) error {
		if _, err := readSubnet(ctx, tx, netuid); err != nil {
			return err
		}
		out, err = list(ctx, tx, scanCommitment(netuid),
			"SELECT hotkey, block, fields FROM commitments WHERE netuid = ? AND hotkey = ? AND block >= ? ORDER BY id", netuid, hotkey, int64(from))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list commitments of a hotkey: %w", err)
	}
	return out, nil
}

// maxBlock is more than any clock reaches and fits SQL's integers.
const maxBlock = 1 << 62

func scanCommitment(netuid uint16) func(func(...any) error) (ledger.Commitment, error) {
	return func(scan func(...any) error) (ledger.Commitment, error) {
		c := ledger.Commitment{Netuid: netuid}
		var block int64
		var fields []byte
		if err := scan(&c.Hotkey, &block, &fields); err != nil {
			return c, err
		}
		c.Block = uint64(block)
		return c, json.Unmarshal(fields, &c.Fields)
	}
}

// list reads all rows of a query before it returns, so that the connection is free.
func list[T any](ctx context.Context, tx *sql.Tx, scan func(func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := []T{}
	for rows.Next() {
		v, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}
