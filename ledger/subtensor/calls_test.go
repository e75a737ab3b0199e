package subtensor_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// TestTypedCalls compares what each call sends with the bytes that
// spec/chain.md 2.3 has for it. The pool refuses them all, by code 255.
func TestTypedCalls(t *testing.T) {
	l := newLedger(t)
	n := newNode(t, l, l, 424)
	var mu sync.Mutex
	var got string
	f := newFaultNode(t, n, func(q *asked, _ func() json.RawMessage) (any, act) {
		if q.Method != "author_submitExtrinsic" {
			return nil, send
		}
		raw, err := hex.DecodeString(strings.TrimPrefix(q.text(0), "0x"))
		if err != nil {
			t.Error(err)
		}
		x, err := n.meta.ParseExtrinsic(raw)
		if err != nil {
			t.Error(err)
			return nil, cut
		}
		mu.Lock()
		defer mu.Unlock()
		got = hex.EncodeToString(x.Call)
		return rawAnswer(`{"jsonrpc":"2.0","id":$ID,"error":{"code":1010,"message":"Invalid Transaction","data":"Custom error: 255"}}`), send
	})
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}})
	ctx := t.Context()
	a, cold := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold")
	const alice, aliceHex = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY", "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"
	w := ledger.Weights{UIDs: []uint16{1, 2, 3}, Values: []uint16{100, 65535, 7}}
	hash := ledger.Hash{0x11, 0x22}
	hashHex := "1122" + strings.Repeat("00", 30)
	for _, x := range []struct {
		name string
		want string
		do   func() error
	}{
		{"set_weights", "070003000c0100020003000c6400ffff07000000000000000000", func() error { return c.SetWeights(ctx, 3, a, w) }},
		{"set_mechanism_weights", "07770300000c0100020003000c6400ffff07001127000000000000", func() error {
			v := w
			v.VersionKey = 10001
			return c.SetMechanismWeights(ctx, 3, 0, a, v)
		}},
		{"batch_set_weights", "07500804b104080804feff0300b10414000800c2450400", func() error {
			return c.BatchSetWeights(ctx, a, []subtensor.NetWeights{
				{Netuid: 1, Weights: ledger.Weights{UIDs: []uint16{1, 300}, Values: []uint16{65535, 5}}},
				{Netuid: 300, Weights: ledger.Weights{VersionKey: 70000}},
			})
		}},
		{"commit_weights", "07600300" + hashHex, func() error { return c.CommitWeights(ctx, 3, a, hash) }},
		{"commit_mechanism_weights", "0773030001" + hashHex, func() error { return c.CommitMechanismWeights(ctx, 3, 1, a, hash) }},
		{"reveal_weights", "07610300" + "080100020008" + "0a001400" + "0805000600" + "0700000000000000", func() error {
			return c.RevealWeights(ctx, 3, a, ledger.Weights{UIDs: []uint16{1, 2}, Values: []uint16{10, 20}, VersionKey: 7}, []uint16{5, 6})
		}},
		{"reveal_mechanism_weights", "0774030001" + "080100020008" + "0a001400" + "0805000600" + "0700000000000000", func() error {
			return c.RevealMechanismWeights(ctx, 3, 1, a, ledger.Weights{UIDs: []uint16{1, 2}, Values: []uint16{10, 20}, VersionKey: 7}, []uint16{5, 6})
		}},
		{"batch_reveal_weights", "07620300" + "04080100020004" + "080a001400" + "040805000600" + "040700000000000000", func() error {
			return c.BatchRevealWeights(ctx, 3, a, []subtensor.Reveal{{Weights: ledger.Weights{UIDs: []uint16{1, 2}, Values: []uint16{10, 20}, VersionKey: 7}, Salt: []uint16{5, 6}}})
		}},
		{"commit_timelocked_weights", "0771030010deadbeef0cf8d301000000000400", func() error {
			return c.CommitSealed(ctx, 3, a, ledger.Sealed{Round: realRound, Data: []byte{0xde, 0xad, 0xbe, 0xef}})
		}},
		{"commit_timelocked_mechanism_weights", "077603000110deadbeef0cf8d301000000000400", func() error {
			return c.CommitSealedMechanism(ctx, 3, 1, a, ledger.Sealed{Round: realRound, Data: []byte{0xde, 0xad, 0xbe, 0xef}})
		}},
		{"burned_register", "07070300" + aliceHex, func() error {
			_, err := c.Register(ctx, 3, alice, cold)
			return err
		}},
		{"register_limit", "07860300" + aliceHex + "00ca9a3b00000000", func() error { return c.RegisterLimit(ctx, 3, alice, cold, 1_000_000_000) }},
		{"serve_axon", "07040300689a9800" + "010200c0000000000000000000000000" + "9b1f04040000", func() error {
			return c.ServeAxon(ctx, 3, a, 10001000, big.NewInt(3221225985), 8091, 4)
		}},
		{"serve_axon_tls", "07280300689a9800" + "010200c0000000000000000000000000" + "9b1f04040000" + "08abcd", func() error {
			return c.ServeAxonTLS(ctx, 3, a, 10001000, big.NewInt(3221225985), 8091, 4, []byte{0xab, 0xcd})
		}},
		{"add_stake", "0702" + aliceHex + "030000ca9a3b00000000", func() error { return c.AddStake(ctx, 3, alice, cold, 1_000_000_000) }},
		{"add_stake_limit", "0758" + aliceHex + "030000ca9a3b00000000" + "010000000000000001", func() error { return c.AddStakeLimit(ctx, 3, alice, cold, 1_000_000_000, 1, true) }},
		{"remove_stake_limit", "0759" + aliceHex + "030000ca9a3b00000000" + "010000000000000000", func() error { return c.RemoveStakeLimit(ctx, 3, alice, cold, 1_000_000_000, 1, false) }},
		{"transfer_keep_alive", "050300" + aliceHex + "02286bee", func() error {
			_, err := c.Transfer(ctx, cold, alice, 1_000_000_000)
			return err
		}},
		{"set_commitment raw", "1200030004" + "06" + "68656c6c6f", func() error {
			_, err := c.Commit(ctx, 3, a, ledger.Raw([]byte("hello")))
			return err
		}},
		{"set_commitment sha256", "1200030004" + "83" + strings.Repeat("11", 32), func() error {
			_, err := c.Commit(ctx, 3, a, ledger.Field{Type: ledger.FieldSha256, Data: []byte(strings.Repeat("\x11", 32))})
			return err
		}},
		{"set_commitment big", "1200030004" + "88" + "2103" + strings.Repeat("ab", 200), func() error {
			_, err := c.Commit(ctx, 3, a, ledger.Raw([]byte(strings.Repeat("\xab", 200))))
			return err
		}},
	} {
		err := x.do()
		var refused *ledger.Error
		if !errors.As(err, &refused) || refused.Name != "BadRequest" {
			t.Errorf("%s: %v", x.name, err)
		}
		mu.Lock()
		if got != x.want {
			t.Errorf("%s sends\n%s, want\n%s", x.name, got, x.want)
		}
		got = ""
		mu.Unlock()
	}
	if _, err := subtensor.StorageIndex(4096, 0); err == nil {
		t.Error("a netuid without room for mechanisms")
	}
	if i, err := subtensor.StorageIndex(3, 1); err != nil || i != 4099 {
		t.Errorf("storage index %d %v", i, err)
	}
}

// TestPoolNames names every code that a pool of a runtime as of today has.
func TestPoolNames(t *testing.T) {
	l := newLedger(t)
	n := newNode(t, l, l, 424)
	var answer atomic.Value
	f := newFaultNode(t, n, func(q *asked, _ func() json.RawMessage) (any, act) {
		if q.Method == "author_submitExtrinsic" {
			return answer.Load(), send
		}
		return nil, send
	})
	c := client(t, subtensor.Config{URLs: []string{f.url(true)}})
	for data, want := range map[string]string{
		"1010 Custom error: 0": "ColdkeyInSwapSchedule", "1010 Custom error: 1": "NotEnoughStakeToSetWeights", "1010 Custom error: 6": "RateLimitExceeded",
		"1010 Custom error: 10": "HotKeyNotRegisteredInSubNet", "1010 Custom error: 15": "InvalidRevealRound", "1010 Custom error: 16": "NoWeightsCommitFound",
		"1010 Custom error: 17": "CommitBlockNotInRevealRange", "1010 Custom error: 27": "DelegateTakeTooHigh", "1010 Custom error: 99": "Custom99", "1010 Custom error: 255": "BadRequest",
		"1010 Inability to pay some fees (e.g. account balance too low)": "InabilityToPay", "1010 Transaction has a bad signature": "InvalidTransaction",
		"1010 Transaction is outdated": "InvalidTransaction", "1011 Unknown": "UnknownValidity", "1012 Banned": "TemporarilyBanned",
		"1014 Priority is too low: (18446744073709551615 vs 1)": "PriorityTooLow", "1015 Cycle": "CycleDetected", "1016 Dropped": "ImmediatelyDropped",
	} {
		code, text, _ := strings.Cut(data, " ")
		answer.Store(rawAnswer(fmt.Sprintf(`{"jsonrpc":"2.0","id":$ID,"error":{"code":%s,"message":"Invalid Transaction","data":%q}}`, code, text)))
		err := c.SetWeights(t.Context(), netuid, ledgertest.Key(t, "a"), ledger.Weights{})
		var refused *ledger.Error
		var pool *subtensor.RPCError
		switch {
		case errors.As(err, &refused) && refused.Name == want:
		case errors.As(err, &pool) && pool.Name() == want:
		default:
			t.Errorf("%s: %v, want %s", data, err, want)
		}
	}
	// What was imported before is not a refusal: it is looked for.
	answer.Store(rawAnswer(`{"jsonrpc":"2.0","id":$ID,"error":{"code":1013,"message":"Transaction is already imported"}}`))
	c = client(t, subtensor.Config{URLs: []string{f.url(true)}, Patience: time.Minute, Stall: time.Hour, Now: fastClock()})
	if err := c.SetWeights(t.Context(), netuid, ledgertest.Key(t, "a"), ledger.Weights{}); !errors.Is(err, subtensor.ErrStalled) {
		t.Errorf("already imported: %v", err)
	}
}

// TestCustomCodesOfOldRuntimes: their numbers mean something else.
func TestCustomCodesOfOldRuntimes(t *testing.T) {
	l := newLedger(t)
	f := newFaultNode(t, newNode(t, l, l, 393), nth("author_submitExtrinsic", 0, rawAnswer(`{"jsonrpc":"2.0","id":$ID,"error":{"code":1010,"message":"Invalid Transaction","data":"Custom error: 5"}}`), send))
	err := client(t, subtensor.Config{URLs: []string{f.url(true)}}).SetWeights(t.Context(), netuid, ledgertest.Key(t, "a"), ledger.Weights{})
	var refused *ledger.Error
	if !errors.As(err, &refused) || refused.Name != "Custom5" {
		t.Errorf("%v", err)
	}
}

// fastClock is a clock that goes a second with each look.
func fastClock() func() time.Time {
	var now atomic.Int64
	return func() time.Time { return time.Unix(now.Add(1), 0) }
}
