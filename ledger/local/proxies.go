package local

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
)

// Limits and deposits of proxies, as the chain's constants have them.
const (
	maxProxies      = 20
	maxAnnouncing   = 75
	proxyBase       = 60_000_000 // rao
	proxyEach       = 33_000_000
	announcingBase  = 36_000_000
	announcingEach  = 68_000_000
	maxAnnouncedAge = 1 << 40
)

// Delegate changes an account's proxies, or a delegate's announcements.
func (l *Ledger) Delegate(ctx context.Context, o ledger.ProxyOrder) error {
	if err := checkAddress("account", o.Account); err != nil {
		return err
	}
	if o.Proxy != nil {
		if err := checkAddress("delegate", o.Proxy.Delegate); err != nil {
			return err
		}
	}
	if o.Kind == ledger.ProxyPure || o.Kind == ledger.ProxyKill {
		if err := checkAddress("pure", o.Pure); err != nil {
			return err
		}
	}
	if o.Announcement != nil {
		if err := checkAddress("real", o.Announcement.Real); err != nil {
			return err
		}
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callProxy, Proxy: &o})
	return err
}

// Delegations copies out who acts for an account and what it has announced; "": of all accounts.
func (l *Ledger) Delegations(ctx context.Context, of string) (d *ledger.Delegations, err error) {
	d = &ledger.Delegations{Proxies: map[string]ledger.ProxyList{}, Announced: map[string]ledger.AnnouncementList{}}
	err = l.view(ctx, func(s *state) error {
		if of != "" {
			d.Proxies[of], d.Announced[of] = s.Proxies[of], s.Announced[of]
		} else {
			maps.Copy(d.Proxies, s.Proxies)
			maps.Copy(d.Announced, s.Announced)
		}
		return nil // a list is replaced when it changes, never written to
	})
	return d, err
}

// delegate does what an order says.
func (s *state) delegate(o *ledger.ProxyOrder) error {
	switch {
	case o == nil:
	case o.Kind == ledger.ProxyClear:
		if len(s.Proxies[o.Account].List) == 0 {
			return errUnchanged
		}
		return s.setProxies(o.Account, nil)
	case o.Proxy != nil && o.Kind == ledger.ProxyAdd:
		return s.addProxy(o.Account, *o.Proxy)
	case o.Proxy != nil && o.Kind == ledger.ProxyRemove:
		list := slices.Clone(s.Proxies[o.Account].List)
		at := slices.Index(list, *o.Proxy)
		if at < 0 {
			return ledger.ErrProxyNotFound.With(fmt.Sprintf("%s is not such a proxy of %s", o.Proxy.Delegate, o.Account))
		}
		return s.setProxies(o.Account, slices.Delete(list, at, at+1))
	case o.Announcement != nil && o.Kind == ledger.ProxyAnnounce:
		list := slices.Clone(s.Announced[o.Account].List)
		if len(list) >= maxAnnouncing {
			return ledger.ErrProxyTooMany.With(fmt.Sprintf("a delegate announces at most %d calls", maxAnnouncing))
		}
		if !slices.ContainsFunc(s.Proxies[o.Announcement.Real].List, func(p ledger.Proxy) bool { return p.Delegate == o.Account }) {
			return ledger.ErrNotProxy
		}
		return s.setAnnounced(o.Account, append(list, ledger.Announcement{Real: o.Announcement.Real, Hash: o.Announcement.Hash, Block: s.Block}))
	case o.Announcement != nil && o.Kind == ledger.ProxyWithdraw:
		return s.withdraw(o)
	case o.Proxy != nil && o.Kind == ledger.ProxyPure:
		return s.createPure(o)
	case o.Kind == ledger.ProxyKill:
		s.credit(o.Account, s.Proxies[o.Pure].Deposit)
		delete(s.Proxies, o.Pure)
		return nil
	}
	return fmt.Errorf("unknown order about proxies: %+v", o)
}

// createPure gives an account without a key its first proxy, for a deposit of the account that asks.
func (s *state) createPure(o *ledger.ProxyOrder) error {
	switch {
	case len(s.Proxies[o.Pure].List) > 0:
		return ledger.ErrProxyDuplicate
	case !slices.Contains(ledger.ProxyKinds, o.Proxy.Kind):
		return ledger.ErrInvalidValue.With(fmt.Sprintf("no proxy is of kind %q", o.Proxy.Kind))
	}
	deposit, err := s.reserve(o.Account, 0, 1, proxyBase, proxyEach)
	if err != nil {
		return err
	}
	if s.Proxies == nil {
		s.Proxies = map[string]ledger.ProxyList{}
	}
	s.Proxies[o.Pure] = ledger.ProxyList{List: []ledger.Proxy{*o.Proxy}, Deposit: deposit}
	return nil
}

func (s *state) addProxy(account string, p ledger.Proxy) error {
	list := slices.Clone(s.Proxies[account].List)
	switch {
	case p.Delegate == account:
		return ledger.ErrNoSelfProxy
	case !slices.Contains(ledger.ProxyKinds, p.Kind):
		return ledger.ErrInvalidValue.With(fmt.Sprintf("no proxy is of kind %q", p.Kind))
	case slices.Contains(list, p):
		return ledger.ErrProxyDuplicate
	case len(list) >= maxProxies:
		return ledger.ErrProxyTooMany.With(fmt.Sprintf("an account has at most %d proxies", maxProxies))
	}
	list = append(list, p)
	slices.SortFunc(list, func(a, b ledger.Proxy) int { // as the chain keeps them: it takes the first that fits
		of, _ := auth.ParseSS58(a.Delegate)
		other, _ := auth.ParseSS58(b.Delegate)
		return cmp.Or(bytes.Compare(of[:], other[:]), cmp.Compare(slices.Index(ledger.ProxyKinds, a.Kind), slices.Index(ledger.ProxyKinds, b.Kind)), cmp.Compare(a.Delay, b.Delay))
	})
	return s.setProxies(account, list)
}

// withdraw takes announcements back.
func (s *state) withdraw(o *ledger.ProxyOrder) error {
	list := slices.Clone(s.Announced[o.Account].List)
	before := len(list)
	age := min(o.Age, maxAnnouncedAge)
	list = slices.DeleteFunc(list, func(a ledger.Announcement) bool {
		return a.Real == o.Announcement.Real && a.Hash == o.Announcement.Hash && s.Block >= a.Block+age
	})
	if len(list) == before {
		return ledger.ErrProxyNotFound
	}
	return s.setAnnounced(o.Account, list)
}

func (s *state) setProxies(account string, list []ledger.Proxy) error {
	deposit, err := s.reserve(account, s.Proxies[account].Deposit, len(list), proxyBase, proxyEach)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		delete(s.Proxies, account)
		return nil
	case s.Proxies == nil:
		s.Proxies = map[string]ledger.ProxyList{}
	}
	s.Proxies[account] = ledger.ProxyList{List: list, Deposit: deposit}
	return nil
}

func (s *state) setAnnounced(account string, list []ledger.Announcement) error {
	deposit, err := s.reserve(account, s.Announced[account].Deposit, len(list), announcingBase, announcingEach)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		delete(s.Announced, account)
		return nil
	case s.Announced == nil:
		s.Announced = map[string]ledger.AnnouncementList{}
	}
	s.Announced[account] = ledger.AnnouncementList{List: list, Deposit: deposit}
	return nil
}

// reserve makes an account's deposit what so many entries cost, from its balance or back to it.
func (s *state) reserve(account string, now uint64, entries int, base, each uint64) (deposit uint64, err error) {
	if entries > 0 {
		deposit = base + each*uint64(entries)
	}
	have := addRao(s.balance(account), now)
	if deposit > now && (have < deposit || have-deposit < ExistentialDeposit) {
		return 0, ledger.ErrInsufficientBalance.With(fmt.Sprintf("a deposit of %d rao: the account has %d", deposit, have))
	}
	s.Balances[account] = have - deposit
	return deposit, nil
}
