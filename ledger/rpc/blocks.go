package rpc

import (
	"context"
	"slices"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Blocks is a Ledger that keeps what blocks told, so that they read alike after
// a restart.
type Blocks interface {
	Tell(ctx context.Context, t ledger.Told) error
	// Told lists the extrinsics of a block in their order.
	Told(ctx context.Context, block uint64) ([]ledger.Told, error)
}

// block holds what extrinsics left.
type block struct {
	extrinsics [][]byte
	events     []any
}

// begin notes which blocks are older than the server.
func (s *Server) begin() (err error) {
	if _, ok := s.cfg.Ledger.(Blocks); ok {
		s.began, err = s.cfg.Ledger.Block(context.Background())
	}
	return err
}

// block is what a block told; empty where nothing was in it.
func (s *Server) block(ctx context.Context, n uint64) (x block, err error) {
	s.mu.Lock()
	b, began := s.blocks[n], s.began
	if b != nil {
		x = block{slices.Clone(b.extrinsics), slices.Clone(b.events)}
	}
	s.mu.Unlock()
	kept, ok := s.cfg.Ledger.(Blocks)
	if b != nil || !ok || n > began {
		return x, nil
	}
	list, err := kept.Told(ctx, n)
	if err != nil {
		return x, err
	}
	_, item, err := s.meta.Storage("System", "Events")
	if err != nil {
		return x, err
	}
	for _, t := range list {
		v, err := scale.DecodeAll(item.Value, t.Events)
		if err != nil {
			return block{}, err
		}
		events, _ := v.([]any)
		x.extrinsics, x.events = append(x.extrinsics, t.Extrinsic), append(x.events, events...)
	}
	return x, nil
}

// timeOf is when a block was made.
func (s *Server) timeOf(ctx context.Context, n uint64) (time.Time, error) {
	now := s.cfg.Now()
	if s.cfg.BlockTime == 0 { // stepped by hand: time has nothing to do with blocks
		return now, nil
	}
	newest, err := s.cfg.Ledger.Block(ctx)
	return now.Add(-time.Duration(newest-min(n, newest)) * s.cfg.BlockTime), err
}

// record keeps what the extrinsic left in its block. Under submitting.
func (s *Server) record(ctx context.Context, number uint64, raw []byte, events []any, failure any) {
	s.mu.Lock()
	b := s.blocks[number]
	s.mu.Unlock()
	if b == nil {
		old, err := s.block(ctx, number) // of before a restart
		if err != nil {
			s.cfg.Log.Error("read a block", "block", number, "err", err)
		}
		b = &old
	}
	index := len(b.extrinsics) // only record, under submitting, makes it longer
	var left []any
	add := func(e any) {
		left = append(left, scale.Map{"phase": scale.Value{Name: "ApplyExtrinsic", Of: index}, "event": e, "topics": []any{}})
	}
	info := scale.Map{"weight": scale.Map{"ref_time": 0, "proof_size": 0}, "class": "Normal", "pays_fee": "No"}
	if failure != nil {
		add(scale.Value{Name: "System", Of: scale.Value{Name: "ExtrinsicFailed", Of: scale.Map{"dispatch_error": failure, "dispatch_info": info}}})
	} else {
		for _, e := range events {
			add(e)
		}
		add(scale.Value{Name: "System", Of: scale.Value{Name: "ExtrinsicSuccess", Of: scale.Map{"dispatch_info": info}}})
	}
	if err := s.tell(ctx, number, raw, left); err != nil {
		s.cfg.Log.Error("keep an extrinsic", "block", number, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks[number] == nil {
		s.blocks[number] = b
		if s.order = append(s.order, number); len(s.order) > s.most {
			delete(s.blocks, s.order[0])
			s.began = max(s.began, s.order[0]) // the ledger tells it from now on
			s.order = s.order[1:]
		}
	}
	b.extrinsics, b.events = append(b.extrinsics, raw), append(b.events, left...)
}

// tell hands an extrinsic to a ledger that keeps them.
func (s *Server) tell(ctx context.Context, number uint64, raw []byte, events []any) error {
	kept, ok := s.cfg.Ledger.(Blocks)
	if !ok {
		return nil
	}
	_, item, err := s.meta.Storage("System", "Events")
	if err != nil {
		return err
	}
	b, err := scale.Encode(nil, item.Value, events)
	if err != nil {
		return err
	}
	return kept.Tell(ctx, ledger.Told{Block: number, At: s.cfg.Now(), Extrinsic: raw, Events: b})
}
