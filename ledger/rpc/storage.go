package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/trie"
)

// reading answers one request; it looks at each subnet once.
type reading struct {
	*Server
	ctx    context.Context
	block  uint64
	ledger ledger.Full // as of block, where its ledger keeps states
	metas  map[uint16]*ledger.Metagraph

	whole    *ledger.World // read once, by economy
	bondRows map[uint16][]ledger.WeightRow
	held     map[string]ledger.Holdings
}

func (s *Server) reading(ctx context.Context, block uint64) (*reading, error) {
	r := &reading{Server: s, ctx: ctx, block: block, ledger: s.cfg.Ledger, metas: map[uint16]*ledger.Metagraph{}}
	if h, ok := s.cfg.Ledger.(Historic); ok {
		switch l, err := h.At(ctx, block); {
		case errors.Is(err, errors.ErrUnsupported):
		case errors.Is(err, ledger.ErrDiscarded):
			return nil, errDiscarded
		case err != nil:
			return nil, err
		default:
			r.ledger = l
		}
	}
	return r, nil
}

// Historic is a Ledger whose state can be read as it was at the end of a block.
type Historic interface {
	// At is errors.ErrUnsupported where nothing is kept: then the newest state is read.
	At(ctx context.Context, block uint64) (ledger.Full, error)
}

// subnet returns nil for one that does not exist.
func (r *reading) subnet(key any) (*ledger.Metagraph, error) {
	n, ok := key.(uint64)
	if !ok || n > 65535 {
		return nil, nil
	}
	if m, ok := r.metas[uint16(n)]; ok {
		return m, nil
	}
	m, err := r.ledger.Metagraph(r.ctx, uint16(n))
	if errors.Is(err, ledger.ErrSubnetNotExists) {
		m, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if m != nil {
		m.Block = min(m.Block, r.block)
	}
	r.metas[uint16(n)] = m
	return m, nil
}

func (r *reading) all() (out []*ledger.Metagraph, err error) {
	ids, err := r.ledger.Subnets(r.ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		m, err := r.subnet(uint64(id))
		if err != nil {
			return nil, err
		}
		if m != nil {
			out = append(out, m)
		}
	}
	return out, nil
}

// stored is the value at a key; nil = none.
func (r *reading) stored(key []byte) ([]byte, error) {
	if len(key) < 32 {
		return nil, nil
	}
	name, ok := r.prefixes[[32]byte(key[:32])]
	if !ok {
		return nil, nil
	}
	keys, err := r.meta.SplitKey(name[0], name[1], key)
	if err != nil {
		return nil, nil // no value of ours has such a key
	}
	_, item, err := r.meta.Storage(name[0], name[1])
	if err != nil {
		return nil, err
	}
	return r.encoded(name, item, keys)
}

// encoded is the value of an item at its keys, as it is stored; nil = none.
func (r *reading) encoded(name [2]string, item *scale.Storage, keys []any) ([]byte, error) {
	v, err := r.value(name[0]+"."+name[1], keys)
	if err != nil || v == nil {
		return nil, err
	}
	b, err := scale.Encode(nil, item.Value, v)
	if err != nil {
		return nil, fmt.Errorf("storage %s.%s: %w", name[0], name[1], err)
	}
	return b, nil
}

// value answers an item; nil = absent.
func (r *reading) value(item string, keys []any) (any, error) {
	switch item {
	case "System.Number":
		return r.block, nil
	case "System.ParentHash":
		return r.hash(r.ctx, max(r.block, 1)-1)
	case "System.BlockHash":
		if n, ok := keys[0].(uint64); ok && n <= r.block {
			return r.hash(r.ctx, n)
		}
		return nil, nil
	case "System.Events":
		b, err := r.Server.block(r.ctx, r.block)
		return orEmpty(b.events), err
	case "System.EventCount":
		b, err := r.Server.block(r.ctx, r.block)
		return len(b.events), err
	case "System.Account":
		return r.account(keys[0])
	case "Timestamp.Now":
		at, err := r.Server.timeOf(r.ctx, r.block)
		return uint64(at.UnixMilli()), err
	case "Commitments.MaxSpace":
		all, err := r.all()
		if err != nil || len(all) == 0 {
			return nil, err
		}
		return min(all[0].Hyper.CommitmentSpace, 1<<32-1), nil
	case "Commitments.CommitmentOf", "Commitments.LastCommitment":
		return r.commitment(item, keys)
	case "Commitments.RevealedCommitments":
		return r.revealed(keys)
	case "SubtensorModule.StakeThreshold", "SubtensorModule.WeightsMinStake", "SubtensorModule.SubnetOwnerCut", "SubtensorModule.BlockEmission":
		all, err := r.all()
		if err != nil || len(all) == 0 {
			return nil, err
		}
		h := &all[0].Hyper
		return map[string]any{"StakeThreshold": h.StakeThreshold, "WeightsMinStake": h.StakeThreshold, "SubnetOwnerCut": h.OwnerCut, "BlockEmission": h.EmissionPerBlock}[item[len("SubtensorModule."):]], nil
	case "SubtensorModule.TimelockedWeightCommits", "Drand.Pulses", "Drand.LastStoredRound", "Drand.BeaconConfig":
		return r.timelocked(item, keys)
	case "SubtensorModule.Owner":
		coldkey, err := r.owner(keys[0].(string))
		if coldkey == "" {
			return nil, err
		}
		return coldkey, nil
	case "SubtensorModule.TotalHotkeyStake": // of runtimes before alpha
		all, err := r.all()
		if err != nil {
			return nil, err
		}
		var sum uint64
		for _, m := range all {
			n, _ := m.Neuron(keys[0].(string))
			sum += n.Stake
		}
		return sum, nil
	case "SubtensorModule.TotalHotkeyAlpha":
		return r.stakedOn(keys)
	case "Proxy.Proxies", "Proxy.Announcements":
		return r.proxied(item, keys)
	}
	if v, ok, err := r.world(item, keys); ok || err != nil {
		return v, err
	}
	name, ok := strings.CutPrefix(item, "SubtensorModule.")
	if name == "MinerCollateral" || name == "ColdkeyMinerCollateral" {
		return r.collateral(name, keys)
	}
	if !ok {
		return r.ofSwap(item, keys)
	}
	if v, ok, err := r.ofWorld(name, keys); ok || err != nil {
		return v, err
	}
	if len(keys) == 0 || len(keys) > 2 {
		return nil, nil
	}
	if slices.Contains(perMechanism, name) {
		return r.ofMechanism(name, keys)
	}
	m, err := r.subnet(keys[0])
	if err != nil || m == nil {
		return r.ofRoot(name, keys, err)
	}
	return ofSubnet(m, name, keys)
}

func orEmpty(s []any) []any {
	if s == nil {
		return []any{}
	}
	return s
}

func (r *reading) commitment(item string, keys []any) (any, error) {
	n, hotkey := uint16(keys[0].(uint64)), keys[1].(string)
	all, err := r.cfg.Ledger.History(r.ctx, n, hotkey, 0)
	if errors.Is(err, ledger.ErrSubnetNotExists) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// As of the block that is asked for; who lost its uid since has none.
	m, err := r.subnet(keys[0])
	if err != nil || m == nil {
		return nil, err
	}
	if _, ok := m.Neuron(hotkey); !ok {
		return nil, nil
	}
	var last *ledger.Commitment
	for i := range all {
		if all[i].Block <= r.block {
			last = &all[i]
		}
	}
	if last == nil {
		return nil, nil
	}
	fieldsOfLast, err := r.unopened(n, last)
	if fieldsOfLast == nil || err != nil {
		return nil, err
	}
	if item == "Commitments.LastCommitment" {
		return last.Block, nil
	}
	fields := make([]any, len(fieldsOfLast))
	for i, f := range fieldsOfLast {
		fields[i] = fieldValue(f)
	}
	return scale.Map{"deposit": 0, "block": last.Block, "info": scale.Map{"fields": fields}}, nil
}

func column[T any](m *ledger.Metagraph, f func(*ledger.Neuron) T) []any {
	out := make([]any, len(m.Neurons))
	for i := range m.Neurons {
		out[i] = f(&m.Neurons[i])
	}
	return out
}

// keyKinds says of what the keys of an item are made: a account, n 16 bits (a
// netuid, then a uid), ? something else.
func keyKinds(item *scale.Storage) string {
	kinds := make([]byte, len(item.Keys))
	for i, t := range item.Keys {
		switch {
		case t.Name() == "AccountId32":
			kinds[i] = 'a'
		case t.Form == scale.Primitive && t.Prim == scale.U16:
			kinds[i] = 'n'
		default:
			kinds[i] = '?'
		}
	}
	return string(kinds)
}

// list gives the keys that begin with prefix and have a value, sorted.
func (r *reading) list(prefix []byte) ([][]byte, error) {
	entries, err := r.entries(prefix)
	out := make([][]byte, len(entries))
	for i, e := range entries {
		out[i] = e.Key
	}
	return out, err
}

// entries gives the values at the keys that begin with prefix, sorted by key.
func (r *reading) entries(prefix []byte) ([]trie.Entry, error) {
	if len(prefix) < 32 {
		return nil, nil
	}
	name, ok := r.prefixes[[32]byte(prefix[:32])]
	if !ok {
		return nil, nil
	}
	_, item, err := r.meta.Storage(name[0], name[1])
	if err != nil {
		return nil, err
	}
	all, err := r.all()
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []trie.Entry
	sorted := func() { slices.SortFunc(out, func(a, b trie.Entry) int { return bytes.Compare(a.Key, b.Key) }) }
	add := func(keys ...any) error {
		k, err := r.meta.StorageKey(name[0], name[1], keys...)
		if err != nil || seen[string(k)] || !bytes.HasPrefix(k, prefix) {
			return err
		}
		seen[string(k)] = true
		v, err := r.encoded(name, item, keys)
		if err == nil && v != nil {
			out = append(out, trie.Entry{Key: k, Value: v})
		}
		return err
	}
	if len(item.Keys) == 0 {
		err := add()
		return out, err
	}
	if item.Name == "TimelockedWeightCommits" {
		t, ok := r.ledger.(Timelocks)
		if !ok {
			return nil, nil
		}
		for _, m := range all {
			commits, err := t.Timelocked(r.ctx, m.Netuid)
			if err != nil {
				return nil, err
			}
			for _, c := range commits {
				if err := add(uint64(m.Netuid)+ledger.MechanismStep*uint64(c.Mechanism), c.Epoch); err != nil {
					return nil, err
				}
			}
		}
		sorted()
		return out, nil
	}
	if name[0] == "Proxy" {
		err := r.proxyKeys(item.Name, add)
		sorted()
		return out, err
	}
	kinds := keyKinds(item)
	if item.Name == "MinerCollateral" || item.Name == "ColdkeyMinerCollateral" {
		err := r.collateralKeys(kinds, add)
		sorted()
		return out, err
	}
	if err := r.worldly(kinds, add); err != nil {
		return nil, err
	}
	several := slices.Contains(perMechanism, item.Name)
	for _, m := range all {
		netuids := []uint64{uint64(m.Netuid)}
		if several {
			netuids = indexes(m)
		}
		for _, netuid := range netuids {
			if err := listed(m, kinds, netuid, add); err != nil {
				return nil, err
			}
		}
	}
	sorted()
	return out, nil
}

// listed adds the keys of a subnet's items whose keys are of these kinds.
func listed(m *ledger.Metagraph, kinds string, netuid uint64, add func(keys ...any) error) error {
	if kinds == "n" {
		return add(netuid)
	}
	for _, n := range m.Neurons {
		var keys [][]any
		switch kinds {
		case "a":
			keys = [][]any{{n.Hotkey}, {n.Coldkey}}
		case "an":
			keys = [][]any{{n.Hotkey, netuid}}
		case "na":
			keys = [][]any{{netuid, n.Hotkey}}
		case "nn":
			keys = [][]any{{netuid, uint64(n.UID)}}
		case "aan":
			keys = [][]any{{n.Hotkey, n.Coldkey, netuid}}
		}
		for _, k := range keys {
			if err := add(k...); err != nil {
				return err
			}
		}
	}
	return nil
}

// api answers a method of a runtime API.
func (r *reading) api(name string, x *scale.Method, args []any) (any, error) {
	switch name {
	case "Core_version":
		v, _ := scale.Zero(x.Output).(scale.Map)
		for k, value := range map[string]any{"spec_name": SpecName, "impl_name": SpecName, "authoring_version": 1, "spec_version": r.cfg.SpecVersion, "impl_version": 1, "transaction_version": TxVersion} {
			v[k] = value
		}
		return v, nil
	case "Metadata_metadata":
		return scale.Bytes(r.v14), nil
	case "Metadata_metadata_versions":
		return []any{14, 15}, nil
	case "Metadata_metadata_at_version":
		switch args[0] {
		case uint64(14):
			return scale.Bytes(r.v14), nil
		case uint64(15):
			return scale.Bytes(r.v15), nil
		}
		return nil, nil
	case "AccountNonceApi_account_nonce":
		pub, err := auth.ParseSS58(args[0].(string))
		if err != nil {
			return nil, err
		}
		return r.nonceIn(r.ctx, r.ledger, pub)
	case "TransactionPaymentApi_query_info":
		return scale.Zero(x.Output), nil
	}
	if v, ok, err := r.localnet(name, x, args); ok || err != nil {
		return v, err
	}
	if len(args) == 0 {
		return nil, errors.New(name + " is not answered")
	}
	m, err := r.subnet(args[0])
	if err != nil {
		return nil, err
	}
	if m == nil {
		if name == "NeuronInfoRuntimeApi_get_neurons_lite" || name == "NeuronInfoRuntimeApi_get_neurons" {
			return []any{}, nil
		}
		return nil, nil
	}
	switch name {
	case "NeuronInfoRuntimeApi_get_neurons_lite":
		return column(m, func(n *ledger.Neuron) any { return lite(m, n, x.Output.Elem) }), nil
	case "NeuronInfoRuntimeApi_get_neurons":
		out := make([]any, len(m.Neurons))
		for i := range m.Neurons {
			if out[i], err = r.full(m, &m.Neurons[i], x.Output.Elem); err != nil {
				return nil, err
			}
		}
		return out, nil
	case "NeuronInfoRuntimeApi_get_neuron":
		if uid, _ := args[1].(uint64); uid < uint64(len(m.Neurons)) {
			return r.full(m, &m.Neurons[uid], some(x.Output))
		}
		return nil, nil
	case "SubnetInfoRuntimeApi_get_subnet_info", "SubnetInfoRuntimeApi_get_subnet_info_v2", "SubnetInfoRuntimeApi_get_subnet_hyperparams", "SubnetInfoRuntimeApi_get_subnet_hyperparams_v2":
		return fill(some(x.Output), hyperparameters(m)), nil
	case "SubnetInfoRuntimeApi_get_subnet_hyperparams_v3":
		return entries(m), nil
	case "SubnetInfoRuntimeApi_get_dynamic_info":
		return dynamic(m, some(x.Output)), nil
	case "SubnetInfoRuntimeApi_get_mechagraph":
		if m = mechanismOf(m, args[1]); m == nil {
			return nil, nil
		}
		return r.metagraph(m, x.Output), nil
	case "NeuronInfoRuntimeApi_get_neuron_lite":
		if uid, _ := args[1].(uint64); uid < uint64(len(m.Neurons)) {
			return lite(m, &m.Neurons[uid], x.Output.Cases[1].Fields[0].Type), nil
		}
		return nil, nil
	case "SubnetInfoRuntimeApi_get_next_epoch_start_block":
		next, err := m.NextEpoch()
		if err != nil {
			return nil, nil
		}
		return next, nil
	case "SubnetInfoRuntimeApi_get_subnet_state":
		full, err := r.meta.Method("SubnetInfoRuntimeApi", "get_metagraph")
		if err != nil {
			return nil, err
		}
		v, _ := scale.Zero(x.Output.Cases[1].Fields[0].Type).(scale.Map)
		whole := r.metagraph(m, full.Output)
		for name := range v {
			if of, ok := whole[name]; ok {
				v[name] = of
			}
		}
		return v, nil
	case "SubnetInfoRuntimeApi_get_metagraph":
		return r.metagraph(m, x.Output), nil
	case "SubnetInfoRuntimeApi_get_selective_metagraph", "SubnetInfoRuntimeApi_get_selective_mechagraph":
		if len(args) == 3 {
			if m = mechanismOf(m, args[1]); m == nil {
				return nil, nil
			}
		}
		full, err := r.meta.Method("SubnetInfoRuntimeApi", "get_metagraph")
		if err != nil {
			return nil, err
		}
		asked := map[uint64]bool{0: true}
		list, _ := args[len(args)-1].([]any)
		for _, i := range list {
			if n, ok := i.(uint64); ok {
				asked[n] = true
			}
		}
		whole := r.metagraph(m, full.Output)
		out := scale.Map{}
		for i, f := range x.Output.Cases[1].Fields[0].Type.Fields {
			if v, ok := whole[f.Name]; ok && asked[uint64(i)] {
				if i > 0 {
					v = scale.Value{Name: "Some", Of: v}
				}
				out[f.Name] = v
			}
		}
		return out, nil
	}
	return nil, errors.New(name + " is not answered")
}

// lite fills NeuronInfoLite.
func lite(m *ledger.Metagraph, n *ledger.Neuron, t *scale.Type) any {
	v, _ := scale.Zero(t).(scale.Map)
	for name, x := range map[string]any{
		"hotkey": n.Hotkey, "coldkey": n.Coldkey, "uid": n.UID, "netuid": m.Netuid, "active": n.Active, "stake": []any{[]any{n.Coldkey, n.Stake}}, "emission": n.Emission,
		"incentive": n.Incentive, "consensus": n.Consensus, "trust": n.Trust, "validator_trust": n.ValidatorTrust, "dividends": n.Dividends, "last_update": n.LastUpdate,
		"validator_permit": n.Permit, "axon_info": axonOf(n),
	} {
		v[name] = x
	}
	return v
}

// metagraph fills the struct that t is an Option of.
func (r *reading) metagraph(m *ledger.Metagraph, t *scale.Type) scale.Map {
	v, _ := scale.Zero(t.Cases[1].Fields[0].Type).(scale.Map)
	h := &m.Hyper
	zeros := column(m, func(*ledger.Neuron) int { return 0 })
	axons := column(m, func(n *ledger.Neuron) any { return axonOf(n) })
	for name, x := range map[string]any{
		"netuid": m.Netuid, "owner_hotkey": m.OwnerHotkey, "owner_coldkey": m.OwnerColdkey, "block": m.Block, "tempo": h.Tempo, "last_step": m.Epoch.LastStep,
		"blocks_since_last_step": m.Block - min(m.Block, m.Epoch.Since), "kappa": h.Kappa, "min_allowed_weights": h.MinAllowedWeights, "max_weights_limit": 65535,
		"weights_version": h.WeightsVersionKey, "weights_rate_limit": h.WeightsRateLimit, "activity_cutoff": h.ActivityCutoff(), "max_validators": h.MaxValidators,
		"num_uids": len(m.Neurons), "max_uids": h.MaxUIDs, "burn": m.Burn, "registration_allowed": h.RegistrationOpen, "immunity_period": min(h.ImmunityPeriod, 65535),
		"min_burn": h.MinBurn, "max_burn": h.MaxBurn, "commit_reveal_weights_enabled": h.CommitReveal, "commit_reveal_period": h.RevealEpochs(),
		"liquid_alpha_enabled": h.LiquidAlpha, "alpha_high": h.AlphaHigh, "alpha_low": h.AlphaLow, "bonds_moving_avg": h.BondsMovingAverage,
		"hotkeys": column(m, func(n *ledger.Neuron) string { return n.Hotkey }), "coldkeys": column(m, func(n *ledger.Neuron) string { return n.Coldkey }),
		"identities": make([]any, len(m.Neurons)), "axons": axons, "active": column(m, func(n *ledger.Neuron) bool { return n.Active }),
		"validator_permit": column(m, func(n *ledger.Neuron) bool { return n.Permit }), "pruning_score": zeros,
		"last_update": column(m, func(n *ledger.Neuron) uint64 { return n.LastUpdate }), "emission": column(m, func(n *ledger.Neuron) uint64 { return n.Emission }),
		"dividends": column(m, func(n *ledger.Neuron) uint16 { return n.Dividends }), "incentives": column(m, func(n *ledger.Neuron) uint16 { return n.Incentive }),
		"consensus": column(m, func(n *ledger.Neuron) uint16 { return n.Consensus }), "trust": column(m, func(n *ledger.Neuron) uint16 { return n.Trust }), "rank": zeros,
		"block_at_registration": column(m, func(n *ledger.Neuron) uint64 { return n.RegisteredAt }), "alpha_stake": column(m, func(n *ledger.Neuron) uint64 { return n.Stake }),
		"tao_stake": zeros, "total_stake": column(m, func(n *ledger.Neuron) uint64 { return n.Stake }),
	} {
		v[name] = x
	}
	if m.Pool != nil {
		for name, x := range r.pooled(m) {
			v[name] = x
		}
	}
	return v
}
