package rpc

import (
	"context"
	"encoding/binary"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// pureOf is the account without a key that an extrinsic of a block makes, as the
// chain derives it: from its maker, the block, the extrinsic's index, and what the call says.
func (s *Server) pureOf(maker string, block, index uint64, kind any, number uint64) (string, error) {
	p, err := s.meta.Pallet("Proxy")
	if err != nil {
		return "", err
	}
	public, err := auth.ParseSS58(maker)
	if err != nil {
		return "", err
	}
	call, _ := p.Calls.Case("create_pure")
	b := append([]byte("modlpy/proxy____"), public[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(block))
	b = binary.LittleEndian.AppendUint32(b, uint32(index))
	if b, err = scale.Encode(b, call.Fields[0].Type, kind); err != nil {
		return "", err
	}
	return auth.EncodeSS58(blake2b.Sum256(binary.LittleEndian.AppendUint16(b, uint16(number)))), nil
}

// applyPure makes an account without a key, for which its maker acts, or removes one.
func (s *Server) applyPure(ctx context.Context, l Proxied, signer, name string, a scale.Map) ([]any, error) {
	maker, block, index := accountIn(a["spawner"]), number(a, "height"), number(a, "ext_index")
	if name == "create_pure" {
		maker = signer
		now, err := s.cfg.Ledger.Block(ctx)
		if err != nil {
			return nil, err
		}
		of, err := s.block(ctx, now)
		if err != nil {
			return nil, err
		}
		block, index = now, uint64(len(of.extrinsics))
	}
	pure, err := s.pureOf(maker, block, index, a["proxy_type"], number(a, "index"))
	if err != nil {
		return nil, ledger.ErrNoPermission
	}
	event := scale.Map{"pure": pure, "who": maker, "spawner": maker, "proxy_type": a["proxy_type"], "disambiguation_index": number(a, "index")}
	if name == "create_pure" {
		delete(event, "spawner")
		kind, _ := a["proxy_type"].(scale.Value)
		p := ledger.Proxy{Delegate: maker, Kind: kind.Name, Delay: uint32(number(a, "delay"))}
		return []any{scale.Value{Name: "Proxy", Of: scale.Value{Name: "PureCreated", Of: event}}}, l.Delegate(ctx, ledger.ProxyOrder{Kind: ledger.ProxyPure, Account: maker, Proxy: &p, Pure: pure})
	}
	if pure != signer {
		return nil, ledger.ErrNoPermission
	}
	delete(event, "who")
	return []any{scale.Value{Name: "Proxy", Of: scale.Value{Name: "PureKilled", Of: event}}}, l.Delegate(ctx, ledger.ProxyOrder{Kind: ledger.ProxyKill, Account: maker, Pure: pure})
}
