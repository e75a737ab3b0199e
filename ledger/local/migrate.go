package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/yuma"
)

// migrate1 reads the tables of schema 1 into s, which becomes the first
// snapshot, keeps the history of commitments as log entries before it, and
// drops the tables. It returns the seq of the snapshot.
func migrate1(ctx context.Context, tx *sql.Tx, s *state) (int64, error) {
	var newest int64
	if err := tx.QueryRowContext(ctx, "SELECT newest FROM chain").Scan(&newest); err != nil {
		return 0, err
	}
	s.Block = uint64(newest)
	if err := each(ctx, tx, "SELECT hotkey, coldkey FROM owners", func(scan func(...any) error) error {
		var hotkey, coldkey string
		err := scan(&hotkey, &coldkey)
		s.Owners[hotkey] = coldkey
		return err
	}); err != nil {
		return 0, err
	}
	if err := each(ctx, tx, "SELECT netuid, owner_hotkey, owner_coldkey, hyper FROM subnets", func(scan func(...any) error) error {
		var netuid uint16
		var hyper []byte
		sub := &subnet{
			Epoch: ledger.Epoch{LastBlock: s.Block, Since: s.Block}, PriceAt: s.Block, PotAt: s.Block,
			stakeBook: stakeBook{Stakes: map[string]uint64{}}, Commitments: map[string]*commitment{}, uids: map[string]int{},
		}
		if err := scan(&netuid, &sub.OwnerHotkey, &sub.OwnerColdkey, &hyper); err != nil {
			return err
		}
		s.Subnets[netuid] = sub
		return json.Unmarshal(hyper, &sub.Hyper)
	}); err != nil {
		return 0, err
	}
	if err := each(ctx, tx, "SELECT netuid, hotkey, permit, stake, registered, last_update FROM neurons ORDER BY netuid, uid", func(scan func(...any) error) error {
		var netuid uint16
		var stake, registered, update int64
		n := &neuron{Active: true}
		if err := scan(&netuid, &n.Hotkey, &n.Permit, &stake, &registered, &update); err != nil {
			return err
		}
		n.RegisteredAt, n.LastUpdate = uint64(registered), uint64(update)
		sub := s.Subnets[netuid]
		if sub == nil {
			return fmt.Errorf("a neuron of no subnet %d", netuid)
		}
		sub.Stakes[n.Hotkey] = uint64(stake)
		sub.Neurons = append(sub.Neurons, n)
		return nil
	}); err != nil {
		return 0, err
	}
	if err := each(ctx, tx, "SELECT netuid, uid, block, uids, vals FROM weights", func(scan func(...any) error) error {
		var netuid, uid uint16
		var block int64
		var uids, values []byte
		var w ledger.Weights
		if err := scan(&netuid, &uid, &block, &uids, &values); err != nil {
			return err
		}
		if err := json.Unmarshal(uids, &w.UIDs); err != nil {
			return err
		}
		if err := json.Unmarshal(values, &w.Values); err != nil {
			return err
		}
		sub := s.Subnets[netuid]
		if sub == nil || int(uid) >= len(sub.Neurons) || len(w.UIDs) != len(w.Values) {
			return fmt.Errorf("weights of no uid %d", uid)
		}
		n := sub.Neurons[uid]
		n.Weights, n.WeightsAt, n.HasWeights = make([]yuma.Pair, len(w.UIDs)), uint64(block), true
		for i := range w.UIDs {
			n.Weights[i] = yuma.Pair{UID: w.UIDs[i], Value: w.Values[i]}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	s.order = slices.Sorted(maps.Keys(s.Subnets))
	if _, err := tx.ExecContext(ctx, schema2); err != nil {
		return 0, err
	}
	seq, err := migrateCommitments(ctx, tx, s)
	if err != nil {
		return 0, err
	}
	for _, table := range []string{"subnets", "owners", "neurons", "weights", "commitments"} {
		if _, err := tx.ExecContext(ctx, "DROP TABLE "+table); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

func migrateCommitments(ctx context.Context, tx *sql.Tx, s *state) (seq int64, err error) {
	type row struct {
		x     extrinsic
		block uint64
	}
	var all []row
	if err := each(ctx, tx, "SELECT netuid, hotkey, block, fields FROM commitments ORDER BY id", func(scan func(...any) error) error {
		r := row{x: extrinsic{Call: callCommit}}
		var block int64
		var fields []byte
		if err := scan(&r.x.Netuid, &r.x.Hotkey, &block, &fields); err != nil {
			return err
		}
		r.block = uint64(block)
		all = append(all, r)
		return json.Unmarshal(fields, &all[len(all)-1].x.Fields)
	}); err != nil {
		return 0, err
	}
	for _, r := range all {
		body, err := json.Marshal(r.x)
		if err != nil {
			return 0, err
		}
		seq++
		if _, err := tx.ExecContext(ctx, "INSERT INTO log (seq, block, call, netuid, hotkey, body) VALUES (?, ?, ?, ?, ?, ?)",
			seq, int64(r.block), r.x.Call, r.x.Netuid, r.x.Hotkey, body); err != nil {
			return 0, err
		}
		if sub := s.Subnets[r.x.Netuid]; sub != nil {
			sub.Commitments[r.x.Hotkey] = &commitment{Block: r.block, Fields: nonNil(r.x.Fields)}
		}
	}
	return seq, nil
}

// each calls f with every row of a query; f must not make another statement.
func each(ctx context.Context, tx *sql.Tx, query string, f func(scan func(...any) error) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
