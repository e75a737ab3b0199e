package subtensor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
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
			return nil, c.poolError(call, refused)
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
	0: "ColdkeyInSwapSchedule", 1: "NotEnoughStakeToSetWeights", 2: "NotEnoughBalanceToStake", 3: "SubnetNotExists", 4: "HotKeyAccountNotExists", 5: "NotEnoughStakeToWithdraw",
	6: "RateLimitExceeded", 7: "InsufficientLiquidity", 8: "SlippageTooHigh", 9: "TransferDisallowed", 10: "HotKeyNotRegisteredInSubNet", 11: "InvalidIpAddress",
	12: "ServingRateLimitExceeded", 13: "InvalidPort", 14: "ZeroMaxStakeAmount", 15: "InvalidRevealRound", 16: "NoWeightsCommitFound", 17: "CommitBlockNotInRevealRange", 18: "InputLengthsUnequal",
	19: "UidNotFound", 20: "EvmKeyAssociateRateLimitExceeded", 21: "ColdkeySwapDisputed", 22: "InvalidRealAccount", 23: "ShieldedParse", 24: "ShieldedKeyHash", 25: "NonAssociatedColdKey",
	26: "DelegateTakeTooLow", 27: "DelegateTakeTooHigh", 255: "BadRequest",
}

// olderName is the pool's code of a runtime before customNames, where only
// registrations have one that is known; "": it is not.
func olderName(call string, code int) string {
	if code == 5 && (call == "burned_register" || call == "register") {
		return "TooManyRegistrationsThisInterval"
	}
	return ""
}

// poolError names what the pool refused of a call.
func (c *Client) poolError(call string, e *RPCError) error {
	text := strings.ToLower(string(e.Data) + " " + e.Message)
	if _, after, ok := strings.Cut(text, "custom error: "); ok && e.Code == 1010 {
		digits := strings.TrimRight(after, ` "`)
		if i := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			digits = digits[:i]
		}
		n, err := strconv.Atoi(digits)
		var rt *runtime
		c.mu.Lock()
		if n := len(c.runtimes); n > 0 {
			rt = c.runtimes[n-1]
		}
		c.mu.Unlock()
		name, known := "Custom"+digits, ""
		if err == nil && rt != nil {
			if known = olderName(call, n); rt.meta.HasCall(module, "register_limit") {
				known = customNames[n]
			}
		}
		if known != "" {
			name = known
		}
		return &ledger.Error{Name: name, Message: fmt.Sprintf("the pool refused the extrinsic with custom error %s", digits)}
	}
	if e.Code == 1010 && e.says("inability to pay", "payment") {
		return &ledger.Error{Name: "InabilityToPay", Message: e.Message}
	}
	return e
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
