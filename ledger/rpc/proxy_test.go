package rpc

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
)

func idOf(address string) scale.Value { return scale.Value{Name: "Id", Of: address} }

func send(to string, rao uint64) scale.Value {
	return scale.Value{Name: "Balances", Of: scale.Value{Name: "transfer_keep_alive", Of: scale.Map{"dest": idOf(to), "value": rao}}}
}

// results are the names of an extrinsic's events, with the refusal that a proxy's call met.
func results(t *testing.T, s *Server, who, pallet, call string, args any) string {
	t.Helper()
	events, err := applied(t, s, who, pallet, call, args)
	name := func(failure any) string {
		v, _ := failure.(scale.Value)
		m, ok := v.Of.(scale.Map)
		if !ok {
			return fmt.Sprint(v.Name, v.Of)
		}
		b, _ := m["error"].(scale.Bytes)
		index, _ := m["index"].(uint8)
		_, of, _ := s.meta.ModuleError(index, b[0])
		return of
	}
	if err != nil {
		failure, ferr := s.dispatchError(err)
		if ferr != nil {
			t.Fatalf("%s.%s: %v", pallet, call, ferr)
		}
		return name(failure)
	}
	var out []string
	for _, e := range events {
		outer, _ := e.(scale.Value)
		inner, _ := outer.Of.(scale.Value)
		text := inner.Name
		if m, ok := inner.Of.(scale.Map); ok && text == "ProxyExecuted" {
			if r, _ := m["result"].(scale.Value); r.Name == "Err" {
				text += ":" + name(r.Of)
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// A proxy makes the calls of its kind for another account, after its delay, and no others.
func TestProxies(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	real, staff, rich, slow, other := ledgertest.Key(t, "real"), ledgertest.Key(t, "staff"), ledgertest.Key(t, "rich"), ledgertest.Key(t, "slow"), ledgertest.Key(t, "other")
	hot := ledgertest.Key(t, "hot")
	if _, err := l.Register(ctx, 1, hot, real); err != nil {
		t.Fatal(err)
	}
	add := func(delegate, kind string, delay int) scale.Map {
		return scale.Map{"delegate": idOf(delegate), "proxy_type": scale.Value{Name: kind}, "delay": delay}
	}
	for_ := func(account string, kind any, call scale.Value) scale.Map {
		return scale.Map{"real": idOf(account), "force_proxy_type": kind, "call": call}
	}
	some := func(kind string) scale.Value { return scale.Value{Name: "Some", Of: scale.Value{Name: kind}} }
	stake := scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: "add_stake", Of: scale.Map{"hotkey": hot, "netuid": 1, "amount_staked": uint64(1e9)}}}
	batch := func(name string, calls ...any) scale.Value {
		return scale.Value{Name: "Utility", Of: scale.Value{Name: name, Of: scale.Map{"calls": calls}}}
	}
	proxy := func(name string, args any) scale.Value {
		return scale.Value{Name: "Proxy", Of: scale.Value{Name: name, Of: args}}
	}
	raw, err := s.meta.EncodeCall("Balances", "transfer_keep_alive", scale.Map{"dest": idOf(other), "value": uint64(3e9)})
	if err != nil {
		t.Fatal(err)
	}
	hash := scale.Hash(raw)
	announced := scale.Map{"real": idOf(real), "call_hash": scale.Bytes(hash[:])}
	late := scale.Map{"delegate": idOf(slow), "real": idOf(real), "force_proxy_type": nil, "call": send(other, 3e9)}
	step := func() {
		if _, err := l.Step(ctx, 3); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		who, pallet, call string
		args              any
		want              string
		before            func()
	}{
		{real, "Proxy", "add_proxy", add(real, "Any", 0), "NoSelfProxy", nil},
		{real, "Proxy", "add_proxy", add(staff, "Staking", 0), "ProxyAdded", nil},
		{real, "Proxy", "add_proxy", add(staff, "Staking", 0), "Duplicate", nil},
		{real, "Proxy", "add_proxy", add(rich, "NonTransfer", 0), "ProxyAdded", nil},
		{real, "Proxy", "add_proxy", add(slow, "Transfer", 3), "ProxyAdded", nil},
		{staff, "Proxy", "proxy", for_(real, nil, stake), "StakeAdded ProxyExecuted", nil},
		{staff, "Proxy", "proxy", for_(real, some("Staking"), stake), "StakeAdded ProxyExecuted", nil},
		{staff, "Proxy", "proxy", for_(real, some("Any"), stake), "NotProxy", nil},
		{other, "Proxy", "proxy", for_(real, nil, stake), "NotProxy", nil},
		{staff, "Proxy", "proxy", for_(other, nil, stake), "NotProxy", nil},
		{staff, "Proxy", "proxy", for_(real, nil, send(staff, 1e9)), "ProxyExecuted:CallFiltered", nil},
		{staff, "Proxy", "proxy", for_(real, nil, batch("batch", stake)), "ProxyExecuted:CallFiltered", nil},
		{rich, "Proxy", "proxy", for_(real, nil, send(rich, 1e9)), "ProxyExecuted:CallFiltered", nil},
		{rich, "Proxy", "proxy", for_(real, nil, batch("force_batch", send(rich, 1e9), stake)), "ItemFailed StakeAdded ItemCompleted BatchCompletedWithErrors ProxyExecuted", nil},
		{rich, "Proxy", "proxy", for_(real, nil, batch("batch_all", stake, send(rich, 1e9))), "ProxyExecuted:CallFiltered", nil},
		{rich, "Proxy", "proxy", for_(real, nil, proxy("add_proxy", add(rich, "Any", 0))), "ProxyExecuted:CallFiltered", nil},
		{rich, "Proxy", "proxy", for_(real, nil, proxy("add_proxy", add(rich, "Transfer", 0))), "ProxyExecuted:CallFiltered", nil},
		{rich, "Proxy", "proxy", for_(real, nil, proxy("remove_proxies", nil)), "ProxyExecuted:CallFiltered", nil},
		{rich, "Proxy", "proxy", for_(real, nil, proxy("add_proxy", add(other, "ChildKeys", 0))), "ProxyAdded ProxyExecuted", nil},
		{slow, "Proxy", "proxy", for_(real, nil, send(other, 3e9)), "Unannounced", nil},
		{other, "Proxy", "proxy_announced", late, "Unannounced", nil},
		{slow, "Proxy", "announce", scale.Map{"real": idOf(other), "call_hash": scale.Bytes(hash[:])}, "NotProxy", nil},
		{slow, "Proxy", "announce", announced, "Announced", nil},
		{other, "Proxy", "proxy_announced", late, "Unannounced", nil},
		{other, "Proxy", "proxy_announced", late, "Transfer ProxyExecuted", step},
		{other, "Proxy", "proxy_announced", late, "Unannounced", nil},
		{slow, "Proxy", "announce", announced, "Announced", nil},
		{real, "Proxy", "reject_announcement", scale.Map{"delegate": idOf(slow), "call_hash": scale.Bytes(hash[:])}, "", nil},
		{slow, "Proxy", "remove_announcement", announced, "NotFound", nil},
		{other, "Proxy", "proxy_announced", late, "Unannounced", step},
		{real, "Proxy", "remove_proxy", add(staff, "Any", 0), "NotFound", nil},
		{real, "Proxy", "remove_proxy", add(staff, "Staking", 0), "ProxyRemoved", nil},
		{staff, "Proxy", "proxy", for_(real, nil, stake), "NotProxy", nil},
	} {
		if c.before != nil {
			c.before()
		}
		if got := results(t, s, c.who, c.pallet, c.call, c.args); got != c.want {
			t.Errorf("%d: %s.%s %v: %q, want %q", i, c.pallet, c.call, c.args, got, c.want)
		}
	}
	block, err := l.Block(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.reading(ctx, block)
	if err != nil {
		t.Fatal(err)
	}
	account, err := r.account(real)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := account.(scale.Map)["data"].(scale.Map)
	// Three proxies are left: 0.06 TAO and 0.033 for each. Two stakes and the batch's, a transfer.
	if data["reserved"] != uint64(60e6+3*33e6) || data["free"] != uint64(1000e9-3e9-3e9-159e6) {
		t.Errorf("account %v", data)
	}
	prefix, err := s.meta.StorageKey("Proxy", "Proxies")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := r.entries(prefix)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d accounts have proxies: %v", len(entries), err)
	}
	v, err := s.meta.DecodeStorage("Proxy", "Proxies", entries[0].Value)
	if err != nil || strings.Count(fmt.Sprint(v), "delegate:") != 3 || !strings.Contains(fmt.Sprint(v), "159000000") {
		t.Errorf("proxies %v: %v", v, err)
	}
	if got := results(t, s, real, "Proxy", "remove_proxies", nil); got != "" {
		t.Errorf("remove_proxies: %s", got)
	}
	if b, err := l.Balance(ctx, real); err != nil || b != 1000e9-3e9-3e9 {
		t.Errorf("balance %d after the proxies are gone: %v", b, err)
	}
}

// A batch of all or none leaves nothing where one of its calls is refused, in the
// ledger's file too.
func TestBatchAll(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	from, to := ledgertest.Key(t, "from"), ledgertest.Key(t, "to")
	before, err := l.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all := func(calls ...any) scale.Map { return scale.Map{"calls": calls} }
	if got := results(t, s, from, "Utility", "batch_all", all(send(to, 5e9), send(to, 5000e9))); !strings.Contains(got, "FundsUnavailable") {
		t.Errorf("a batch that does not fit: %s", got)
	}
	if after, err := l.Snapshot(ctx); err != nil || string(after) != string(before) {
		t.Errorf("a refused batch changed the ledger: %v", err)
	}
	if got := results(t, s, from, "Utility", "batch_all", all(send(to, 5e9), send(to, 6e9))); got != "Transfer ItemCompleted Transfer ItemCompleted BatchCompleted" {
		t.Errorf("a batch: %s", got)
	}
	if b, err := l.Balance(ctx, to); err != nil || b != 1011e9 {
		t.Errorf("balance %d: %v", b, err)
	}
	nested := scale.Value{Name: "Utility", Of: scale.Value{Name: "batch_all", Of: all(send(to, 1e9))}}
	if got := results(t, s, from, "Utility", "batch_all", all(nested)); !strings.Contains(got, "BadOrigin") {
		t.Errorf("a batch in a batch: %s", got)
	}
	now, err := l.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Replay(ctx, 0); err != nil || string(again) != string(now) {
		t.Errorf("the log does not make the state again: %v", err)
	}
}

// Who may register is asked of a batch and of a proxy as of anybody.
func TestTogetherAsServed(t *testing.T) {
	l, s := newServer(t)
	served := &local.Served{Ledger: l, Mode: local.RegistrationOperator, Operator: ledgertest.Key(t, "operator")}
	s.cfg.Ledger = served
	cold := ledgertest.Key(t, "cold")
	register := scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: "burned_register", Of: scale.Map{"netuid": 1, "hotkey": ledgertest.Key(t, "new")}}}
	if got := results(t, s, cold, "Utility", "batch_all", scale.Map{"calls": []any{register}}); !strings.Contains(got, "BadOrigin") {
		t.Errorf("a registration in a batch: %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := served.Together(ctx, func(f ledger.Full) error {
		_, err := f.Register(ctx, 1, ledgertest.Key(t, "new"), cold)
		return err
	})
	if err == nil {
		t.Error("a copy lets everybody register")
	}
}
