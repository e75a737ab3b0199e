package subtensor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// attempt makes and sends one extrinsic and waits for it.
func (c *Client) attempt(ctx context.Context, signer auth.Signer, address, pallet, call string, args any) (*Included, error) {
	rt, err := c.runtime(ctx, "")
	if err != nil {
		return nil, err
	}
	now := current(rt.meta, Call{pallet, call, args})
	body, err := rt.meta.EncodeCall(now.Pallet, now.Name, now.Args)
	if err != nil {
		return nil, err
	}
	start, err := c.newest(ctx, false)
	if err != nil {
		return nil, err
	}
	c.rise(start.number)
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
	// A signer elsewhere may want to see what it signs: it gets the payload whole, not its hash.
	var sig []byte
	if s, ok := signer.(interface {
		SignExtrinsic(payload []byte) ([]byte, error)
	}); ok {
		sig, err = s.SignExtrinsic(slices.Concat(body, extra, additional))
	} else {
		sig, err = signer.Sign(scale.Payload(body, extra, additional))
	}
	if err != nil {
		return nil, fmt.Errorf("sign extrinsic: %w", err)
	}
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return nil, badAddress("signer", err)
	}
	raw := (&scale.Extrinsic{Signer: pub, Signature: sig, Extra: extra, Call: body}).Encode()
	dies := birth.number + eraPeriod(c.cfg.Period)
	if c.cfg.Immortal {
		dies = math.MaxUint64
	}
	hash := scale.Hash(raw)
	if err := ledger.Announce(ctx, ledger.Sending{Hash: hexed(hash[:]), Nonce: nonce, Dies: dies}); err != nil {
		return nil, err
	}
	if err := c.send(ctx, raw); err != nil {
		return nil, err
	}
	return c.watch(ctx, raw, start.number, dies)
}

// Sequence implements ledger.Sequencer.
func (c *Client) Sequence(ctx context.Context, address string) (ledger.Sequence, error) {
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return ledger.Sequence{}, badAddress("signer", err)
	}
	final, err := c.newest(ctx, true)
	if err != nil {
		return ledger.Sequence{}, err
	}
	rt, err := c.runtime(ctx, final.hash)
	if err != nil {
		return ledger.Sequence{}, err
	}
	v, err := c.get(ctx, rt.meta, final, "System", "Account", auth.EncodeSS58(pub))
	if err != nil {
		return ledger.Sequence{}, err
	}
	account, _ := v.(scale.Map)
	s := ledger.Sequence{Final: final.number, Next: values(account).num("nonce")}
	// Asked last: a call that became final meanwhile only makes it seem pending.
	var pool uint64
	if err := c.call(ctx, false, &pool, "system_accountNextIndex", address); err != nil {
		return ledger.Sequence{}, err
	}
	s.Pending = pool != s.Next
	return s, nil
}

// Genesis is the hash of the chain's block 0.
func (c *Client) Genesis(ctx context.Context) (string, error) { return c.hashAt(ctx, 0) }

// send gives an extrinsic to one node. No error says that it may be on its way:
// whatever went wrong after it was sent, the blocks will show.
func (c *Client) send(ctx context.Context, raw []byte) error {
	var told string
	err := c.call(ctx, true, &told, "author_submitExtrinsic", hexed(raw))
	var refused *RPCError
	if errors.As(err, &refused) && refused.Code != 1013 || errors.Is(err, ErrNoNode) {
		return err
	}
	return nil
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
	if c.cfg.Immortal {
		c.mu.Lock()
		defer c.mu.Unlock()
		return []byte{0}, point{hash: hexed(c.genesis[:])}, nil
	}
	final, err := c.newest(ctx, true)
	if err != nil {
		return nil, final, err
	}
	current := final.number
	var p point
	era := ledger.Era(c.cfg.Period, current)
	period := eraPeriod(c.cfg.Period)
	quantum := max(period>>12, 1)
	phase := current % period / quantum * quantum
	p.number = (max(current, phase)-phase)/period*period + phase
	if p.hash, err = c.hashAt(ctx, p.number); err != nil {
		return nil, p, err
	}
	if p.hash == "" {
		return nil, p, fmt.Errorf("%w: no hash of block %d", ErrBadState, p.number)
	}
	return era[:], p, nil
}

// resend is after how many blocks without a sight of it an extrinsic is sent
// again: the same bytes, which no chain takes twice.
const resend = 8

// sighting follows one extrinsic through the newest blocks, which may be retracted.
type sighting struct {
	raw  string
	line []point // blocks looked through, without gaps
	next uint64  // the block to look at when line is empty
	in   *point  // the block it is in; nil = none
	at   int     // its index there
	sent uint64  // newest block when it was sent last
}

// watch looks for an extrinsic in the blocks from one on, until it can be in
// none any more. A block that is retracted counts for nothing: the extrinsic is
// sent again and looked for in what stands in its place.
func (c *Client) watch(ctx context.Context, raw []byte, from, dies uint64) (*Included, error) {
	hash := scale.Hash(raw)
	s := &sighting{raw: hexed(raw), next: from, sent: from}
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	newest, rose := uint64(0), c.cfg.Now()
	for {
		best, err := c.newest(ctx, false)
		if err == nil {
			c.rise(best.number)
			if best.number > newest {
				newest, rose = best.number, c.cfg.Now()
			}
			err = c.follow(ctx, s, best, raw)
		}
		final := best
		if err == nil && c.cfg.Finalized {
			final, err = c.newest(ctx, true)
		}
		if err == nil && s.in != nil && s.in.number <= final.number {
			in, oerr := c.outcome(ctx, *s.in, hash, s.at)
			var refused *ledger.Error
			if oerr != nil && !errors.As(oerr, &refused) {
				err = oerr
			} else if stands, serr := c.stands(ctx, *s.in); serr != nil {
				err = serr
			} else if stands {
				if c.cfg.Included != nil {
					c.cfg.Included(*in)
				}
				return in, oerr
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for extrinsic %x: %w", hash, ctx.Err())
		case errors.Is(err, errNoOutcome):
			return nil, err
		case err == nil && s.in == nil && final.number >= dies:
			return nil, fmt.Errorf("extrinsic %x: %w in block %d", hash, ErrUnknownFate, dies)
		case c.cfg.Now().Sub(rose) > c.cfg.Patience:
			return nil, fmt.Errorf("wait for extrinsic %x, may be taken until block %d: %w", hash, dies, errors.Join(ErrStalled, err))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for extrinsic %x: %w", hash, ctx.Err())
		case <-tick.C:
		}
	}
}

// stands reports whether a block is still of the chain.
func (c *Client) stands(ctx context.Context, p point) (bool, error) {
	hash, err := c.hashAt(ctx, p.number)
	return hash == p.hash, err
}

// follow drops the blocks that are none any more and looks through the new ones.
func (c *Client) follow(ctx context.Context, s *sighting, best point, raw []byte) error {
	for len(s.line) > 0 {
		last := s.line[len(s.line)-1]
		ok := last.number <= best.number
		if ok {
			var err error
			if ok, err = c.stands(ctx, last); err != nil {
				return err
			}
		}
		if ok {
			break
		}
		s.line, s.next = s.line[:len(s.line)-1], last.number
		if s.in != nil && s.in.hash == last.hash {
			s.in = nil
			if c.cfg.Retracted != nil {
				hash := scale.Hash(raw)
				c.cfg.Retracted(hexed(hash[:]), last.number)
			}
			if err := c.again(ctx, s, best, raw); err != nil {
				return err
			}
		}
	}
	for s.in == nil && s.next <= best.number {
		p := point{number: s.next}
		var err error
		if p.hash, err = c.hashAt(ctx, p.number); err != nil || p.hash == "" {
			return err
		}
		var b struct {
			Block struct {
				Extrinsics []string `json:"extrinsics"`
			} `json:"block"`
		}
		if err := c.call(ctx, false, &b, "chain_getBlock", p.hash); err != nil {
			return err
		}
		if i := slices.Index(b.Block.Extrinsics, s.raw); i >= 0 {
			s.in, s.at = &p, i
			s.line, s.next = append(s.line, p), p.number+1
			return nil
		}
		// The newest block is looked at again: a ledger that is stepped by hand fills it further.
		if p.number == best.number {
			break
		}
		s.line, s.next = append(s.line, p), p.number+1
	}
	if s.in == nil && best.number >= s.sent+resend {
		return c.again(ctx, s, best, raw)
	}
	return nil
}

// again sends the same bytes. What a pool says of them is not an answer: the nonce
// may be used up because they are in a block that was not looked at yet.
func (c *Client) again(ctx context.Context, s *sighting, best point, raw []byte) error {
	s.sent = best.number
	err := c.send(ctx, raw)
	var refused *RPCError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// errNoOutcome says that a block has an extrinsic and not what became of it.
var errNoOutcome = errors.New("no outcome")

// executor is the runtime that executed a block: that of its parent's state. In
// the block of an upgrade the state names the next runtime already, while the
// events are still written by the old one.
func (c *Client) executor(ctx context.Context, p point) (*runtime, error) {
	var h struct {
		Parent string `json:"parentHash"`
	}
	if err := c.call(ctx, false, &h, "chain_getHeader", p.hash); err != nil {
		return nil, err
	}
	if _, err := hash32(h.Parent); err != nil {
		return nil, fmt.Errorf("parent of block %d: %w", p.number, err)
	}
	return c.runtime(ctx, h.Parent)
}

// outcome reads what became of the extrinsic at an index of a block.
func (c *Client) outcome(ctx context.Context, p point, hash [32]byte, index int) (*Included, error) {
	rt, err := c.executor(ctx, p)
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
		case "Proxy.ProxyExecuted", "Multisig.MultisigExecuted", "Utility.DispatchedAs", "Sudo.Sudid", "Sudo.SudoAsDone":
			// The extrinsic succeeds even where the call within fails.
			result := data["result"]
			if pallet.Name == "Sudo" {
				result = data["sudo_result"]
			}
			if r, _ := result.(scale.Value); r.Name == "Err" {
				failure = dispatchError(rt.meta, r.Of)
			}
		case "Utility.BatchInterrupted", "Utility.ItemFailed":
			failure = dispatchError(rt.meta, data["error"])
		case "SubtensorModule.BatchWeightItemFailed", "SubtensorModule.BatchCompletedWithErrors":
			if failure == nil {
				failure = &ledger.Error{Name: e.Name, Message: "a part of the batch was refused"}
			}
		}
	}
	if !done {
		return nil, fmt.Errorf("%w: %w of extrinsic %d of block %d", ErrBadState, errNoOutcome, index, p.number)
	}
	return in, failure
}
