package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/trie"
)

// Headers is a Ledger that keeps headers and the states of its last blocks. On it
// a block's hash is that of its header, which names the header before, the
// extrinsics and the state; another ledger's blocks are named by their number.
type Headers interface {
	Historic
	// KeepHeaders keeps headers, each once.
	KeepHeaders(ctx context.Context, list []ledger.Header) error
	// HeaderBefore is the newest kept one up to a block; false: there is none.
	HeaderBefore(ctx context.Context, number uint64) (ledger.Header, bool, error)
	// Changed lists the blocks after from and not after to that changed the state.
	Changed(ctx context.Context, from, to uint64) ([]uint64, error)
	// ToldIn lists the blocks after from and not after to that have extrinsics (Blocks).
	ToldIn(ctx context.Context, from, to uint64) ([]uint64, error)
}

const (
	// keptEvery is after how many blocks a header is kept although nothing happened.
	keptEvery = 1024
	// recent is how many blocks of before a restart are known by their hash.
	recent = 256
	// KeptStates is of how many blocks a served ledger keeps states, so that its headers name them.
	KeptStates = stateWindow
	// sealedBlocks is how many blocks end before they are sealed at the latest.
	sealedBlocks = 32
	// maxHeaders is how many headers are in memory.
	maxHeaders = 8192
)

// clocked are items that change with every block and are not in the root of the state.
var clocked = []string{
	"System.Number", "System.ParentHash", "System.BlockHash", "System.Events", "System.EventCount", "Timestamp.Now", "SubtensorModule.Burn", "SubtensorModule.BlocksSinceLastStep",
}

// everyBlock are items that each block changes where subnets have pools. There they are in
// the root, which is another with each block; elsewhere they are not.
var everyBlock = []string{
	"SubtensorModule.SubnetTAO", "SubtensorModule.SubnetAlphaIn", "SubtensorModule.SubnetAlphaOut", "SubtensorModule.SubnetVolume", "SubtensorModule.SubnetMovingPrice",
	"SubtensorModule.SubnetProtocolAlpha", "SubtensorModule.SubnetTaoInEmission", "SubtensorModule.SubnetAlphaInEmission", "SubtensorModule.SubnetAlphaOutEmission",
	"SubtensorModule.SubnetExcessTao", "SubtensorModule.PendingServerEmission", "SubtensorModule.PendingValidatorEmission", "SubtensorModule.PendingRootAlphaDivs",
	"SubtensorModule.PendingOwnerCut", "SubtensorModule.RootProp", "SubtensorModule.TotalStake", "SubtensorModule.TotalIssuance", "Balances.TotalIssuance", "Swap.SwapBalancer",
}

// sealer makes headers. Its fields are guarded by Server.sealing.
type sealer struct {
	kept    Headers // nil: blocks are named by their number
	last    ledger.Header
	fresh   bool // no block since the start has been sealed
	headers map[uint64]ledger.Header
	tries   []*trieAt
	still   []trie.Entry // of the newest sealed state, but for what every block changes; nil = not known
}

type trieAt struct {
	block uint64
	*trie.Trie
}

// noExtrinsics is the root of an empty list.
var noExtrinsics = func() [32]byte {
	root, err := trie.Ordered(trie.V0, nil)
	if err != nil {
		panic(err) // an empty list has no double keys
	}
	return root
}()

// beginSealing finds the last header that is kept.
func (s *Server) beginSealing(ctx context.Context) error {
	h, ok := s.cfg.Ledger.(Headers)
	if !ok || s.cfg.BlockTime == 0 {
		return nil
	}
	newest, err := s.cfg.Ledger.Block(ctx)
	if err != nil {
		return err
	}
	if _, err := h.At(ctx, newest); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
		return err
	}
	s.sealer = sealer{kept: h, fresh: true, headers: map[uint64]ledger.Header{}}
	last, ok, err := h.HeaderBefore(ctx, 1<<62)
	if err != nil {
		return err
	}
	if !ok {
		var name [32]byte
		copy(name[:], s.genesis[:])
		last = s.follow(ledger.Header{}, 0, name, noExtrinsics) // the genesis: its state is the ledger's name
		if err := h.KeepHeaders(ctx, []ledger.Header{last}); err != nil {
			return err
		}
	}
	s.sealer.last = last
	s.remember(last)
	first, _, err := h.HeaderBefore(ctx, 0)
	s.first = first.Hash
	// Hashes of before a restart, to which extrinsics on their way are bound.
	for n := last.Number - min(last.Number, recent); n < last.Number && err == nil; n++ {
		_, err = s.headerOf(ctx, n)
	}
	return err
}

// follow is the header after another.
func (s *Server) follow(last ledger.Header, number uint64, state, extrinsics [32]byte) ledger.Header {
	b := append(append([]byte{}, last.Hash[:]...), scale.AppendCompact(nil, number)...)
	b = append(append(append(b, state[:]...), extrinsics[:]...), 0) // no digests
	return ledger.Header{Number: number, Hash: scale.Hash(b), StateRoot: state, ExtrinsicsRoot: extrinsics}
}

// remember keeps a header in memory. s.sealing is held.
func (s *Server) remember(h ledger.Header) {
	if len(s.sealer.headers) >= maxHeaders {
		clear(s.sealer.headers)
	}
	s.sealer.headers[h.Number] = h
	s.named(h.Hash, h.Number)
}

// named remembers the number of a block by its hash.
func (s *Server) named(hash [32]byte, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.aliases) >= maxAliases {
		clear(s.aliases)
	}
	s.aliases[hash] = n
}

// seal makes the headers of the blocks that are over, up to one. s.sealing is held.
func (s *Server) seal(ctx context.Context, to uint64) error {
	if to <= s.sealer.last.Number {
		return nil
	}
	changed, err := s.sealer.kept.Changed(ctx, s.sealer.last.Number, to)
	if err != nil {
		return err
	}
	told, err := s.sealer.kept.ToldIn(ctx, s.sealer.last.Number, to)
	if err != nil {
		return err
	}
	var keep []ledger.Header
	last := s.sealer.last
	// On the way to the newest block after a start only that is looked at.
	pools := false
	if l, ok := s.cfg.Ledger.(Economy); ok && !s.sealer.fresh {
		w, err := l.World(ctx)
		if err != nil {
			return err
		}
		pools = w.TaoWeight > 0
	}
	made := make([]ledger.Header, 0, min(to-last.Number, maxHeaders))
	for n := last.Number + 1; n <= to; n++ {
		state, extrinsics := last.StateRoot, noExtrinsics
		_, filled := slices.BinarySearch(told, n)
		if filled {
			b, err := s.block(ctx, n)
			if err != nil {
				return err
			}
			if extrinsics, err = trie.Ordered(trie.V0, b.extrinsics); err != nil {
				return err
			}
		}
		_, moved := slices.BinarySearch(changed, n)
		if moved {
			s.sealer.still = nil
		}
		if moved || pools || s.sealer.fresh && n == to {
			t, err := s.trieOf(ctx, n, s.sealer.still)
			switch {
			case errors.Is(err, errDiscarded): // nobody asked in time
			case err != nil:
				return err
			default:
				state = t.Root()
			}
		}
		next := s.follow(last, n, state, extrinsics)
		if state != last.StateRoot || filled || n%keptEvery == 0 || n == to && s.sealer.fresh {
			keep = append(keep, next)
		}
		if made = append(made, next); len(made) == maxHeaders {
			made = append(made[:0], made[maxHeaders/2:]...)
		}
		last = next
	}
	if err := s.sealer.kept.KeepHeaders(ctx, keep); err != nil {
		return err
	}
	for _, h := range made {
		s.remember(h)
	}
	s.sealer.last, s.sealer.fresh = last, false
	return nil
}

// KeepSealing seals blocks as they end, until ctx does: so that each names its own
// state although nobody asked for it while the ledger had that. A ledger that
// keeps no states is left alone.
func (s *Server) KeepSealing(ctx context.Context) {
	if s.sealer.kept == nil {
		return
	}
	t := time.NewTicker(min(max(sealedBlocks*s.cfg.BlockTime, time.Second), 30*time.Second))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		newest, err := s.newest(ctx)
		if err == nil {
			_, err = s.headerOf(ctx, newest)
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("seal blocks", "err", err)
		}
	}
}

// headerOf is the header of a block that is told.
func (s *Server) headerOf(ctx context.Context, n uint64) (ledger.Header, error) {
	s.sealing.Lock()
	defer s.sealing.Unlock()
	if n > s.sealer.last.Number {
		newest, err := s.newest(ctx)
		if err != nil {
			return ledger.Header{}, err
		}
		if n > newest {
			return ledger.Header{}, &rpcError{Code: 4001, Message: fmt.Sprintf("block %d is not over", n)}
		}
		if err := s.seal(ctx, n); err != nil {
			return ledger.Header{}, err
		}
	}
	if h, ok := s.sealer.headers[n]; ok {
		return h, nil
	}
	h, ok, err := s.sealer.kept.HeaderBefore(ctx, n)
	if err != nil || !ok {
		return h, errors.Join(err, fmt.Errorf("header %d: none is kept: %t", n, !ok))
	}
	for h.Number < n { // in the blocks between nothing happened
		h = s.follow(h, h.Number+1, h.StateRoot, noExtrinsics)
	}
	s.named(h.Hash, n)
	return h, nil
}

// hash names a block that is told.
func (s *Server) hash(ctx context.Context, n uint64) ([32]byte, error) {
	if s.sealer.kept == nil {
		return s.hashOf(n), nil
	}
	h, err := s.headerOf(ctx, n)
	return h.Hash, err
}

// trieOf is the state at the end of a block, without what is clocked. still is its part that
// does not change with every block, where that is known. s.sealing is held.
func (s *Server) trieOf(ctx context.Context, n uint64, still []trie.Entry) (*trie.Trie, error) {
	for _, t := range s.sealer.tries {
		if t.block == n {
			return t.Trie, nil
		}
	}
	r, err := s.reading(ctx, n)
	if err != nil {
		return nil, err
	}
	w, err := r.economy()
	if err != nil {
		return nil, err
	}
	var moving []trie.Entry
	if still == nil {
		if still, err = r.part(func(item string) bool { return !slices.Contains(clocked, item) && !slices.Contains(everyBlock, item) }); err != nil {
			return nil, err
		}
	}
	if w.TaoWeight > 0 {
		if moving, err = r.part(func(item string) bool { return slices.Contains(everyBlock, item) }); err != nil {
			return nil, err
		}
	}
	t, err := trie.Of(trie.V1, slices.Concat(still, moving))
	if err != nil {
		return nil, err
	}
	if n > s.sealer.last.Number && moving != nil {
		s.sealer.still = still
	}
	if s.sealer.tries = append(s.sealer.tries, &trieAt{n, t}); len(s.sealer.tries) > 4 {
		s.sealer.tries = s.sealer.tries[1:]
	}
	return t, nil
}

// part is the state of the items that are wanted, by their names.
func (r *reading) part(wanted func(item string) bool) (out []trie.Entry, err error) {
	for _, p := range r.meta.Pallets {
		for _, item := range p.Storage {
			if !wanted(p.Name + "." + item.Name) {
				continue
			}
			prefix, err := r.meta.StorageKey(p.Name, item.Name)
			if err != nil {
				return nil, err
			}
			of, err := r.entries(prefix)
			if err != nil {
				return nil, err
			}
			out = append(out, of...)
		}
	}
	return out, nil
}

func (s *Server) hexHashOf(ctx context.Context, n uint64) (any, error) {
	h, err := s.hash(ctx, n)
	if err != nil {
		return nil, err
	}
	return hexHash(h), nil
}

// readProof answers state_getReadProof: the nodes of the state's trie from the
// root that the block's header names to the keys.
func (s *Server) readProof(ctx context.Context, p []json.RawMessage) (any, error) {
	var texts []string
	if ok, err := arg(p, 0, "keys", &texts); err != nil || !ok || len(texts) > maxKeys {
		return nil, badParams("keys: a list of at most %d", maxKeys)
	}
	if s.sealer.kept == nil {
		return nil, &rpcError{Code: -32000, Message: "this ledger keeps no states: its headers name none"}
	}
	keys := make([][]byte, len(texts))
	for i, text := range texts {
		raw, err := json.Marshal(text)
		if err != nil {
			return nil, badParams("key cannot be read")
		}
		if keys[i], _, err = hexArg([]json.RawMessage{raw}, 0, "key"); err != nil {
			return nil, err
		}
	}
	n, err := s.stateAt(ctx, p, 1)
	if err != nil {
		return nil, err
	}
	r, err := s.reading(ctx, n)
	if err != nil {
		return nil, err
	}
	w, err := r.economy()
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if len(key) < 32 {
			continue
		}
		name, ok := s.prefixes[[32]byte(key[:32])]
		if item := name[0] + "." + name[1]; ok && (slices.Contains(clocked, item) || w.TaoWeight == 0 && slices.Contains(everyBlock, item)) {
			return nil, &rpcError{Code: -32000, Message: item + " is not in the root of the state: it changes with every block"}
		}
	}
	h, err := s.headerOf(ctx, n)
	if err != nil {
		return nil, err
	}
	s.sealing.Lock()
	defer s.sealing.Unlock()
	t, err := s.trieOf(ctx, n, nil)
	if err != nil {
		return nil, err
	}
	if t.Root() != h.StateRoot {
		return nil, &rpcError{Code: -32000, Message: "the header of this block names the state of an older one: the node was not asked in time"}
	}
	nodes := []string{}
	for _, b := range t.Proof(keys) {
		nodes = append(nodes, hexed(b))
	}
	return map[string]any{"at": hexHash(h.Hash), "proof": nodes}, nil
}
