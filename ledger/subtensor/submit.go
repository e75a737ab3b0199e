package subtensor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/timelock"
)

// Event is one event of an extrinsic.
type Event struct {
	Pallet string `json:"pallet"`
	Name   string `json:"name"`
	Data   any    `json:"data,omitempty"`
}

// Included says where an extrinsic is and what it did.
type Included struct {
	Block     uint64  `json:"block"`
	BlockHash string  `json:"block_hash"`
	Hash      string  `json:"extrinsic_hash"`
	Index     int     `json:"index"`
	Events    []Event `json:"events"`
	Fee       uint64  `json:"fee"` // rao
}

func badAddress(field string, err error) error {
	return &agon.Error{Code: "bad_address", Status: http.StatusUnprocessableEntity, Field: field, Message: field + " is not an SS58 address with prefix 42", Err: err}
}

// queue is the lock under which extrinsics of one address are made: one at a
// time, so that nonces do not cross.
func (c *Client) queue(address string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[address]
	if q == nil {
		q = &sync.Mutex{}
		c.queues[address] = q
	}
	return q
}

// maxTries is how often an extrinsic is made again that the pool refused for
// what passes: an upgrade, or a nonce that was taken.
const maxTries = 4

// Submit signs a call with the key of address, sends it and waits until it is
// in a block. A refusal by the runtime is an error by its name, with where it is.
func (c *Client) Submit(ctx context.Context, address, pallet, call string, args any) (*Included, error) {
	if c.cfg.Signer == nil {
		return nil, &agon.Error{Code: "no_key", Status: http.StatusUnauthorized, Message: "this client reads only"}
	}
	signer, err := c.cfg.Signer(address)
	if err != nil {
		return nil, err
	}
	q := c.queue(address)
	q.Lock()
	defer q.Unlock()
	for try := 1; ; try++ {
		in, err := c.attempt(ctx, signer, address, pallet, call, args)
		var refused *RPCError
		if errors.As(err, &refused) && try < maxTries && passing(refused) {
			continue
		}
		if errors.As(err, &refused) {
			return nil, c.poolError(refused)
		}
		return in, err
	}
}

// passing reports whether the pool may take the extrinsic when it is made anew.
func passing(e *RPCError) bool {
	return e.Code == 1014 || e.Code == 1010 && e.says("bad signature", "badproof", "outdated", "stale", "future", "ancient")
}

// customNames are the pool's codes of runtimes that have register_limit.
var customNames = map[int]string{
	0: "ColdKeyAlreadyAssociated", 1: "NotEnoughStakeToSetWeights", 2: "NotEnoughBalanceToStake", 3: "SubnetNotExists", 4: "HotKeyAccountNotExists", 5: "NotEnoughStakeToWithdraw",
	6: "RateLimitExceeded", 7: "InsufficientLiquidity", 8: "SlippageTooHigh", 9: "TransferDisallowed", 10: "HotKeyNotRegisteredInSubNet", 11: "InvalidIpAddress",
	12: "ServingRateLimitExceeded", 13: "InvalidPort", 14: "ZeroMaxStakeAmount", 15: "InvalidRevealRound", 16: "NoWeightsCommitFound", 17: "RevealTooEarly", 18: "InputLengthsUnequal",
	19: "UidNotFound", 20: "EvmKeyAssociateRateLimitExceeded", 21: "ColdkeySwapDisputed", 22: "InvalidRealAccount", 23: "ShieldedParse", 24: "ShieldedKeyHash", 25: "NonAssociatedColdKey",
	26: "DelegateTakeTooLow", 27: "DelegateTakeTooHigh", 255: "BadRequest",
}

// poolError names what the pool refused.
func (c *Client) poolError(e *RPCError) error {
	text := strings.ToLower(string(e.Data) + " " + e.Message)
	if _, after, ok := strings.Cut(text, "custom error: "); ok && e.Code == 1010 {
		digits := strings.TrimRight(after, ` "`)
		if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			digits = digits[:i]
		}
		n, err := strconv.Atoi(digits)
		c.mu.Lock()
		rt := c.rt
		c.mu.Unlock()
		name := "Custom" + digits
		if err == nil && rt != nil && rt.meta.HasCall(module, "register_limit") && customNames[n] != "" {
			name = customNames[n]
		}
		return &ledger.Error{Name: name, Message: fmt.Sprintf("the pool refused the extrinsic with custom error %s", digits)}
	}
	if e.Code == 1010 && e.says("inability to pay", "payment") {
		return &ledger.Error{Name: "InabilityToPay", Message: e.Message}
	}
	return e
}

// attempt makes and sends one extrinsic and waits for it.
func (c *Client) attempt(ctx context.Context, signer auth.Signer, address, pallet, call string, args any) (*Included, error) {
	rt, err := c.runtime(ctx)
	if err != nil {
		return nil, err
	}
	body, err := rt.meta.EncodeCall(pallet, call, args)
	if err != nil {
		return nil, err
	}
	start, err := c.head(ctx)
	if err != nil {
		return nil, err
	}
	era, birth, err := c.era(ctx)
	if err != nil {
		return nil, err
	}
	var nonce uint64
	if err := c.call(ctx, false, &nonce, "system_accountNextIndex", address); err != nil {
		return nil, err
	}
	c.mu.Lock()
	chain := scale.Chain{Genesis: *c.genesis, SpecVersion: rt.spec, Version: rt.tx}
	c.mu.Unlock()
	birthHash, err := hash32(birth.hash)
	if err != nil {
		return nil, err
	}
	extra, err := rt.meta.Extra(era, nonce, 0)
	if err != nil {
		return nil, err
	}
	additional, err := rt.meta.Additional(chain, birthHash)
	if err != nil {
		return nil, err
	}
	sig, err := signer.Sign(scale.Payload(body, extra, additional))
	if err != nil {
		return nil, fmt.Errorf("sign extrinsic: %w", err)
	}
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return nil, badAddress("signer", err)
	}
	raw := (&scale.Extrinsic{Signer: pub, Signature: sig, Extra: extra, Call: body}).Encode()
	var told string
	err = c.call(ctx, true, &told, "author_submitExtrinsic", hexed(raw))
	var refused *RPCError
	if errors.As(err, &refused) && refused.Code != 1013 {
		return nil, err
	}
	if errors.Is(err, ErrNoNode) {
		return nil, err
	}
	// Whatever else went wrong, the node may have it: the blocks will show.
	return c.watch(ctx, raw, start.number, birth.number+eraPeriod(c.cfg.Period))
}

func eraPeriod(period uint64) uint64 {
	p := uint64(4)
	for p < period && p < 65536 {
		p <<= 1
	}
	return p
}

// era makes the mortality of an extrinsic that is made now, and the block in which it begins.
func (c *Client) era(ctx context.Context) ([]byte, point, error) {
	var p point
	var final string
	if err := c.call(ctx, false, &final, "chain_getFinalizedHead"); err != nil {
		return nil, p, err
	}
	var h struct {
		Number string `json:"number"`
	}
	if err := c.call(ctx, false, &h, "chain_getHeader", final); err != nil {
		return nil, p, err
	}
	current, err := strconv.ParseUint(strings.TrimPrefix(h.Number, "0x"), 16, 32)
	if err != nil {
		return nil, p, fmt.Errorf("%w: block number %q", ErrBadState, h.Number)
	}
	era := ledger.Era(c.cfg.Period, current)
	period := eraPeriod(c.cfg.Period)
	quantum := max(period>>12, 1)
	phase := current % period / quantum * quantum
	p.number = (max(current, phase)-phase)/period*period + phase
	if err := c.call(ctx, false, &p.hash, "chain_getBlockHash", p.number); err != nil {
		return nil, p, err
	}
	return era[:], p, nil
}

// watch looks for an extrinsic in the blocks from one on, until it can be in
// none any more.
func (c *Client) watch(ctx context.Context, raw []byte, from, dies uint64) (*Included, error) {
	want := hexed(raw)
	hash := scale.Hash(raw)
	next := from
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	for {
		at, err := c.head(ctx)
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("wait for extrinsic %x: %w", hash, ctx.Err())
		}
		for err == nil && next <= at.number {
			p := point{number: next}
			if err = c.call(ctx, false, &p.hash, "chain_getBlockHash", next); err != nil {
				break
			}
			var b struct {
				Block struct {
					Extrinsics []string `json:"extrinsics"`
				} `json:"block"`
			}
			if err = c.call(ctx, false, &b, "chain_getBlock", p.hash); err != nil {
				break
			}
			if i := slices.Index(b.Block.Extrinsics, want); i >= 0 {
				return c.outcome(ctx, p, hash, i)
			}
			// The newest block is looked at again: a ledger that is stepped by hand fills it further.
			if next == at.number {
				break
			}
			next++
		}
		if err == nil && at.number >= dies {
			return nil, fmt.Errorf("extrinsic %x: %w in block %d", hash, ErrUnknownFate, dies)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for extrinsic %x: %w", hash, ctx.Err())
		case <-tick.C:
		}
	}
}

// outcome reads what became of the extrinsic at an index of a block.
func (c *Client) outcome(ctx context.Context, p point, hash [32]byte, index int) (*Included, error) {
	rt, err := c.runtime(ctx)
	if err != nil {
		return nil, err
	}
	v, err := c.get(ctx, rt.meta, p, "System", "Events")
	if err != nil {
		return nil, fmt.Errorf("events of block %d: %w", p.number, err)
	}
	in := &Included{Block: p.number, BlockHash: p.hash, Hash: hexed(hash[:]), Index: index, Events: []Event{}}
	records, _ := v.([]any)
	var failure error
	done := false
	for _, x := range records {
		r, _ := x.(scale.Map)
		phase, _ := r["phase"].(scale.Value)
		if phase.Name != "ApplyExtrinsic" || phase.Of != uint64(index) {
			continue
		}
		pallet, _ := r["event"].(scale.Value)
		e, _ := pallet.Of.(scale.Value)
		in.Events = append(in.Events, Event{pallet.Name, e.Name, e.Of})
		data, _ := e.Of.(scale.Map)
		switch pallet.Name + "." + e.Name {
		case "System.ExtrinsicSuccess":
			done = true
		case "System.ExtrinsicFailed":
			done, failure = true, dispatchError(rt.meta, data["dispatch_error"])
		case "TransactionPayment.TransactionFeePaid":
			in.Fee, _ = data["actual_fee"].(uint64)
		case "Utility.BatchInterrupted", "Utility.ItemFailed":
			failure = dispatchError(rt.meta, data["error"])
		case "SubtensorModule.BatchWeightItemFailed", "SubtensorModule.BatchCompletedWithErrors":
			if failure == nil {
				failure = &ledger.Error{Name: e.Name, Message: "a part of the batch was refused"}
			}
		}
	}
	if !done {
		return nil, fmt.Errorf("%w: no outcome of extrinsic %d of block %d", ErrBadState, index, p.number)
	}
	if c.cfg.Included != nil {
		c.cfg.Included(*in)
	}
	return in, failure
}

// dispatchError names a DispatchError by the metadata.
func dispatchError(m *scale.Metadata, v any) error {
	x, _ := v.(scale.Value)
	if x.Name == "Module" {
		data, _ := x.Of.(scale.Map)
		index, _ := data["index"].(uint64)
		code, _ := data["error"].(scale.Bytes)
		if len(code) > 0 {
			if pallet, name, ok := m.ModuleError(uint8(index), code[0]); ok {
				return &ledger.Error{Name: name, Message: "the runtime refused the call, pallet " + pallet}
			}
		}
		return &ledger.Error{Name: fmt.Sprintf("Module%d", index), Message: "the runtime refused the call with an error that its metadata does not name"}
	}
	if of, ok := x.Of.(scale.Value); ok {
		return &ledger.Error{Name: x.Name + of.Name, Message: "the runtime refused the call"}
	}
	return &ledger.Error{Name: x.Name, Message: "the runtime refused the call"}
}

// Register implements ledger.Writer; the coldkey signs and pays.
func (c *Client) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	for field, address := range map[string]string{"hotkey": hotkey, "coldkey": coldkey} {
		if _, err := auth.ParseSS58(address); err != nil {
			return 0, badAddress(field, err)
		}
	}
	if netuid == 0 {
		return 0, ledger.ErrRootRegistration
	}
	in, err := c.Submit(ctx, coldkey, module, "burned_register", scale.Map{"netuid": netuid, "hotkey": hotkey})
	if err != nil {
		return 0, err
	}
	m, err := c.known(ctx)
	if err != nil {
		return 0, err
	}
	v, err := c.get(ctx, m, point{in.Block, in.BlockHash}, module, "Uids", netuid, hotkey)
	if err != nil {
		return 0, err
	}
	uid, ok := v.(uint64)
	if !ok {
		return 0, fmt.Errorf("%w: registered in block %d and without uid", ErrBadState, in.Block)
	}
	return uint16(uid), nil
}

// Commit implements ledger.Writer.
func (c *Client) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (uint64, error) {
	m, err := c.known(ctx)
	if err != nil {
		return 0, err
	}
	if most, err := m.Constant(commitments, "MaxFields"); err == nil && uint64(len(fields)) > (values{"": most}).num("") {
		return 0, ledger.ErrTooManyFields.With(fmt.Sprintf("%d fields: at most %d", len(fields), most))
	}
	list := make([]any, len(fields))
	for i, f := range fields {
		least, most, name := 0, 128, "Raw"
		switch f.Type {
		case ledger.FieldRaw:
		case ledger.FieldBigRaw:
			most, name = 512, "BigRaw"
		case ledger.FieldSha256:
			least, most, name = 32, 32, "Sha256"
		default:
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d: unknown form %q", i, f.Type))
		}
		if len(f.Data) < least || len(f.Data) > most {
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d of %d bytes: a %s field has %d to %d", i, len(f.Data), f.Type, least, most))
		}
		list[i] = scale.Value{Name: name, Of: scale.Bytes(f.Data)}
	}
	in, err := c.Submit(ctx, hotkey, commitments, "set_commitment", scale.Map{"netuid": netuid, "info": scale.Map{"fields": list}})
	if err != nil {
		return 0, err
	}
	return in.Block, nil
}

// SetWeights implements ledger.Writer.
func (c *Client) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	_, err := c.Submit(ctx, hotkey, module, "set_weights", scale.Map{"netuid": netuid, "dests": w.UIDs, "weights": w.Values, "version_key": w.VersionKey})
	return err
}

// CommitWeights implements ledger.WeightCommitter.
func (c *Client) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	_, err := c.Submit(ctx, hotkey, module, "commit_weights", scale.Map{"netuid": netuid, "commit_hash": hash[:]})
	return err
}

// RevealWeights implements ledger.WeightCommitter.
func (c *Client) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	_, err := c.Submit(ctx, hotkey, module, "reveal_weights", scale.Map{"netuid": netuid, "uids": w.UIDs, "values": w.Values, "salt": salt, "version_key": w.VersionKey})
	return err
}

// CommitTimelocked commits weights that the chain reveals by itself when the
// drand round is out. It returns what was committed.
func (c *Client) CommitTimelocked(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, round uint64) ([]byte, error) {
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		return nil, badAddress("hotkey", err)
	}
	plain, err := (&timelock.Payload{Hotkey: pub, UIDs: w.UIDs, Values: w.Values, VersionKey: w.VersionKey}).Encode()
	if err != nil {
		return nil, err
	}
	locked, err := timelock.Encrypt(nil, round, plain)
	if err != nil {
		return nil, err
	}
	_, err = c.Submit(ctx, hotkey, module, "commit_timelocked_weights", scale.Map{
		"netuid": netuid, "commit": locked, "reveal_round": round, "commit_reveal_version": timelock.Version,
	})
	return locked, err
}

// AddStake implements ledger.Staker; the coldkey signs.
func (c *Client) AddStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	_, err := c.Submit(ctx, coldkey, module, "add_stake", scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_staked": rao})
	return err
}

// RemoveStake implements ledger.Staker; the coldkey signs.
func (c *Client) RemoveStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	_, err := c.Submit(ctx, coldkey, module, "remove_stake", scale.Map{"hotkey": hotkey, "netuid": netuid, "amount_unstaked": rao})
	return err
}

// ServeAxon tells where a hotkey serves. ip is the address as a number, ipType 4 or 6.
func (c *Client) ServeAxon(ctx context.Context, netuid uint16, hotkey string, version uint32, ip any, port uint16, ipType uint8) error {
	_, err := c.Submit(ctx, hotkey, module, "serve_axon", scale.Map{
		"netuid": netuid, "version": version, "ip": ip, "port": port, "ip_type": ipType, "protocol": 4, "placeholder1": 0, "placeholder2": 0,
	})
	return err
}

// Transfer sends rao to another account and keeps the sender's alive.
func (c *Client) Transfer(ctx context.Context, from, to string, rao uint64) (*Included, error) {
	return c.Submit(ctx, from, "Balances", "transfer_keep_alive", scale.Map{"dest": to, "value": rao})
}
