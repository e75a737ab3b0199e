package rpc

import (
	"context"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Proxied is a Ledger on which accounts let others make calls for them.
type Proxied interface {
	Delegate(ctx context.Context, o ledger.ProxyOrder) error
	// Delegations are those of an account; of all, where it is "".
	Delegations(ctx context.Context, of string) (*ledger.Delegations, error)
}

// applyProxy makes a call for another account, or changes who may.
func (s *Server) applyProxy(ctx context.Context, who caller, name string, a scale.Map) (events []any, err error) {
	l, ok := s.of(ctx).(Proxied)
	if !ok {
		return nil, ledger.ErrBadOrigin.With("the embedded ledger has no such call")
	}
	event := func(name string, of scale.Map) []any {
		return []any{scale.Value{Name: "Proxy", Of: scale.Value{Name: name, Of: of}}}
	}
	delegate, real := accountIn(a["delegate"]), accountIn(a["real"])
	switch name {
	case "add_proxy", "remove_proxy":
		p := proxyIn(a)
		order, told := ledger.ProxyAdd, "ProxyAdded"
		if name == "remove_proxy" {
			order, told = ledger.ProxyRemove, "ProxyRemoved"
		}
		of := scale.Map{"delegator": who.signer, "delegatee": p.Delegate, "proxy_type": a["proxy_type"], "delay": p.Delay}
		return event(told, of), l.Delegate(ctx, ledger.ProxyOrder{Kind: order, Account: who.signer, Proxy: &p})
	case "remove_proxies":
		return nil, l.Delegate(ctx, ledger.ProxyOrder{Kind: ledger.ProxyClear, Account: who.signer})
	case "create_pure", "kill_pure":
		return s.applyPure(ctx, l, who.signer, name, a)
	case "announce":
		of := scale.Map{"real": real, "proxy": who.signer, "call_hash": a["call_hash"]}
		return event("Announced", of), l.Delegate(ctx, ledger.ProxyOrder{Kind: ledger.ProxyAnnounce, Account: who.signer, Announcement: announcementOf(real, a["call_hash"])})
	case "remove_announcement":
		return nil, l.Delegate(ctx, ledger.ProxyOrder{Kind: ledger.ProxyWithdraw, Account: who.signer, Announcement: announcementOf(real, a["call_hash"])})
	case "reject_announcement":
		return nil, l.Delegate(ctx, ledger.ProxyOrder{Kind: ledger.ProxyWithdraw, Account: delegate, Announcement: announcementOf(who.signer, a["call_hash"])})
	case "proxy", "proxy_announced":
		if name == "proxy" {
			delegate = who.signer
		}
		p, err := proxyOf(ctx, l, real, delegate, a["force_proxy_type"])
		if err != nil {
			return nil, err
		}
		if name == "proxy" && p.Delay > 0 {
			return nil, ledger.ErrUnannounced
		}
		if name == "proxy_announced" {
			raw, err := scale.Encode(nil, s.meta.CallType, a["call"])
			if err != nil {
				return nil, err
			}
			o := ledger.ProxyOrder{Kind: ledger.ProxyWithdraw, Account: delegate, Announcement: &ledger.Announcement{Real: real, Hash: scale.Hash(raw)}, Age: uint64(p.Delay)}
			if err := l.Delegate(ctx, o); err != nil {
				return nil, ledger.ErrUnannounced
			}
		}
		left, err := s.apply(ctx, caller{signer: real, proxy: allowedTo(p.Kind), batched: who.batched}, a["call"])
		failure, err := s.dispatchError(err)
		if err != nil {
			return nil, err
		}
		if failure != nil {
			return event("ProxyExecuted", scale.Map{"result": scale.Value{Name: "Err", Of: failure}}), nil
		}
		return append(left, event("ProxyExecuted", scale.Map{"result": scale.Value{Name: "Ok"}})...), nil
	}
	return nil, ledger.ErrBadOrigin.With("the embedded ledger has no such call")
}

// accountIn is the account that an address of a call names; "" for other forms of address.
func accountIn(v any) string {
	x, _ := v.(scale.Value)
	account, _ := x.Of.(string)
	if x.Name != "Id" {
		return ""
	}
	return account
}

func proxyIn(a scale.Map) ledger.Proxy {
	kind, _ := a["proxy_type"].(scale.Value)
	return ledger.Proxy{Delegate: accountIn(a["delegate"]), Kind: kind.Name, Delay: uint32(number(a, "delay"))}
}

func announcementOf(real string, hash any) *ledger.Announcement {
	a := &ledger.Announcement{Real: real}
	b, _ := hash.(scale.Bytes)
	copy(a.Hash[:], b)
	return a
}

// proxyOf is the first proxy by which delegate acts for real, of a kind if the call wants one.
func proxyOf(ctx context.Context, l Proxied, real, delegate string, kind any) (ledger.Proxy, error) {
	d, err := l.Delegations(ctx, real)
	if err != nil {
		return ledger.Proxy{}, err
	}
	wanted := ""
	for x, ok := kind.(scale.Value); ok; x, ok = kind.(scale.Value) { // an Option of one
		wanted, kind = x.Name, x.Of
	}
	for _, p := range d.Proxies[real].List {
		if p.Delegate == delegate && (wanted == "" || wanted == "None" || wanted == p.Kind) {
			return p, nil
		}
	}
	return ledger.Proxy{}, ledger.ErrNotProxy
}

// allowedTo is what a proxy of a kind may call.
func allowedTo(kind string) func(pallet, call string, a scale.Map) bool {
	return func(pallet, call string, a scale.Map) bool {
		if pallet == "Proxy" {
			switch call {
			case "add_proxy", "remove_proxy":
				if !ledger.ProxyCovers(kind, proxyIn(a).Kind) {
					return false
				}
			case "remove_proxies", "kill_pure":
				return kind == "Any"
			}
		}
		var amount *uint64
		for _, name := range []string{"value", "alpha_amount"} {
			if n, ok := a[name].(uint64); ok {
				amount = &n
			}
		}
		return ledger.ProxyAllows(kind, pallet, call, amount)
	}
}

// delegations are those of an account; of all, where it is "".
func (r *reading) delegations(of string) (*ledger.Delegations, error) {
	if l, ok := r.ledger.(Proxied); ok {
		return l.Delegations(r.ctx, of)
	}
	return &ledger.Delegations{}, nil
}

// proxied answers the items of proxies; nil = the account has none.
func (r *reading) proxied(item string, keys []any) (any, error) {
	account, _ := keys[0].(string)
	d, err := r.delegations(account)
	if err != nil {
		return nil, err
	}
	list, deposit := []any{}, uint64(0)
	if item == "Proxy.Proxies" {
		deposit = d.Proxies[account].Deposit
		for _, p := range d.Proxies[account].List {
			list = append(list, scale.Map{"delegate": p.Delegate, "proxy_type": scale.Value{Name: p.Kind}, "delay": p.Delay})
		}
	} else {
		deposit = d.Announced[account].Deposit
		for _, a := range d.Announced[account].List {
			list = append(list, scale.Map{"real": a.Real, "call_hash": scale.Bytes(a.Hash[:]), "height": a.Block})
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return []any{list, deposit}, nil
}

// proxyKeys adds the keys of an item of proxies.
func (r *reading) proxyKeys(item string, add func(keys ...any) error) error {
	d, err := r.delegations("")
	if err != nil {
		return err
	}
	if item == "Announcements" {
		for account := range d.Announced {
			if err := add(account); err != nil {
				return err
			}
		}
		return nil
	}
	for account := range d.Proxies {
		if err := add(account); err != nil {
			return err
		}
	}
	return nil
}
