package rpc

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
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
	if err := s.check(ctx, x, newest); err != nil {
		return hash, 0, err
	}
	if s.cfg.Replay != nil {
		// Besides the nonce: a ledger of before nonces were kept begins at 0 again.
		fresh, err := s.cfg.Replay.Seen(ctx, "substrate", auth.EncodeSS58(x.Signer), hex.EncodeToString(hash[:]), s.cfg.Now().Add(100*365*24*time.Hour))
		if err != nil {
			return hash, 0, err
		}
		if !fresh {
			return hash, 0, &rpcError{Code: 1013, Message: "Transaction is already imported"}
		}
	}
	s.sealing.Lock() // its block is not over before it is written down there
	defer s.sealing.Unlock()
	// A state that counts the extrinsic and does not have what it did would be the block before.
	if l, ok := s.cfg.Ledger.(Holder); ok {
		defer l.Hold()()
	}
	fresh, err := s.useNonce(ctx, x)
	if err != nil {
		return hash, 0, err
	}
	if !fresh {
		return hash, 0, invalid("Transaction is outdated")
	}
	events, err := s.apply(ctx, caller{signer: auth.EncodeSS58(x.Signer)}, v)
	failure, err := s.dispatchError(err)
	if err != nil {
		return hash, 0, err
	}
	if number, err = s.cfg.Ledger.Block(ctx); err != nil {
		return hash, 0, err
	}
	s.record(ctx, number, raw, events, failure)
	return hash, number, nil
}

// Holder is a Ledger that can be kept in its block.
type Holder interface{ Hold() (release func()) }

// check is what a pool checks: nonce, signature and what it binds to.
func (s *Server) check(ctx context.Context, x *scale.Extrinsic, newest uint64) error {
	want, err := s.nonce(ctx, x.Signer)
	if err != nil {
		return err
	}
	switch {
	case x.Nonce < want:
		return invalid("Transaction is outdated")
	case x.Nonce > want:
		return invalid("Transaction will be valid in the future")
	}
	births := [][32]byte{s.first}
	if len(x.Era) == 2 {
		code := uint64(x.Era[0]) | uint64(x.Era[1])<<8
		period := uint64(2) << (code & 15)
		phase := (code >> 4) * max(period>>12, 1)
		if period < 4 || phase >= period {
			return invalid("Transaction has an era that cannot be read")
		}
		at := (max(newest, phase)-phase)/period*period + phase
		hash, err := s.hash(ctx, at)
		if err != nil {
			return err
		}
		births = [][32]byte{hash, s.aliasOf(at)}
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

// ours is an event of SubtensorModule.
func ours(name string, of ...any) any {
	return scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: name, Of: of}}
}

// ofStake is ours without the last parts where the metadata's event has fewer: fees came later.
func (s *Server) ofStake(name string, of ...any) any {
	if p, err := s.meta.Pallet("SubtensorModule"); err == nil && p.Events != nil {
		if c, ok := p.Events.Case(name); ok {
			of = of[:min(len(of), len(c.Fields))]
		}
	}
	return ours(name, of...)
}

// caller is the account that makes a call.
type caller struct {
	signer string
	// proxy is what the signer's proxy may call, where one signed; nil = all.
	proxy   func(pallet, call string, a scale.Map) bool
	batched bool // the call is part of a batch
}

// with gives ctx the copy of the ledger that calls change (Together).
func with(ctx context.Context, l ledger.Full) context.Context {
	return context.WithValue(ctx, copyKey{}, l)
}

type copyKey struct{}

// of is the ledger that calls change.
func (s *Server) of(ctx context.Context) ledger.Full {
	if l, ok := ctx.Value(copyKey{}).(ledger.Full); ok {
		return l
	}
	return s.cfg.Ledger
}

// Together is a Ledger that makes several changes or none.
type Together interface {
	Together(ctx context.Context, f func(ledger.Full) error) error
}

// together lets f make changes that happen whole or not at all.
func (s *Server) together(ctx context.Context, f func(ctx context.Context) error) error {
	t, ok := s.of(ctx).(Together)
	if !ok {
		return f(ctx)
	}
	return t.Together(ctx, func(l ledger.Full) error { return f(with(ctx, l)) })
}

// apply makes the change that a call asks for. The events are what it leaves besides success.
func (s *Server) apply(ctx context.Context, who caller, v any) (events []any, err error) {
	pallet, ok := v.(scale.Value)
	if !ok {
		return nil, errors.New("call is not a call")
	}
	call, _ := pallet.Of.(scale.Value)
	a, _ := call.Of.(scale.Map)
	signer := who.signer
	if who.proxy != nil && !who.proxy(pallet.Name, call.Name, a) {
		return nil, ledger.ErrCallFiltered
	}
	// The calls of mechanisms are those of one, for mechanism 0.
	name := pallet.Name + "." + call.Name
	if m, ok := a["mecid"].(uint64); ok {
		if m != 0 {
			if events, known, err := s.applyMechanism(ctx, signer, call.Name, a); known {
				return events, err
			}
		}
		name = strings.Replace(name, "_mechanism_", "_", 1)
	}
	switch pallet.Name {
	case "Balances":
		return s.applyTransfer(ctx, signer, call.Name, a)
	case "Utility":
		return s.applyBatch(ctx, who, call.Name, a)
	case "Proxy":
		return s.applyProxy(ctx, who, call.Name, a)
	}
	if events, known, err := s.applyOwner(ctx, signer, pallet.Name, call.Name, a); known {
		return events, err
	}
	if pallet.Name == "SubtensorModule" {
		if events, known, err := s.applyCollateral(ctx, signer, call.Name, a); known || err != nil {
			return events, err
		}
		if events, known, err := s.applyEconomy(ctx, signer, call.Name, a); known || err != nil {
			return events, err
		}
	}
	l := s.of(ctx)
	n, named := a["netuid"].(uint64)
	netuid := uint16(n)
	if !named && strings.HasSuffix(name, "_stake") { // of runtimes before alpha: the only subnet is meant
		all, err := l.Subnets(ctx)
		if err != nil {
			return nil, err
		}
		if len(all) == 1 {
			netuid = all[0]
		}
	}
	hotkey, _ := a["hotkey"].(string)
	version, _ := a["version_key"].(uint64)
	switch name {
	case "System.remark":
		return nil, nil
	case "SubtensorModule.set_weights":
		if err := l.SetWeights(ctx, netuid, signer, ledger.Weights{UIDs: words(a["dests"]), Values: words(a["weights"]), VersionKey: version}); err != nil {
			return nil, err
		}
		m, err := l.Metagraph(ctx, netuid)
		if err != nil {
			return nil, err
		}
		given, _ := m.Neuron(signer)
		return []any{ours("WeightsSet", netuid, given.UID)}, nil
	case "SubtensorModule.batch_set_weights":
		return s.batchWeights(ctx, signer, a)
	case "SubtensorModule.commit_weights":
		var h ledger.Hash
		b, _ := a["commit_hash"].(scale.Bytes)
		copy(h[:], b)
		return []any{ours("WeightsCommitted", signer, netuid, b)}, l.CommitWeights(ctx, netuid, signer, h)
	case "SubtensorModule.reveal_weights":
		w, salt := ledger.Weights{UIDs: words(a["uids"]), Values: words(a["values"]), VersionKey: version}, words(a["salt"])
		if err := l.RevealWeights(ctx, netuid, signer, w, salt); err != nil {
			return nil, err
		}
		h, err := ledger.CommitHash(signer, netuid, w, salt)
		return []any{ours("WeightsRevealed", signer, netuid, [32]byte(h))}, err
	case "SubtensorModule.commit_timelocked_weights":
		t, ok := l.(Timelocks)
		if !ok {
			break
		}
		data, _ := a["commit"].(scale.Bytes)
		round, _ := a["reveal_round"].(uint64)
		v, _ := a["commit_reveal_version"].(uint64)
		return []any{ours("TimelockedWeightsCommitted", signer, netuid, scale.Hash(data), round)}, t.CommitTimelocked(ctx, netuid, signer, data, round, uint16(min(v, 65535)))
	case "SubtensorModule.burned_register", "SubtensorModule.register_limit":
		if limit, ok := a["limit_price"].(uint64); ok {
			m, err := l.Metagraph(ctx, netuid)
			if err != nil {
				return nil, err
			}
			if m.Burn > limit {
				return nil, ledger.ErrPriceLimit
			}
		}
		return s.registered(ctx, netuid, hotkey, signer)
	case "SubtensorModule.add_stake", "SubtensorModule.add_stake_limit":
		if limit, ok := a["limit_price"].(uint64); ok && limit < price {
			return nil, ledger.ErrSlippage
		}
		rao := money(a, "amount_staked")
		return []any{s.ofStake("StakeAdded", signer, hotkey, rao, rao, netuid, 0)}, l.AddStake(ctx, netuid, hotkey, signer, rao)
	case "SubtensorModule.remove_stake", "SubtensorModule.remove_stake_limit", "SubtensorModule.remove_stake_full_limit":
		if limit, ok := a["limit_price"].(uint64); ok && limit > price {
			return nil, ledger.ErrSlippage
		}
		rao := money(a, "amount_unstaked")
		if _, ok := a["amount_unstaked"]; !ok { // all of it
			m, err := l.Metagraph(ctx, netuid)
			if err != nil {
				return nil, err
			}
			of, _ := m.Neuron(hotkey)
			rao = of.Stake
		}
		return []any{s.ofStake("StakeRemoved", signer, hotkey, rao, rao, netuid, 0)}, l.RemoveStake(ctx, netuid, hotkey, signer, rao)
	case "SubtensorModule.burn_alpha", "SubtensorModule.recycle_alpha", "SubtensorModule.add_stake_burn":
		net, ok := l.(Localnet)
		if !ok {
			break
		}
		rao := money(a, "amount")
		burned := ours("AlphaBurned", signer, hotkey, rao, netuid)
		switch name {
		case "SubtensorModule.recycle_alpha":
			burned = ours("AlphaRecycled", signer, hotkey, rao, netuid)
			fallthrough
		case "SubtensorModule.burn_alpha":
			return []any{burned}, net.BurnStake(ctx, netuid, hotkey, signer, rao)
		}
		if limit, ok := a["limit"].(uint64); ok && limit < price {
			return nil, ledger.ErrSlippage
		}
		if err := l.AddStake(ctx, netuid, hotkey, signer, rao); err != nil {
			return nil, err
		}
		bought := scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: "AddStakeBurn", Of: scale.Map{"netuid": netuid, "hotkey": hotkey, "amount": rao, "alpha": rao}}}
		return []any{s.ofStake("StakeAdded", signer, hotkey, rao, rao, netuid, 0), burned, bought}, net.BurnStake(ctx, netuid, hotkey, signer, rao)
	case "SubtensorModule.serve_axon", "SubtensorModule.serve_axon_tls":
		net, ok := l.(Localnet)
		if !ok {
			break
		}
		number := func(name string) uint64 {
			n, _ := a[name].(uint64)
			return n
		}
		ip, err := addressOf(a["ip"], number("ip_type"))
		if err != nil {
			return nil, err
		}
		return []any{ours("AxonServed", netuid, signer)}, net.ServeAxon(ctx, netuid, signer, ledger.Axon{
			Version: uint32(number("version")), IP: ip, Port: uint16(number("port")), Protocol: uint8(number("protocol")),
			Placeholder1: uint8(number("placeholder1")), Placeholder2: uint8(number("placeholder2")),
		})
	case "Commitments.set_commitment":
		fields, err := fieldsOf(a["info"])
		if err != nil {
			return nil, err
		}
		event := scale.Value{Name: "Commitment", Of: scale.Map{"netuid": netuid, "who": signer}}
		for _, f := range fields {
			if f.Type == ledger.FieldTimelock {
				event = scale.Value{Name: "TimelockCommitment", Of: scale.Map{"netuid": netuid, "who": signer, "reveal_round": f.Round}}
			}
		}
		_, err = l.Commit(ctx, netuid, signer, fields...)
		return []any{scale.Value{Name: "Commitments", Of: event}}, err
	}
	return nil, ledger.ErrBadOrigin.With("the embedded ledger has no such call")
}

// money is an amount in rao of a call. What is more than there will ever be is cut:
// it is more than anybody has, and is refused by that.
func money(a scale.Map, name string) uint64 { return min(number(a, name), math.MaxInt64) }

// applyTransfer moves money.
func (s *Server) applyTransfer(ctx context.Context, signer, name string, a scale.Map) ([]any, error) {
	net, ok := s.of(ctx).(Localnet)
	dest, _ := a["dest"].(scale.Value)
	to, isAccount := dest.Of.(string)
	if !ok || !isAccount || dest.Name != "Id" {
		return nil, ledger.ErrBadOrigin.With("the embedded ledger has no such call")
	}
	rao := money(a, "value")
	keep := name == "transfer_keep_alive"
	if name == "transfer_all" {
		have, err := s.of(ctx).Balance(ctx, signer)
		if err != nil {
			return nil, err
		}
		if keep, _ = a["keep_alive"].(bool); keep {
			have -= min(have, existential)
		}
		rao = have
	}
	return []any{scale.Value{Name: "Balances", Of: scale.Value{Name: "Transfer", Of: scale.Map{"from": signer, "to": to, "amount": rao}}}}, net.Transfer(ctx, signer, to, rao, keep)
}

// existential is what an account has at least, in rao.
const existential = 500

// maxCalls is how many calls a batch has at most.
const maxCalls = 64

// applyBatch applies calls one after the other: batch ends at the first that is
// refused, force_batch goes on, batch_all makes all or none.
func (s *Server) applyBatch(ctx context.Context, who caller, name string, a scale.Map) (events []any, err error) {
	event := func(name string, of any) {
		events = append(events, scale.Value{Name: "Utility", Of: scale.Value{Name: name, Of: of}})
	}
	calls, _ := a["calls"].([]any)
	switch {
	case len(calls) > maxCalls:
		return nil, ledger.ErrBadOrigin.With("too many calls")
	case who.batched: // each batch of all or none copies the ledger
		return nil, ledger.ErrBadOrigin.With("a batch in a batch")
	}
	who.batched = true
	if name == "batch_all" {
		err := s.together(ctx, func(ctx context.Context) error {
			for _, c := range calls {
				left, err := s.apply(ctx, who, c)
				if err != nil {
					return err
				}
				events = append(events, left...)
				event("ItemCompleted", nil)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		event("BatchCompleted", nil)
		return events, nil
	}
	failed := false
	for i, c := range calls {
		left, err := s.apply(ctx, who, c)
		failure, err := s.dispatchError(err)
		if err != nil {
			return events, err
		}
		switch {
		case failure == nil:
			events = append(events, left...)
			event("ItemCompleted", nil)
			continue
		case name == "batch":
			event("BatchInterrupted", scale.Map{"index": i, "error": failure})
			return events, nil
		}
		failed = true
		event("ItemFailed", scale.Map{"error": failure})
	}
	if failed {
		event("BatchCompletedWithErrors", nil)
	} else {
		event("BatchCompleted", nil)
	}
	return events, nil
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

// hashFields are the forms of fields that hold 32 bytes besides Sha256.
var hashFields = []string{"BlakeTwo256", "Keccak256", "ShaThree256"}

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
	case x.Name == string(ledger.FieldTimelock):
		m, _ := x.Of.(scale.Map)
		b, _ := m["encrypted"].(scale.Bytes)
		round, _ := m["reveal_round"].(uint64)
		return ledger.Field{Type: ledger.FieldTimelock, Data: b, Round: round}, nil
	case len(x.Name) >= 4 && x.Name[:3] == "Raw":
		if b == nil {
			b = scale.Bytes{}
		}
		return ledger.Field{Type: ledger.FieldRaw, Data: b}, nil
	}
	return ledger.Field{Type: ledger.FieldType(x.Name), Data: b}, nil
}

// fieldValue is FieldOf the other way.
func fieldValue(f ledger.Field) scale.Value {
	switch {
	case f.Type == ledger.FieldTimelock:
		return scale.Value{Name: string(f.Type), Of: scale.Map{"encrypted": scale.Bytes(f.Data), "reveal_round": f.Round}}
	case f.Type == ledger.FieldResetBonds || f.Type == ledger.FieldNone:
		return scale.Value{Name: string(f.Type)}
	case slices.Contains(hashFields, string(f.Type)):
		return scale.Value{Name: string(f.Type), Of: scale.Bytes(f.Data)}
	}
	return scale.Value{Name: map[ledger.FieldType]string{ledger.FieldRaw: "Raw", ledger.FieldBigRaw: "BigRaw", ledger.FieldSha256: "Sha256"}[f.Type], Of: scale.Bytes(f.Data)}
}

// dispatchError makes a refusal of the ledger the error of a dispatch. What is
// not a refusal stays an error.
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
	case refusal.Name == ledger.ErrFundsUnavailable.Name, refusal.Name == ledger.ErrNotExpendable.Name, refusal.Name == ledger.ErrBelowMinimum.Name:
		return scale.Value{Name: "Token", Of: scale.Value{Name: refusal.Name}}, nil
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
