package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/big"
	"slices"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(r)
	return bytes.TrimSpace(b), err
}

// table lists the methods that need no subscription.
func (s *Server) table() map[string]method {
	constant := func(v any) method { return func(context.Context, []json.RawMessage) (any, error) { return v, nil } }
	head := func(ctx context.Context, _ []json.RawMessage) (any, error) {
		n, err := s.newest(ctx)
		if err != nil {
			return nil, err
		}
		return s.hexHashOf(ctx, s.final(n))
	}
	t := map[string]method{
		"system_chain":      constant("agon"),
		"system_name":       constant("agon"),
		"system_version":    constant("1"),
		"system_chainType":  constant("Local"),
		"system_properties": constant(map[string]any{"ss58Format": auth.SS58Prefix, "tokenDecimals": 9, "tokenSymbol": "TAO"}),
		"system_health":     constant(map[string]any{"peers": 0, "isSyncing": false, "shouldHavePeers": false}),

		"system_accountNextIndex": s.nextIndex,
		"account_nextIndex":       s.nextIndex,
		"chain_getBlockHash":      s.blockHash,
		"chain_getHead":           s.blockHash,
		"chain_getFinalizedHead":  head,
		"chain_getFinalisedHead":  head,
		"chain_getHeader": func(ctx context.Context, p []json.RawMessage) (any, error) {
			n, err := s.at(ctx, p, 0)
			if err != nil {
				return nil, err
			}
			return s.header(ctx, n)
		},
		"chain_getBlock":           s.getBlock,
		"state_getMetadata":        constant(hexed(s.v14)),
		"state_getRuntimeVersion":  constant(s.version()),
		"chain_getRuntimeVersion":  constant(s.version()),
		"state_getStorage":         s.getStorage,
		"state_getStorageAt":       s.getStorage,
		"state_getReadProof":       s.readProof,
		"state_queryStorageAt":     s.queryStorage,
		"state_getKeys":            s.getKeys,
		"state_getKeysPaged":       s.getKeysPaged,
		"state_getKeysPagedAt":     s.getKeysPaged,
		"state_call":               s.call,
		"author_submitExtrinsic":   s.submitMethod,
		"author_pendingExtrinsics": constant([]string{}),
		"payment_queryInfo":        constant(map[string]any{"weight": map[string]any{"refTime": 0, "proofSize": 0}, "class": "normal", "partialFee": "0"}),
		"system_localPeerId":       constant("agon"),
		"system_nodeRoles":         constant([]string{"Full"}),
	}
	names := slices.Sorted(maps.Keys(t))
	names = append(names, "rpc_methods")
	names = append(names, subscriptions...)
	slices.Sort(names)
	t["rpc_methods"] = constant(map[string]any{"methods": names})
	return t
}

// version is the runtime version as JSON-RPC has it.
func (s *Server) version() any {
	apis := [][2]any{}
	numbers := map[string]int{"Core": 5, "Metadata": 2, "TransactionPaymentApi": 4}
	for _, a := range s.meta.APIs {
		h, err := blake2b.New(8, nil)
		if err != nil {
			panic(err) // 8 is a size that it has
		}
		h.Write([]byte(a.Name))
		apis = append(apis, [2]any{hexed(h.Sum(nil)), max(numbers[a.Name], 1)})
	}
	return map[string]any{
		"specName": SpecName, "implName": SpecName, "authoringVersion": 1, "specVersion": s.cfg.SpecVersion, "implVersion": 1,
		"apis": apis, "transactionVersion": TxVersion, "stateVersion": 1,
	}
}

func (s *Server) nextIndex(ctx context.Context, p []json.RawMessage) (any, error) {
	var address string
	if _, err := arg(p, 0, "account", &address); err != nil {
		return nil, err
	}
	pub, _, err := auth.DecodeSS58(address)
	if err != nil {
		return nil, badParams("account is not an address")
	}
	return s.nonce(ctx, pub)
}

// nonce is an account's next one.
func (s *Server) nonce(ctx context.Context, pub [32]byte) (uint64, error) {
	return s.nonceIn(ctx, s.cfg.Ledger, pub)
}

func (s *Server) nonceIn(ctx context.Context, l ledger.Full, pub [32]byte) (uint64, error) {
	if n, ok := l.(Nonces); ok {
		return n.Nonce(ctx, auth.EncodeSS58(pub))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonces[pub], nil
}

// useNonce counts an extrinsic; false: another nonce is next.
func (s *Server) useNonce(ctx context.Context, x *scale.Extrinsic) (bool, error) {
	if n, ok := s.cfg.Ledger.(Nonces); ok {
		return n.UseNonce(ctx, auth.EncodeSS58(x.Signer), x.Nonce)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonces[x.Signer] = x.Nonce + 1
	return true, nil
}

// blockHash takes a number, a list of them, or nothing for the newest.
func (s *Server) blockHash(ctx context.Context, p []json.RawMessage) (any, error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	if len(p) == 0 || string(p[0]) == "null" {
		return s.hexHashOf(ctx, newest)
	}
	one := func(raw json.RawMessage) (any, error) {
		var n uint64
		if err := json.Unmarshal(raw, &n); err != nil {
			var text string
			big1, ok := new(big.Int), false
			if json.Unmarshal(raw, &text) == nil {
				big1, ok = big1.SetString(text, 0)
			}
			if !ok || !big1.IsUint64() {
				return nil, badParams("block number cannot be read")
			}
			n = big1.Uint64()
		}
		if n > newest {
			return nil, nil
		}
		return s.hexHashOf(ctx, n)
	}
	if p[0][0] != '[' {
		return one(p[0])
	}
	var list []json.RawMessage
	if err := json.Unmarshal(p[0], &list); err != nil || len(list) > maxKeys {
		return nil, badParams("at most %d block numbers", maxKeys)
	}
	out := make([]any, len(list))
	for i, raw := range list {
		if out[i], err = one(raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Server) getBlock(ctx context.Context, p []json.RawMessage) (any, error) {
	n, err := s.at(ctx, p, 0)
	if err != nil {
		return nil, err
	}
	b, err := s.block(ctx, n)
	if err != nil {
		return nil, err
	}
	extrinsics := []string{}
	for _, x := range b.extrinsics {
		extrinsics = append(extrinsics, hexed(x))
	}
	h, err := s.header(ctx, n)
	if err != nil {
		return nil, err
	}
	return map[string]any{"block": map[string]any{"header": h, "extrinsics": extrinsics}, "justifications": nil}, nil
}

func (s *Server) getStorage(ctx context.Context, p []json.RawMessage) (any, error) {
	key, ok, err := hexArg(p, 0, "key")
	if err != nil || !ok {
		return nil, badParams("key is missing")
	}
	n, err := s.at(ctx, p, 1)
	if err != nil {
		return nil, err
	}
	r, err := s.reading(ctx, n)
	if err != nil {
		return nil, err
	}
	b, err := r.stored(key)
	if b == nil || err != nil {
		return nil, err
	}
	return hexed(b), nil
}

func (s *Server) queryStorage(ctx context.Context, p []json.RawMessage) (any, error) {
	var keys []string
	if ok, err := arg(p, 0, "keys", &keys); err != nil || !ok || len(keys) > maxKeys {
		return nil, badParams("keys: a list of at most %d", maxKeys)
	}
	n, err := s.at(ctx, p, 1)
	if err != nil {
		return nil, err
	}
	changes, err := s.changes(ctx, n, keys)
	if err != nil {
		return nil, err
	}
	return []any{changes}, nil
}

func (s *Server) changes(ctx context.Context, n uint64, keys []string) (any, error) {
	r, err := s.reading(ctx, n)
	if err != nil {
		return nil, err
	}
	out := make([][2]any, len(keys))
	for i, k := range keys {
		raw, err := json.Marshal(k)
		if err != nil {
			return nil, badParams("key cannot be read")
		}
		key, _, err := hexArg([]json.RawMessage{raw}, 0, "key")
		if err != nil {
			return nil, err
		}
		b, err := r.stored(key)
		if err != nil {
			return nil, err
		}
		out[i] = [2]any{k, nil}
		if b != nil {
			out[i][1] = hexed(b)
		}
	}
	hash, err := s.hexHashOf(ctx, n)
	return map[string]any{"block": hash, "changes": out}, err
}

func (s *Server) getKeys(ctx context.Context, p []json.RawMessage) (any, error) {
	prefix, _, err := hexArg(p, 0, "prefix")
	if err != nil {
		return nil, err
	}
	n, err := s.at(ctx, p, 1)
	if err != nil {
		return nil, err
	}
	return s.keys(ctx, n, prefix, nil, 10*maxKeys)
}

func (s *Server) getKeysPaged(ctx context.Context, p []json.RawMessage) (any, error) {
	prefix, _, err := hexArg(p, 0, "prefix")
	if err != nil {
		return nil, err
	}
	var count int
	if _, err := arg(p, 1, "count", &count); err != nil {
		return nil, err
	}
	if count < 0 || count > maxKeys {
		return nil, &rpcError{Code: 4002, Message: "count exceeds maximum value"}
	}
	start, _, err := hexArg(p, 2, "start key")
	if err != nil {
		return nil, err
	}
	n, err := s.at(ctx, p, 3)
	if err != nil {
		return nil, err
	}
	return s.keys(ctx, n, prefix, start, count)
}

func (s *Server) keys(ctx context.Context, n uint64, prefix, start []byte, count int) (any, error) {
	r, err := s.reading(ctx, n)
	if err != nil {
		return nil, err
	}
	all, err := r.list(prefix)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, k := range all {
		if len(out) < count && bytes.Compare(k, start) > 0 {
			out = append(out, hexed(k))
		}
	}
	return out, nil
}

// call answers a runtime API.
func (s *Server) call(ctx context.Context, p []json.RawMessage) (any, error) {
	var name string
	if _, err := arg(p, 0, "method", &name); err != nil {
		return nil, err
	}
	in, _, err := hexArg(p, 1, "data")
	if err != nil {
		return nil, err
	}
	n, err := s.stateAt(ctx, p, 2)
	if err != nil {
		return nil, err
	}
	for _, a := range s.meta.APIs {
		for _, x := range a.Methods {
			if a.Name+"_"+x.Name != name {
				continue
			}
			r := scale.NewReader(in)
			args := make([]any, len(x.Inputs))
			for i, f := range x.Inputs {
				args[i] = r.Value(f.Type)
			}
			// A runtime does not mind bytes that are left over.
			if err := r.Err(); err != nil {
				return nil, badParams("data of %s: %v", name, err)
			}
			read, err := s.reading(ctx, n)
			if err != nil {
				return nil, err
			}
			v, err := read.api(name, &x, args)
			if err != nil {
				return nil, err
			}
			b, err := scale.Encode(nil, x.Output, v)
			if err != nil {
				return nil, err
			}
			return hexed(b), nil
		}
	}
	return nil, &rpcError{Code: -32000, Message: "Client error: Execution failed: Exported method " + name + " is not found"}
}

func (s *Server) submitMethod(ctx context.Context, p []json.RawMessage) (any, error) {
	b, ok, err := hexArg(p, 0, "extrinsic")
	if err != nil || !ok {
		return nil, badParams("extrinsic is missing or no hex")
	}
	hash, _, err := s.submit(ctx, b)
	if err != nil {
		return nil, err
	}
	return hexHash(hash), nil
}
