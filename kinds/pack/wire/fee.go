package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

const (
	// feeCall is the call that pays for an entry.
	feeCall = "SubtensorModule.recycle_alpha"
	// feeAge is how old a receipt may be, feeSkew how far a chain's clock may be ahead.
	feeAge  = 24 * time.Hour
	feeSkew = time.Minute
)

// receipt names the extrinsic that paid: the block's number and the extrinsic's
// index in it. Where entries cost nothing whatever stands there is ignored.
type receipt struct {
	Block json.RawMessage `json:"recycle_block"`
	Index json.RawMessage `json:"recycle_extrinsic_index"`
}

// number reads a plain number that a client sent as such or as a text.
func number(raw json.RawMessage, bits int) (uint64, bool) {
	s := string(bytes.Trim(raw, `"`))
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

func (r receipt) read() (block uint64, index int, ok bool) {
	block, ok1 := number(r.Block, 32)
	i, ok2 := number(r.Index, 16)
	return block, int(i), ok1 && ok2
}

func (r receipt) String() string {
	block, index, _ := r.read()
	return fmt.Sprintf("recycle:%d-%d", block, index)
}

// spentDoc is what is kept of a receipt that has paid for an entry.
type spentDoc struct {
	At time.Time `json:"at"`
}

func feeFile(ref string) string { return "fee-" + agon.Sum([]byte(ref)).Hex()[:40] }

// unused is the name by which a receipt is written down, if it can still pay. A
// receipt whose fee was given back, as by a fault of ours, pays once more, under
// another name. The platform's books decide in the end: a name pays once.
func (b *Backend) unused(ctx context.Context, hotkey string, r receipt) (ref string, err error) {
	if b.cfg.Fee <= 0 {
		return "", nil
	}
	no := &agon.Error{Code: "receipt", Status: http.StatusBadRequest, Field: "recycle_block", Message: "recycle receipt missing, malformed, or already consumed"}
	if _, _, ok := r.read(); !ok {
		return "", no
	}
	back, err := b.cfg.Platform.FeesBack(ctx, b.cfg.Arena, hotkey)
	if err != nil {
		return "", err
	}
	n := 0
	for _, f := range back {
		if f.Ref == r.String() || strings.HasPrefix(f.Ref, r.String()+"#") {
			n++
		}
	}
	if ref = r.String(); n > 0 {
		ref += "#" + strconv.Itoa(n)
	}
	var old spentDoc
	if had, err := b.dir.Get(feeFile(ref), &old); err != nil {
		return "", err
	} else if had {
		return "", no
	}
	return ref, nil
}

// feePaid reads what a receipt's extrinsic did on the arena's ledger.
func (b *Backend) feePaid(ctx context.Context, hotkey string, r receipt, ref string) error {
	if ref == "" {
		return nil
	}
	block, index, _ := r.read()
	no := func(format string, args ...any) error {
		return &agon.Error{Code: "fee", Status: http.StatusBadRequest, Field: "recycle_block", Limit: fmt.Sprintf("%d rao of alpha", b.cfg.Fee), Message: "submission fee: " + fmt.Sprintf(format, args...)}
	}
	a, err := b.cfg.Platform.Arena(ctx, b.cfg.Arena)
	if err != nil {
		return err
	}
	x, err := b.cfg.Chain.Burned(ctx, strconv.FormatUint(block, 10), index, hotkey)
	if err != nil {
		return fmt.Errorf("read a receipt: %w", err)
	}
	now := b.cfg.Now()
	switch {
	case x == nil:
		return no("there is no block %d", block)
	case x.Call == "":
		return no("block %d has no signed extrinsic %d", block, index)
	case x.Call != feeCall:
		return no("extrinsic %d-%d is %s, want %s", block, index, plain(x.Call, 80), feeCall)
	case x.Failed:
		return no("extrinsic %d-%d failed", block, index)
	case x.Owner == "":
		return no("nobody owned hotkey %s at block %d", hotkey, block)
	case x.Signer != x.Owner || x.Coldkey != x.Owner:
		return no("extrinsic %d-%d is not signed by the coldkey of %s", block, index, hotkey)
	case x.Hotkey != hotkey:
		return no("extrinsic %d-%d recycled alpha of another hotkey", block, index)
	case x.Netuid != a.Netuid:
		return no("extrinsic %d-%d recycled alpha of subnet %d, want %d", block, index, x.Netuid, a.Netuid)
	case x.Amount < b.cfg.Fee:
		return no("extrinsic %d-%d recycled %d rao of alpha, an entry costs %d", block, index, x.Amount, b.cfg.Fee)
	case !strings.Contains(ref, "#") && x.At.Before(now.Add(-feeAge)):
		return no("extrinsic %d-%d is older than %s", block, index, feeAge)
	case x.At.After(now.Add(feeSkew)):
		return no("extrinsic %d-%d is of the future", block, index)
	}
	return nil
}

// pay writes a receipt down in the transaction that admits an entry, and says so in
// used: a pack that is in the arena already costs nothing again.
func (b *Backend) pay(ref string, used *bool) func(*store.Tx, store.Entry) error {
	if ref == "" {
		return nil
	}
	return func(tx *store.Tx, e store.Entry) error {
		*used = true
		return platform.BurnFee(tx, e.ID, agon.Fee{Ref: ref, Amount: b.cfg.Fee, Unit: "alpha_rao"})
	}
}

// spent notes that a receipt has paid, so that the next one is told before its cooldown.
func (b *Backend) spent(ref string) error {
	return b.dir.Put(feeFile(ref), spentDoc{At: b.cfg.Now().UTC()})
}
