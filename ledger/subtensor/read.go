package subtensor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

const (
	module      = "SubtensorModule"
	commitments = "Commitments"
	page        = 500 // keys of one request
)

// query reads many storage items at one block; an absent one is nil bytes.
func (c *Client) query(ctx context.Context, at point, keys [][]byte) ([][]byte, error) {
	out := make([][]byte, len(keys))
	for from := 0; from < len(keys); from += page {
		part := keys[from:min(from+page, len(keys))]
		text := make([]string, len(part))
		where := map[string]int{}
		for i, k := range part {
			text[i] = hexed(k)
			where[text[i]] = from + i
		}
		var sets []struct {
			Changes [][2]*string `json:"changes"`
		}
		if err := c.call(ctx, false, &sets, "state_queryStorageAt", text, at.hash); err != nil {
			return nil, err
		}
		for _, set := range sets {
			for _, change := range set.Changes {
				if change[0] == nil || change[1] == nil {
					continue
				}
				i, ok := where[*change[0]]
				if !ok {
					return nil, fmt.Errorf("%w: storage that was not asked for", ErrBadState)
				}
				b, err := unhex(*change[1])
				if err != nil {
					return nil, err
				}
				out[i] = b
			}
		}
	}
	return out, nil
}

// keys lists the keys with a prefix at one block.
func (c *Client) keys(ctx context.Context, at point, prefix []byte) ([][]byte, error) {
	var out [][]byte
	start := hexed(prefix)
	for {
		var some []string
		if err := c.call(ctx, false, &some, "state_getKeysPaged", hexed(prefix), page, start, at.hash); err != nil {
			return nil, err
		}
		for _, text := range some {
			if text <= start {
				return nil, fmt.Errorf("%w: keys are not in order", ErrBadState)
			}
			start = text
			k, err := unhex(text)
			if err != nil {
				return nil, err
			}
			out = append(out, k)
		}
		if len(some) < page {
			return out, nil
		}
		if len(out) > 1<<20 {
			return nil, fmt.Errorf("%w: more than %d keys", ErrBadState, 1<<20)
		}
	}
}

// entry is an item of a map with its keys.
type entry struct {
	keys  []any
	value any
}

// entries reads all of a map that begin with some keys.
func (c *Client) entries(ctx context.Context, m *scale.Metadata, at point, pallet, item string, keys ...any) ([]entry, error) {
	prefix, err := m.StorageKey(pallet, item, keys...)
	if err != nil {
		return nil, err
	}
	all, err := c.keys(ctx, at, prefix)
	if err != nil {
		return nil, err
	}
	values, err := c.query(ctx, at, all)
	if err != nil {
		return nil, err
	}
	out := make([]entry, 0, len(all))
	for i, k := range all {
		if values[i] == nil {
			continue
		}
		var e entry
		if e.keys, err = m.SplitKey(pallet, item, k); err != nil {
			return nil, err
		}
		if e.value, err = m.DecodeStorage(pallet, item, values[i]); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// get reads one item.
func (c *Client) get(ctx context.Context, m *scale.Metadata, at point, pallet, item string, keys ...any) (any, error) {
	key, err := m.StorageKey(pallet, item, keys...)
	if err != nil {
		return nil, err
	}
	var text *string
	if err := c.call(ctx, false, &text, "state_getStorage", hexed(key), at.hash); err != nil {
		return nil, err
	}
	var b []byte
	if text != nil {
		if b, err = unhex(*text); err != nil {
			return nil, err
		}
	}
	return m.DecodeStorage(pallet, item, b)
}

// values are storage items of one subnet by name, at one block.
type values map[string]any

func (v values) num(name string) uint64 {
	n, _ := v[name].(uint64)
	return n
}

func (v values) bool(name string) bool { b, _ := v[name].(bool); return b }
func (v values) text(name string) string {
	s, _ := v[name].(string)
	return s
}

func (v values) at(name string, i int) uint64 {
	list, _ := v[name].([]any)
	if i >= len(list) {
		return 0
	}
	n, _ := list[i].(uint64)
	return n
}

func (v values) is(name string, i int) bool {
	list, _ := v[name].([]any)
	if i >= len(list) {
		return false
	}
	b, _ := list[i].(bool)
	return b
}

// fixed is a number of 64 fraction bits with 32.
func (v values) fixed(name string) uint64 {
	m, _ := v[name].(scale.Map)
	switch bits := m["bits"].(type) {
	case *big.Int:
		return new(big.Int).Rsh(bits, 32).Uint64()
	case uint64:
		return bits >> 32
	}
	return 0
}

// read reads those of the named items that the runtime has; a name is an item
// of SubtensorModule keyed by netuid, or without key.
func (c *Client) read(ctx context.Context, m *scale.Metadata, at point, netuid uint16, names []string) (values, error) {
	var have []string
	var keys [][]byte
	for _, name := range names {
		_, s, err := m.Storage(module, name)
		if err != nil {
			continue // other runtimes have others
		}
		var key []byte
		if len(s.Keys) == 0 {
			key, err = m.StorageKey(module, name)
		} else {
			key, err = m.StorageKey(module, name, netuid)
		}
		if err != nil {
			return nil, err
		}
		have, keys = append(have, name), append(keys, key)
	}
	raw, err := c.query(ctx, at, keys)
	if err != nil {
		return nil, err
	}
	out := values{}
	for i, name := range have {
		if out[name], err = m.DecodeStorage(module, name, raw[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

var hyperItems = []string{
	"NetworksAdded", "SubnetworkN", "SubnetOwner", "SubnetOwnerHotkey", "Tempo", "LastEpochBlock", "PendingEpochAt", "SubnetEpochIndex", "BlocksSinceLastStep",
	"LastMechansimStepBlock", "Kappa", "ImmunityPeriod", "MinAllowedWeights", "WeightsVersionKey", "WeightsSetRateLimit", "ActivityCutoffFactorMilli", "ActivityCutoff", "MaxAllowedValidators",
	"MaxAllowedUids", "BondsMovingAverage", "BondsPenalty", "CommitRevealWeightsEnabled", "RevealPeriodEpochs", "StakeThreshold", "WeightsMinStake", "SubnetOwnerCut", "LiquidAlphaOn", "Yuma3On",
	"AlphaValues", "AlphaSigmoidSteepness", "NetworkRegistrationAllowed", "MinNonImmuneUids", "Burn", "MinBurn", "MaxBurn", "BurnHalfLife", "BlockEmission",
	"SubnetEpochConsensus", "CollateralLockShare", "CollateralDrainRatio",
}

// ownVectors are not in the metagraph of the runtime's API.
var ownVectors = []string{"ValidatorTrust"}

var vectors = []string{"Active", "Consensus", "Incentive", "Dividends", "Emission", "LastUpdate", "ValidatorPermit"}

// Subnets implements ledger.Full. The root network is none.
func (c *Client) Subnets(ctx context.Context) ([]uint16, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.entries(ctx, m, at, module, "NetworksAdded")
	if err != nil {
		return nil, err
	}
	out := []uint16{}
	for _, e := range all {
		if n, ok := e.keys[0].(uint64); ok && n > 0 && e.value == true {
			out = append(out, uint16(n))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Metagraph implements ledger.Reader: all of it at one block, the neurons in
// one runtime call where the runtime has it.
func (c *Client) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	return c.metagraphAt(ctx, m, at, netuid)
}

func noSubnet(netuid uint16) error {
	return ledger.ErrSubnetNotExists.With(fmt.Sprintf("subnet %d does not exist", netuid))
}

func (c *Client) metagraphAt(ctx context.Context, m *scale.Metadata, at point, netuid uint16) (*ledger.Metagraph, error) {
	method, err := m.Method("SubnetInfoRuntimeApi", "get_metagraph")
	byAPI := err == nil && !c.cfg.NoAPI
	names := slices.Concat(hyperItems, ownVectors)
	if !byAPI {
		names = append(names, vectors...)
	}
	v, err := c.read(ctx, m, at, netuid, names)
	if err != nil {
		return nil, err
	}
	if !v.bool("NetworksAdded") {
		return nil, noSubnet(netuid)
	}
	g := &ledger.Metagraph{Netuid: netuid, Block: at.number, OwnerHotkey: v.text("SubnetOwnerHotkey"), OwnerColdkey: v.text("SubnetOwner"), Burn: v.num("Burn"), Weights: []ledger.WeightRow{}}
	g.Hyper = hyper(v)
	if space, err := c.get(ctx, m, at, commitments, "MaxSpace"); err == nil {
		g.Hyper.CommitmentSpace, _ = space.(uint64)
	} else if !errors.Is(err, scale.ErrUnknown) {
		return nil, err
	}
	g.Epoch = ledger.Epoch{
		LastBlock: v.num("LastEpochBlock"), PendingAt: v.num("PendingEpochAt"), Index: v.num("SubnetEpochIndex"), LastStep: v.num("LastMechansimStepBlock"),
		Since: at.number - min(at.number, v.num("BlocksSinceLastStep")),
	}
	if byAPI {
		err = c.neuronsByAPI(ctx, method, at, g, v)
	} else {
		err = c.neuronsByStorage(ctx, m, at, g, v)
	}
	if err != nil {
		return nil, err
	}
	return g, c.weights(ctx, m, at, g)
}

func hyper(v values) ledger.Hyperparameters {
	u16 := func(name string) uint16 { return uint16(min(v.num(name), math.MaxUint16)) }
	h := ledger.Hyperparameters{
		Tempo: u16("Tempo"), MaxUIDs: u16("MaxAllowedUids"), MinAllowedWeights: u16("MinAllowedWeights"), WeightsVersionKey: v.num("WeightsVersionKey"),
		WeightsRateLimit: v.num("WeightsSetRateLimit"), StakeThreshold: v.num("StakeThreshold"), CommitReveal: v.bool("CommitRevealWeightsEnabled"),
		RegistrationOpen: v.bool("NetworkRegistrationAllowed"), ImmunityPeriod: v.num("ImmunityPeriod"), MaxValidators: u16("MaxAllowedValidators"), Kappa: u16("Kappa"),
		BondsMovingAverage: v.num("BondsMovingAverage"), Model: ledger.Dynamic, ActivityCutoffFactor: v.num("ActivityCutoffFactorMilli"), BondsPenalty: u16("BondsPenalty"),
		Yuma3: v.bool("Yuma3On"), LiquidAlpha: v.bool("LiquidAlphaOn"), AlphaLow: uint16(v.at("AlphaValues", 0)), AlphaHigh: uint16(v.at("AlphaValues", 1)),
		RevealPeriod: v.num("RevealPeriodEpochs"), MinBurn: v.num("MinBurn"), MaxBurn: v.num("MaxBurn"), BurnHalfLife: v.num("BurnHalfLife"),
		MinNonImmuneUIDs: u16("MinNonImmuneUids"), OwnerCut: u16("SubnetOwnerCut"), EmissionPerBlock: v.num("BlockEmission"), EmissionStaked: true,
	}
	if mode, ok := v["SubnetEpochConsensus"].(scale.Value); ok {
		h.NullConsensus = mode.Name == "Null"
	}
	h.CollateralShare = u16("CollateralLockShare")
	if h.CollateralShare > 0 {
		h.CollateralDrain = v.fixed("CollateralDrainRatio")
	}
	if steep, ok := v["AlphaSigmoidSteepness"].(int64); ok {
		h.AlphaSteepness = int16(steep)
	}
	if _, renamed := v["StakeThreshold"]; !renamed {
		h.StakeThreshold = v.num("WeightsMinStake")
	}
	if _, byFactor := v["ActivityCutoffFactorMilli"]; !byFactor { // newer runtimes keep the blocks, and do not look at them
		h.ActivityCutoffBlocks = v.num("ActivityCutoff")
	}
	if _, dynamic := v["LastEpochBlock"]; !dynamic {
		h.Model = ledger.Modulo
	}
	return h
}

// weights reads the rows of weights, and the promises where there may be some.
func (c *Client) weights(ctx context.Context, m *scale.Metadata, at point, g *ledger.Metagraph) error {
	rows, err := c.entries(ctx, m, at, module, "Weights", g.Netuid)
	if err != nil {
		return err
	}
	for _, e := range rows {
		uid, _ := e.keys[1].(uint64)
		pairs, _ := e.value.([]any)
		if uid >= uint64(len(g.Neurons)) || len(pairs) == 0 {
			continue
		}
		row := ledger.WeightRow{UID: uint16(uid)}
		if !g.Hyper.CommitReveal { // else the last update is that of a promise
			row.Block = g.Neurons[uid].LastUpdate
		}
		for _, p := range pairs {
			v := values{"": p}
			row.UIDs, row.Values = append(row.UIDs, uint16(v.at("", 0))), append(row.Values, uint16(v.at("", 1)))
		}
		g.Weights = append(g.Weights, row)
	}
	slices.SortFunc(g.Weights, func(a, b ledger.WeightRow) int { return int(a.UID) - int(b.UID) })
	if !g.Hyper.CommitReveal {
		return nil
	}
	return c.promises(ctx, m, at, g)
}

// Commitments implements ledger.Reader.
func (c *Client) Commitments(ctx context.Context, netuid uint16) ([]ledger.Commitment, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.exists(ctx, m, at, netuid); err != nil {
		return nil, err
	}
	all, err := c.entries(ctx, m, at, commitments, "CommitmentOf", netuid)
	if err != nil {
		return nil, err
	}
	keys, err := c.entries(ctx, m, at, module, "Keys", netuid)
	if err != nil {
		return nil, err
	}
	byUID := map[uint64]ledger.Commitment{}
	for _, e := range all {
		for _, k := range keys {
			if k.value != e.keys[1] {
				continue
			}
			uid, _ := k.keys[1].(uint64)
			hot, _ := k.value.(string)
			if byUID[uid], err = commitment(netuid, hot, e.value); err != nil {
				return nil, err
			}
		}
	}
	out := []ledger.Commitment{}
	for uid := range uint64(ledger.MaxUID + 1) {
		if x, ok := byUID[uid]; ok {
			out = append(out, x)
		}
	}
	return out, nil
}

func (c *Client) exists(ctx context.Context, m *scale.Metadata, at point, netuid uint16) error {
	ok, err := c.get(ctx, m, at, module, "NetworksAdded", netuid)
	if err == nil && ok != true {
		err = noSubnet(netuid)
	}
	return err
}

func commitment(netuid uint16, hotkey string, v any) (ledger.Commitment, error) {
	x, ok := v.(scale.Map)
	if !ok {
		return ledger.Commitment{}, fmt.Errorf("%w: commitment of %s", ErrBadState, hotkey)
	}
	out := ledger.Commitment{Netuid: netuid, Hotkey: hotkey, Fields: []ledger.Field{}}
	out.Block, _ = x["block"].(uint64)
	info, _ := x["info"].(scale.Map)
	fields, _ := info["fields"].([]any)
	for _, f := range fields {
		value, _ := f.(scale.Value)
		out.Fields = append(out.Fields, field(value))
	}
	return out, nil
}

// field reads one committed field; forms without a name of ours keep the chain's.
func field(v scale.Value) ledger.Field {
	b, _ := v.Of.(scale.Bytes)
	if b == nil {
		b = scale.Bytes{}
	}
	switch {
	case v.Name == "Sha256":
		return ledger.Field{Type: ledger.FieldSha256, Data: b}
	case v.Name == "BigRaw":
		return ledger.Field{Type: ledger.FieldBigRaw, Data: b}
	case len(v.Name) > 3 && v.Name[:3] == "Raw":
		return ledger.Field{Type: ledger.FieldRaw, Data: b}
	case v.Name == "TimelockEncrypted":
		if m, ok := v.Of.(scale.Map); ok {
			b, _ = m["encrypted"].(scale.Bytes)
			round, _ := m["reveal_round"].(uint64)
			return ledger.Field{Type: ledger.FieldTimelock, Data: b, Round: round}
		}
	}
	return ledger.Field{Type: ledger.FieldType(v.Name), Data: b}
}

// maxHistory bounds how many commitments History walks back.
const maxHistory = 10_000

// History implements ledger.Reader. A chain keeps one commitment: the older
// ones are read from the state before it was made, which the node must still have.
func (c *Client) History(ctx context.Context, netuid uint16, hotkey string, from uint64) ([]ledger.Commitment, error) {
	if _, err := auth.ParseSS58(hotkey); err != nil {
		return nil, badAddress("hotkey", err)
	}
	at, m, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.exists(ctx, m, at, netuid); err != nil {
		return nil, err
	}
	out := []ledger.Commitment{}
	for len(out) < maxHistory {
		v, err := c.get(ctx, m, at, commitments, "CommitmentOf", netuid, hotkey)
		if err != nil {
			return nil, fmt.Errorf("history before block %d: %w", at.number, err)
		}
		if v == nil {
			break
		}
		x, err := commitment(netuid, hotkey, v)
		if err != nil {
			return nil, err
		}
		if x.Block < from {
			break
		}
		if x.Block > at.number {
			return nil, fmt.Errorf("%w: commitment of block %d in block %d", ErrBadState, x.Block, at.number)
		}
		out = append(out, x)
		if x.Block == 0 {
			break
		}
		at.number = x.Block - 1
		if at.hash, err = c.hashAt(ctx, at.number); err != nil {
			return nil, err
		}
		if at.hash == "" {
			return nil, fmt.Errorf("%w: no hash of block %d", ErrBadState, at.number)
		}
		rt, err := c.runtime(ctx, at.hash) // of then
		if err != nil {
			return nil, err
		}
		m = rt.meta
	}
	slices.Reverse(out)
	return out, nil
}

// Balance implements ledger.Staker.
func (c *Client) Balance(ctx context.Context, coldkey string) (uint64, error) {
	if _, err := auth.ParseSS58(coldkey); err != nil {
		return 0, badAddress("coldkey", err)
	}
	at, m, err := c.now(ctx)
	if err != nil {
		return 0, err
	}
	v, err := c.get(ctx, m, at, "System", "Account", coldkey)
	if err != nil {
		return 0, err
	}
	account, _ := v.(scale.Map)
	data, _ := account["data"].(scale.Map)
	return values(data).num("free"), nil
}
