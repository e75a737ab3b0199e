// Package rpc lets a ledger answer Substrate JSON-RPC over HTTP and WebSocket,
// with its own metadata, so that any client of Substrate chains reads it and
// lands extrinsics on it.
//
// A ledger that keeps states (Headers) is read as of the block that is asked for; its
// blocks are named by the hashes of their headers, which name the header before, the
// extrinsics and the state.
// Another has one state, the newest: a read at the hash of one of the last 256
// blocks is answered from it; only commitments are answered as of their block. A block's hash is the first 24 bytes of a hash of the genesis
// and its number; the hash of a header's encoding names it too, where the header was asked for.
package rpc

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

//go:generate go run ./gen ../scale/testdata/spec-424.scale runtime.scale

//go:embed runtime.scale
var runtime []byte

// What the ledger says of itself.
const (
	SpecName    = "agon-ledger"
	SpecVersion = 424 // of the chain whose types these are
	TxVersion   = 1
)

// Limits.
const (
	MaxRequest  = 1 << 20 // bytes
	maxBatch    = 64      // requests in one
	maxBlocks   = 4096    // blocks with extrinsics that are in memory
	maxAliases  = 16384
	maxKeys     = 1000 // of one answer
	stateWindow = 256  // blocks whose state can be asked for
)

// Config configures a server.
type Config struct {
	Ledger ledger.Full
	// Genesis tells this ledger from others: a signature for another is none here.
	Genesis string
	// Replay keeps an extrinsic from being taken twice, over restarts too.
	Replay auth.ReplayGuard
	Now    func() time.Time
	// Metadata is told instead of the ledger's own, with SpecVersion: that of a
	// chain whose form the ledger is to have. Items that the ledger lacks are absent.
	Metadata    []byte
	SpecVersion uint32
	// BlockTime is how long a block takes. The newest block is told when it is over, so
	// that no block changes once it is told. 0 = stepped by hand: the newest block is told while it fills.
	BlockTime time.Duration
	// Lag is by how many blocks what is final is behind the newest block that is told.
	Lag uint64
	// Poll is how often subscriptions look for a new block; 0 = 250 ms.
	Poll time.Duration
	// Log takes what clients are not told; nil = none.
	Log *slog.Logger
}

// Timelocks is a Ledger that takes timelocked weights.
type Timelocks interface {
	CommitTimelocked(ctx context.Context, netuid uint16, hotkey string, data []byte, round uint64, version uint16) error
	// Timelocked lists the commits that are not opened.
	Timelocked(ctx context.Context, netuid uint16) ([]ledger.SealedCommit, error)
	// Pulse is the signature of a drand round that the ledger has; nil = none.
	Pulse(ctx context.Context, round uint64) ([]byte, error)
}

// Revealer is a Ledger that opens timelocked commitments.
type Revealer interface {
	// Revealed lists what a hotkey's timelocked commitments held that are opened, oldest first.
	Revealed(ctx context.Context, netuid uint16, hotkey string) ([]ledger.Revealed, error)
}

// Server answers. It is safe for concurrent use.
type Server struct {
	cfg      Config
	meta     *scale.Metadata
	v14, v15 []byte
	genesis  [24]byte
	prefixes map[[32]byte][2]string
	methods  map[string]method

	first      [32]byte   // hash of the genesis; set by New
	submitting sync.Mutex // one extrinsic at a time
	sealing    sync.Mutex // guards sealer; while an extrinsic is applied no block ends. After submitting, before mu.
	sealer     sealer

	mu      sync.Mutex // guards what follows
	nonces  map[[32]byte]uint64
	blocks  map[uint64]*block
	order   []uint64 // keys of blocks, ascending
	began   uint64   // what is not newer and not in blocks is the ledger's to tell
	most    int      // blocks in memory
	aliases map[[32]byte]uint64
}

type method func(ctx context.Context, params []json.RawMessage) (any, error)

// rpcError is an error as JSON-RPC has it.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

func badParams(format string, args ...any) error {
	return &rpcError{Code: -32602, Message: "Invalid params: " + fmt.Sprintf(format, args...)}
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Poll == 0 {
		cfg.Poll = 250 * time.Millisecond
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Metadata == nil {
		cfg.Metadata, cfg.SpecVersion = runtime, SpecVersion
	}
	m, err := scale.Decode(cfg.Metadata)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, meta: m, prefixes: map[[32]byte][2]string{},
		nonces: map[[32]byte]uint64{}, blocks: map[uint64]*block{}, aliases: map[[32]byte]uint64{}, most: maxBlocks,
	}
	if err := s.slot(); err != nil {
		return nil, err
	}
	if s.v14, err = m.Encode(14); err != nil {
		return nil, err
	}
	if s.v15, err = m.Encode(15); err != nil {
		return nil, err
	}
	sum := blake2b.Sum256([]byte("agon ledger\x00" + cfg.Genesis))
	copy(s.genesis[:], sum[:])
	for _, p := range m.Pallets {
		for _, item := range p.Storage {
			key, err := m.StorageKey(p.Name, item.Name)
			if err != nil {
				return nil, err
			}
			s.prefixes[[32]byte(key)] = [2]string{p.Name, item.Name}
		}
	}
	s.methods = s.table()
	s.first = s.hashOf(0)
	if err := s.beginSealing(context.Background()); err != nil {
		return nil, err
	}
	return s, s.begin()
}

// slot tells by the metadata's constant how long a block takes.
func (s *Server) slot() error {
	if s.cfg.BlockTime == 0 {
		return nil
	}
	for _, p := range s.meta.Pallets {
		for i, c := range p.Constants {
			if p.Name != "Aura" || c.Name != "SlotDuration" {
				continue
			}
			b, err := scale.Encode(nil, c.Type, uint64(s.cfg.BlockTime.Milliseconds()))
			if err != nil {
				return err
			}
			p.Constants[i].Value = b
		}
	}
	return nil
}

// newest is the newest block that is told.
func (s *Server) newest(ctx context.Context) (uint64, error) {
	n, err := s.cfg.Ledger.Block(ctx)
	if s.cfg.BlockTime > 0 && n > 0 {
		n--
	}
	return n, err
}

// final is the newest block that is final, where newest is the newest that is told.
func (s *Server) final(newest uint64) uint64 { return newest - min(newest, s.cfg.Lag) }

// hashOf names a block.
func (s *Server) hashOf(n uint64) (h [32]byte) {
	copy(h[:], s.genesis[:])
	binary.BigEndian.PutUint64(h[24:], n)
	return h
}

// numberOf finds the block of a hash.
func (s *Server) numberOf(h [32]byte) (uint64, bool) {
	if [24]byte(h[:24]) == s.genesis && s.sealer.kept == nil {
		return binary.BigEndian.Uint64(h[24:]), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.aliases[h]
	return n, ok
}

func (s *Server) chain() scale.Chain {
	return scale.Chain{Genesis: s.first, SpecVersion: s.cfg.SpecVersion, Version: TxVersion}
}

func hexed(b []byte) string { return "0x" + hex.EncodeToString(b) }

func hexHash(h [32]byte) string { return hexed(h[:]) }

// arg reads a parameter; one that is missing or null leaves v and is false.
func arg(params []json.RawMessage, i int, name string, v any) (bool, error) {
	if i >= len(params) || string(params[i]) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(params[i], v); err != nil {
		return false, badParams("%s cannot be read", name)
	}
	return true, nil
}

func hexArg(params []json.RawMessage, i int, name string) ([]byte, bool, error) {
	var text string
	ok, err := arg(params, i, name, &text)
	if !ok || err != nil {
		return nil, false, err
	}
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x")) // some clients leave the 0x out
	if err != nil {
		return nil, false, badParams("%s is not hex", name)
	}
	return b, true, nil
}

// at reads a block's hash; without one it is the newest block.
func (s *Server) at(ctx context.Context, params []json.RawMessage, i int) (uint64, error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return 0, err
	}
	b, ok, err := hexArg(params, i, "block hash")
	if err != nil || !ok {
		return newest, err
	}
	if len(b) != 32 {
		return 0, badParams("block hash has %d bytes", len(b))
	}
	n, ok := s.numberOf([32]byte(b))
	if !ok || n > newest {
		return 0, &rpcError{Code: 4001, Message: "Header was not found in the database: " + hexed(b)}
	}
	return n, nil
}

// stateAt is at, for reads of the state.
func (s *Server) stateAt(ctx context.Context, params []json.RawMessage, i int) (uint64, error) {
	n, err := s.at(ctx, params, i)
	if err != nil {
		return 0, err
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return 0, err
	}
	if h, ok := s.cfg.Ledger.(Historic); ok {
		if _, err := h.At(ctx, newest); err == nil {
			return n, nil // it says itself what is discarded
		}
	}
	if n+stateWindow < newest {
		return n, errDiscarded
	}
	return n, nil
}

var errDiscarded = &rpcError{Code: 4003, Message: "Client error: Api called for an unknown Block: State already discarded"}

type header struct {
	ParentHash     string `json:"parentHash"`
	Number         string `json:"number"`
	StateRoot      string `json:"stateRoot"`
	ExtrinsicsRoot string `json:"extrinsicsRoot"`
	Digest         digest `json:"digest"`
}

type digest struct {
	Logs []string `json:"logs"`
}

func (s *Server) parentOf(n uint64) (h [32]byte) {
	if n > 0 {
		h = s.hashOf(n - 1)
	}
	return h
}

// aliasOf is the hash of a header's encoding, by which some clients name the block.
func (s *Server) aliasOf(n uint64) [32]byte {
	parent := s.parentOf(n)
	b := append(parent[:], scale.AppendCompact(nil, n)...)
	return scale.Hash(append(b, make([]byte, 32+32+1)...)) // two roots, no digests
}

// header describes a block and remembers the hash that its encoding has.
func (s *Server) header(ctx context.Context, n uint64) (header, error) {
	if s.sealer.kept != nil {
		var parent [32]byte
		h, err := s.headerOf(ctx, n)
		if err == nil && n > 0 {
			parent, err = s.hash(ctx, n-1)
		}
		return header{hexHash(parent), fmt.Sprintf("0x%x", n), hexHash(h.StateRoot), hexHash(h.ExtrinsicsRoot), digest{[]string{}}}, err
	}
	var root [32]byte
	parent, alias := s.parentOf(n), s.aliasOf(n)
	s.named(alias, n)
	return header{hexHash(parent), fmt.Sprintf("0x%x", n), hexHash(root), hexHash(root), digest{[]string{}}}, nil
}

// request is one JSON-RPC request.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// MarshalJSON writes a null result, which omitempty would drop.
func (r response) MarshalJSON() ([]byte, error) {
	id := r.ID
	if id == nil {
		id = json.RawMessage("null")
	}
	out := map[string]any{"jsonrpc": "2.0", "id": id}
	if r.Error != nil {
		out["error"] = r.Error
	} else {
		out["result"] = r.Result
	}
	return json.Marshal(out)
}

func params(raw json.RawMessage) ([]json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, badParams("a list is wanted")
	}
	return list, nil
}

// answer runs a request; call finds the method.
func (s *Server) answer(ctx context.Context, q request, extra map[string]method) response {
	r := response{ID: q.ID}
	list, err := params(q.Params)
	if err == nil {
		f := s.methods[q.Method]
		if f == nil {
			f = extra[q.Method]
		}
		if f == nil {
			err = &rpcError{Code: -32601, Message: "Method not found"}
		} else {
			r.Result, err = f(ctx, list)
		}
	}
	if err != nil {
		if !errors.As(err, &r.Error) {
			s.cfg.Log.Error("ledger rpc", "method", q.Method, "err", err)
			r.Error = &rpcError{Code: -32603, Message: "Internal error"}
			if errors.Is(err, ledger.ErrSubnetNotExists) {
				r.Error = &rpcError{Code: -32000, Message: err.Error()}
			}
		}
	}
	return r
}

// read answers one request or a batch.
func (s *Server) read(ctx context.Context, body []byte, extra map[string]method) any {
	bad := func(code int, text string) response {
		return response{Error: &rpcError{Code: code, Message: text}}
	}
	if len(body) > 0 && body[0] == '[' {
		var all []request
		switch err := json.Unmarshal(body, &all); {
		case err != nil:
			return bad(-32700, "Parse error")
		case len(all) == 0 || len(all) > maxBatch:
			return bad(-32600, fmt.Sprintf("a batch has 1 to %d requests", maxBatch))
		}
		out := make([]response, len(all))
		for i, q := range all {
			out[i] = s.answer(ctx, q, extra)
		}
		return out
	}
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return bad(-32700, "Parse error")
	}
	return s.answer(ctx, q, extra)
}

// ServeHTTP takes JSON-RPC as POST and WebSocket.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		s.websocket(w, r)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "JSON-RPC wants POST or WebSocket", http.StatusMethodNotAllowed)
		return
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, MaxRequest))
	if err != nil {
		http.Error(w, fmt.Sprintf("the body cannot be read, or has more than %d bytes", MaxRequest), http.StatusRequestEntityTooLarge)
		return
	}
	b, err := json.Marshal(s.read(r.Context(), body, nil))
	if err != nil {
		s.cfg.Log.Error("encode answer", "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(b); err != nil {
		s.cfg.Log.Debug("write answer", "err", err)
	}
}
