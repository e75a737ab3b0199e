package rpc

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/scale"
)

// TestEveryMethod asks every runtime API of the metadata, about a subnet that is
// there and one that is not: each answers, in its type.
func TestEveryMethod(t *testing.T) {
	_, s := newServer(t)
	account := ledgertest.Key(t, "owner")
	asked := 0
	for _, a := range s.meta.APIs {
		for _, x := range a.Methods {
			if a.Name == "TransactionPaymentApi" {
				continue // its argument is an extrinsic
			}
			for _, netuid := range []uint64{1, 77} {
				args := make([]any, len(x.Inputs))
				var in []byte
				for i, f := range x.Inputs {
					switch {
					case f.Type.Name() == "AccountId32":
						args[i] = account
					case f.Name == "netuid":
						args[i] = netuid
					default:
						args[i] = scale.Zero(f.Type)
					}
					var err error
					if in, err = scale.Encode(in, f.Type, args[i]); err != nil {
						t.Fatalf("%s.%s: %v", a.Name, x.Name, err)
					}
				}
				name, err := json.Marshal(a.Name + "_" + x.Name)
				if err != nil {
					t.Fatal(err)
				}
				got := ask(t, s, `{"id":1,"method":"state_call","params":[`+string(name)+`,"`+hexed(in)+`"]}`)
				if !strings.Contains(got, `"result":"0x`) {
					t.Errorf("%s.%s of %d: %s", a.Name, x.Name, netuid, got)
				}
				asked++
			}
		}
	}
	if asked < 80 {
		t.Errorf("%d questions asked", asked)
	}
}

// TestLocalnetCalls makes the calls besides registrations and weights, and those
// that are refused by the chain's names.
func TestLocalnetCalls(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	hot, cold, other := ledgertest.Key(t, "hot"), ledgertest.Key(t, "cold"), ledgertest.Key(t, "other")
	if _, err := l.Register(ctx, 1, hot, cold); err != nil {
		t.Fatal(err)
	}
	dest := scale.Value{Name: "Id", Of: other}
	axon := func(ip any, kind, port int) scale.Map {
		return scale.Map{"netuid": 1, "version": 7, "ip": ip, "port": port, "ip_type": kind, "protocol": 4, "placeholder1": 0, "placeholder2": 0}
	}
	remark := func(call string, args any) scale.Value {
		return scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: call, Of: args}}
	}
	for _, c := range []struct {
		who, pallet, call string
		args              any
		want              string // event, or name of the refusal
	}{
		{hot, "SubtensorModule", "serve_axon", axon(3221225985, 4, 8091), "AxonServed"},
		{hot, "SubtensorModule", "serve_axon", axon(new(big.Int).Lsh(big.NewInt(0x20010db8), 96), 6, 1), "AxonServed"},
		{hot, "SubtensorModule", "serve_axon", axon(3221225985, 4, 8091), "AxonServed"},
		{hot, "SubtensorModule", "serve_axon", axon(0, 4, 8091), "InvalidIpAddress"},
		{hot, "SubtensorModule", "serve_axon", axon(2130706433, 4, 8091), "InvalidIpAddress"},
		{hot, "SubtensorModule", "serve_axon", axon(1<<40, 4, 8091), "InvalidIpAddress"},
		{hot, "SubtensorModule", "serve_axon", axon(3221225985, 5, 8091), "InvalidIpType"},
		{hot, "SubtensorModule", "serve_axon", axon(3221225985, 4, 0), "InvalidPort"},
		{other, "SubtensorModule", "serve_axon", axon(3221225985, 4, 8091), "HotKeyNotRegisteredInSubNet"},
		{cold, "Balances", "transfer_keep_alive", scale.Map{"dest": dest, "value": uint64(5e9)}, "Transfer"},
		{cold, "Balances", "transfer_keep_alive", scale.Map{"dest": dest, "value": uint64(1e15)}, "FundsUnavailable"},
		{cold, "Balances", "transfer_keep_alive", scale.Map{"dest": dest, "value": uint64(995e9) - 499}, "NotExpendable"},
		{cold, "Balances", "transfer_all", scale.Map{"dest": dest, "keep_alive": true}, "Transfer"},
		{cold, "SubtensorModule", "add_stake", scale.Map{"hotkey": hot, "netuid": 1, "amount_staked": 501}, "NotEnoughBalanceToStake"},
		{other, "Balances", "transfer_allow_death", scale.Map{"dest": scale.Value{Name: "Id", Of: cold}, "value": uint64(100e9)}, "Transfer"},
		{cold, "SubtensorModule", "add_stake_limit", scale.Map{"hotkey": hot, "netuid": 1, "amount_staked": uint64(10e9), "limit_price": uint64(1e9), "allow_partial": false}, "StakeAdded"},
		{cold, "SubtensorModule", "add_stake_limit", scale.Map{"hotkey": hot, "netuid": 1, "amount_staked": uint64(10e9), "limit_price": uint64(1e9) - 1, "allow_partial": false}, "SlippageTooHigh"},
		{cold, "SubtensorModule", "remove_stake_limit", scale.Map{"hotkey": hot, "netuid": 1, "amount_unstaked": uint64(1e9), "limit_price": uint64(1e9) + 1, "allow_partial": false}, "SlippageTooHigh"},
		{cold, "SubtensorModule", "remove_stake_full_limit", scale.Map{"hotkey": hot, "netuid": 1, "limit_price": nil}, "StakeRemoved"},
		{cold, "SubtensorModule", "register_limit", scale.Map{"netuid": 1, "hotkey": ledgertest.Key(t, "second"), "limit_price": 0}, "NeuronRegistered"},
		{hot, "SubtensorModule", "set_mechanism_weights", scale.Map{"netuid": 1, "mecid": 1, "dests": []any{0}, "weights": []any{1}, "version_key": 0}, "MechanismDoesNotExist"},
		{hot, "SubtensorModule", "set_mechanism_weights", scale.Map{"netuid": 1, "mecid": 0, "dests": []any{0}, "weights": []any{1}, "version_key": 0}, "NeuronNoValidatorPermit"},
		{hot, "Commitments", "set_commitment", scale.Map{"netuid": 1, "info": scale.Map{"fields": []any{scale.Value{Name: "TimelockEncrypted", Of: scale.Map{"encrypted": scale.Bytes("x"), "reveal_round": 9}}}}}, "TimelockCommitment"},
		{hot, "Utility", "batch", scale.Map{"calls": []any{remark("serve_axon", axon(3221225985, 4, 9)), remark("serve_axon", axon(0, 4, 9)), remark("serve_axon", axon(3221225985, 4, 10))}}, "AxonServed ItemCompleted BatchInterrupted"},
		{hot, "Utility", "force_batch", scale.Map{"calls": []any{remark("serve_axon", axon(0, 4, 9)), remark("serve_axon", axon(3221225985, 4, 8091))}}, "ItemFailed AxonServed ItemCompleted BatchCompletedWithErrors"},
	} {
		events, err := applied(t, s, c.who, c.pallet, c.call, c.args)
		var got []string
		for _, e := range events {
			outer, _ := e.(scale.Value)
			inner, _ := outer.Of.(scale.Value)
			got = append(got, inner.Name)
		}
		if err != nil {
			failure, ferr := s.dispatchError(err)
			if ferr != nil {
				t.Errorf("%s.%s: %v", c.pallet, c.call, ferr)
				continue
			}
			if v, ok := failure.(scale.Value); ok && v.Name != "Module" && v.Name != "Token" {
				t.Errorf("%s.%s is refused as %v", c.pallet, c.call, failure)
			}
			if !strings.Contains(err.Error(), "("+c.want+")") {
				t.Errorf("%s.%s %v: %v, want %s", c.pallet, c.call, c.args, err, c.want)
			}
			continue
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s.%s %v: %v, want %s", c.pallet, c.call, c.args, got, c.want)
		}
	}
	m, err := l.Metagraph(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := m.Neuron(hot)
	if n.Axon == nil || n.Axon.IP.String() != "192.0.2.1" || n.Axon.Port != 8091 || n.Axon.Version != 7 {
		t.Errorf("axon %+v", n.Axon)
	}
	for who, want := range map[string]uint64{cold: 500 + 100e9, other: 1000e9 + 1000e9 - 500 - 100e9} {
		if got, err := l.Balance(ctx, who); err != nil || got != want {
			t.Errorf("balance %d, want %d: %v", got, want, err)
		}
	}
}

// A nonce counts over a restart of the served ledger.
func TestNonceOverARestart(t *testing.T) {
	l, s := newServer(t)
	who := ledgertest.Key(t, "owner")
	for want := range uint64(3) {
		if ok, err := l.UseNonce(t.Context(), who, want); !ok || err != nil {
			t.Fatalf("nonce %d: %v %v", want, ok, err)
		}
		for _, other := range []uint64{want, want + 2} {
			if ok, err := l.UseNonce(t.Context(), who, other); ok || err != nil {
				t.Errorf("nonce %d after %d: %v %v", other, want, ok, err)
			}
		}
	}
	again, err := New(Config{Ledger: l, Genesis: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Server{s, again} {
		if got := ask(t, s, `{"id":1,"method":"system_accountNextIndex","params":["`+who+`"]}`); !strings.Contains(got, `"result":3`) {
			t.Errorf("next index: %s", got)
		}
	}
}
