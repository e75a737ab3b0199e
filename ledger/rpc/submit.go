package rpc

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// invalid is how a pool refuses an extrinsic.
func invalid(why string) error {
	return &rpcError{Code: 1010, Message: "Invalid Transaction", Data: why}
}

// submit takes an extrinsic, applies it in the newest block and says where it
// is. What the ledger refuses is in the block too, with its error as an event.
func (s *Server) submit(ctx context.Context, raw []byte) (hash [32]byte, number uint64, err error) {
	x, err := s.meta.ParseExtrinsic(raw)
	if err != nil {
		return hash, 0, &rpcError{Code: 1002, Message: "Verification Error: Runtime error: Execution failed: " + err.Error()}
	}
	hash = scale.Hash(raw)
	v, err := scale.DecodeAll(s.meta.CallType, x.Call)
	if err != nil {
		return hash, 0, &rpcError{Code: 1002, Message: "Verification Error: Runtime error: Execution failed: " + err.Error()}
	}
	s.submitting.Lock()
	defer s.submitting.Unlock()
	newest, err := s.newest(ctx)
	if err != nil {
		return hash, 0, err
	}
	if err := s.check(x, newest); err != nil {
		return hash, 0, err
	}
	if s.cfg.Replay != nil {
		// For as long as the file lives: a nonce begins at 0 again after a restart.
		fresh, err := s.cfg.Replay.Seen(ctx, "substrate", auth.EncodeSS58(x.Signer), hex.EncodeToString(hash[:]), s.cfg.Now().Add(100*365*24*time.Hour))
		if err != nil {
			return hash, 0, err
		}
		if !fresh {
			return hash, 0, &rpcError{Code: 1013, Message: "Transaction is already imported"}
		}
	}
	event, err := s.apply(ctx, auth.EncodeSS58(x.Signer), v)
	failure, err := s.dispatchError(err)
	if err != nil {
		return hash, 0, err
	}
	if number, err = s.cfg.Ledger.Block(ctx); err != nil {
		return hash, 0, err
	}
	s.record(number, x, raw, event, failure)
	return hash, number, nil
}

// check is what a pool checks: nonce, signature and what it binds to.
func (s *Server) check(x *scale.Extrinsic, newest uint64) error {
	switch want := s.nonce(x.Signer); {
	case x.Nonce < want:
		return invalid("Transaction is outdated")
	case x.Nonce > want:
		return invalid("Transaction will be valid in the future")
	}
	births := [][32]byte{s.hashOf(0)}
	if len(x.Era) == 2 {
		code := uint64(x.Era[0]) | uint64(x.Era[1])<<8
		period := uint64(2) << (code & 15)
		phase := (code >> 4) * max(period>>12, 1)
		if period < 4 || phase >= period {
			return invalid("Transaction has an era that cannot be read")
		}
		at := (max(newest, phase)-phase)/period*period + phase
		births = [][32]byte{s.hashOf(at), s.aliasOf(at)}
	}
	scheme := auth.Sr25519
	if x.Scheme == "Ed25519" {
		scheme = auth.Ed25519
	}
	for _, birth := range births {
		additional, err := s.meta.Additional(s.chain(), birth)
		if err != nil {
			return err
		}
		if auth.VerifyPublic(scheme, x.Signer, scale.Payload(x.Call, x.Extra, additional), x.Signature) == nil {
			return nil
		}
	}
	return invalid("Transaction has a bad signature")
}

// apply makes the change that a call asks for. event is what it leaves besides success.
func (s *Server) apply(ctx context.Context, signer string, v any) (event any, err error) {
	pallet, ok := v.(scale.Value)
	if !ok {
		return nil, errors.New("call is no call")
	}
	call, _ := pallet.Of.(scale.Value)
	a, _ := call.Of.(scale.Map)
	n, _ := a["netuid"].(uint64)
	netuid := uint16(n)
	l := s.cfg.Ledger
	hotkey, _ := a["hotkey"].(string)
	version, _ := a["version_key"].(uint64)
	module := func(name string, of any) any {
		return scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: name, Of: of}}
	}
	switch pallet.Name + "." + call.Name {
	case "System.remark":
		return nil, nil
	case "SubtensorModule.set_weights":
		return nil, l.SetWeights(ctx, netuid, signer, ledger.Weights{UIDs: words(a["dests"]), Values: words(a["weights"]), VersionKey: version})
	case "SubtensorModule.commit_weights":
		var h ledger.Hash
		b, _ := a["commit_hash"].(scale.Bytes)
		copy(h[:], b)
		return nil, l.CommitWeights(ctx, netuid, signer, h)
	case "SubtensorModule.reveal_weights":
		return nil, l.RevealWeights(ctx, netuid, signer, ledger.Weights{UIDs: words(a["uids"]), Values: words(a["values"]), VersionKey: version}, words(a["salt"]))
	case "SubtensorModule.commit_timelocked_weights":
		t, ok := l.(Timelocks)
		if !ok {
			break
		}
		data, _ := a["commit"].(scale.Bytes)
		round, _ := a["reveal_round"].(uint64)
		v, _ := a["commit_reveal_version"].(uint64)
		return nil, t.CommitTimelocked(ctx, netuid, signer, data, round, uint16(min(v, 65535)))
	case "SubtensorModule.burned_register":
		uid, err := l.Register(ctx, netuid, hotkey, signer)
		return module("NeuronRegistered", []any{netuid, uid, hotkey}), err
	case "SubtensorModule.add_stake":
		rao, _ := a["amount_staked"].(uint64)
		return nil, l.AddStake(ctx, netuid, hotkey, signer, rao)
	case "SubtensorModule.remove_stake":
		rao, _ := a["amount_unstaked"].(uint64)
		return nil, l.RemoveStake(ctx, netuid, hotkey, signer, rao)
	case "Commitments.set_commitment":
		fields, err := fieldsOf(a["info"])
		if err != nil {
			return nil, err
		}
		_, err = l.Commit(ctx, netuid, signer, fields...)
		return scale.Value{Name: "Commitments", Of: scale.Value{Name: "Commitment", Of: scale.Map{"netuid": netuid, "who": signer}}}, err
	}
	return nil, ledger.ErrBadOrigin.With("the embedded ledger has no such call")
}

func words(v any) []uint16 {
	list, _ := v.([]any)
	out := make([]uint16, len(list))
	for i, e := range list {
		n, _ := e.(uint64)
		out[i] = uint16(n)
	}
	return out
}

// fieldsOf reads the fields of a commitment.
func fieldsOf(info any) ([]ledger.Field, error) {
	m, _ := info.(scale.Map)
	list, _ := m["fields"].([]any)
	out := make([]ledger.Field, len(list))
	for i, e := range list {
		f, err := FieldOf(e)
		if err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

// FieldOf reads one field of a commitment as SCALE has it. Forms that the
// embedded ledger does not know keep their name.
func FieldOf(v any) (ledger.Field, error) {
	x, ok := v.(scale.Value)
	if !ok {
		return ledger.Field{}, ledger.ErrCommitmentFieldInvalid
	}
	b, _ := x.Of.(scale.Bytes)
	switch {
	case x.Name == "BigRaw":
		return ledger.Field{Type: ledger.FieldBigRaw, Data: b}, nil
	case x.Name == "Sha256":
		return ledger.Field{Type: ledger.FieldSha256, Data: b}, nil
	case len(x.Name) >= 4 && x.Name[:3] == "Raw":
		if b == nil {
			b = scale.Bytes{}
		}
		return ledger.Field{Type: ledger.FieldRaw, Data: b}, nil
	}
	return ledger.Field{Type: ledger.FieldType(x.Name), Data: b}, nil
}

// dispatchError makes a refusal of the ledger the error of a dispatch. What is
// no refusal stays an error.
func (s *Server) dispatchError(err error) (any, error) {
	var refusal *ledger.Error
	var coded *agon.Error
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &refusal):
		if errors.As(err, &coded) {
			return scale.Value{Name: "Other"}, nil
		}
		return nil, err
	case refusal.Name == ledger.ErrBadOrigin.Name:
		return scale.Value{Name: "BadOrigin"}, nil
	}
	for _, p := range s.meta.Pallets {
		if p.Errors == nil {
			continue
		}
		if c, ok := p.Errors.Case(refusal.Name); ok {
			return scale.Value{Name: "Module", Of: scale.Map{"index": p.Index, "error": scale.Bytes{c.Index, 0, 0, 0}}}, nil
		}
	}
	return scale.Value{Name: "Other"}, nil
}

// record keeps what the extrinsic left in its block.
func (s *Server) record(number uint64, x *scale.Extrinsic, raw []byte, event, failure any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nonces[x.Signer] = x.Nonce + 1
	b := s.blocks[number]
	if b == nil {
		b = &block{}
		s.blocks[number] = b
		if s.order = append(s.order, number); len(s.order) > maxBlocks {
			delete(s.blocks, s.order[0])
			s.order = s.order[1:]
		}
	}
	index := len(b.extrinsics)
	b.extrinsics = append(b.extrinsics, raw)
	add := func(e any) {
		b.events = append(b.events, scale.Map{"phase": scale.Value{Name: "ApplyExtrinsic", Of: index}, "event": e, "topics": []any{}})
	}
	info := scale.Map{"weight": scale.Map{"ref_time": 0, "proof_size": 0}, "class": "Normal", "pays_fee": "No"}
	if failure != nil {
		add(scale.Value{Name: "System", Of: scale.Value{Name: "ExtrinsicFailed", Of: scale.Map{"dispatch_error": failure, "dispatch_info": info}}})
		return
	}
	if event != nil {
		add(event)
	}
	add(scale.Value{Name: "System", Of: scale.Value{Name: "ExtrinsicSuccess", Of: scale.Map{"dispatch_info": info}}})
}
