package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/yuma"
)

// ExistentialDeposit is what an account has at least, in rao, as on the chain.
const ExistentialDeposit = 500

// ServeAxon says where a hotkey serves. It is free.
func (l *Ledger) ServeAxon(ctx context.Context, netuid uint16, hotkey string, a ledger.Axon) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callServeAxon, Netuid: netuid, Hotkey: hotkey, Axon: &a})
	return err
}

func (s *state) serveAxon(x *extrinsic) error {
	_, n, _, err := s.neuron(x.Netuid, x.Hotkey)
	if err != nil {
		return err
	}
	a := *x.Axon
	switch broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255}); {
	case !a.IP.IsValid() || a.IP.IsUnspecified() || a.IP.IsLoopback() || a.IP == broadcast:
		return ledger.ErrInvalidIP.With(fmt.Sprintf("address %s: nobody else reaches that", a.IP))
	case a.Port == 0:
		return ledger.ErrInvalidPort
	}
	a.Block = s.Block
	n.Axon = &a
	return nil
}

// Transfer moves rao from one account to another. keep refuses what would leave
// the sender less than ExistentialDeposit.
func (l *Ledger) Transfer(ctx context.Context, from, to string, rao uint64, keep bool) error {
	for field, address := range map[string]string{"from": from, "to": to} {
		if err := checkAddress(field, address); err != nil {
			return err
		}
	}
	if err := checkRao("amount", rao); err != nil {
		return err
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callTransfer, Coldkey: from, To: to, Rao: rao, Keep: keep})
	return err
}

func (s *state) transfer(x *extrinsic) error {
	have := s.balance(x.Coldkey)
	switch {
	case x.Rao > have:
		return ledger.ErrFundsUnavailable.With(fmt.Sprintf("send %d rao: the account has %d", x.Rao, have))
	case x.Keep && have-x.Rao < ExistentialDeposit:
		return ledger.ErrNotExpendable.With(fmt.Sprintf("send %d of %d rao: %d have to stay", x.Rao, have, ExistentialDeposit))
	case s.balance(x.To) == 0 && x.Rao < ExistentialDeposit:
		return ledger.ErrBelowMinimum.With(fmt.Sprintf("send %d rao: a new account has at least %d", x.Rao, ExistentialDeposit))
	case x.Coldkey == x.To:
		return nil
	}
	s.Balances[x.Coldkey] = have - x.Rao
	s.credit(x.To, x.Rao)
	return nil
}

// Holdings is what hangs on a coldkey.
func (l *Ledger) Holdings(ctx context.Context, coldkey string) (h ledger.Holdings, err error) {
	err = l.view(ctx, func(s *state) error {
		h.Hotkeys = []string{}
		h.Stakes = append(h.Stakes, s.elsewhere(coldkey)...)
		for _, hotkey := range slices.Sorted(maps.Keys(s.Owners)) {
			if s.Owners[hotkey] != coldkey {
				continue
			}
			h.Hotkeys = append(h.Hotkeys, hotkey)
			for _, netuid := range s.order {
				sub := s.Subnets[netuid]
				uid, registered := sub.uids[hotkey]
				if stake := sub.of(coldkey, hotkey, coldkey); stake > 0 || registered {
					x := ledger.Holding{Netuid: netuid, Hotkey: hotkey, Stake: stake, Registered: registered}
					if registered {
						x.Emission = sub.Neurons[uid].Emission
					}
					h.Stakes = append(h.Stakes, x)
				}
			}
		}
		return nil
	})
	return h, err
}

// elsewhere is a coldkey's stake on the root network, and on hotkeys of others.
func (s *state) elsewhere(coldkey string) (out []ledger.Holding) {
	if s.Root == nil {
		return nil
	}
	add := func(netuid uint16, hotkey string, stake uint64, registered bool) {
		if stake > 0 {
			out = append(out, ledger.Holding{Netuid: netuid, Hotkey: hotkey, Stake: stake, Registered: registered})
		}
	}
	for _, hotkey := range slices.Sorted(maps.Keys(s.Root.Stakes)) {
		add(ledger.Root, hotkey, s.Root.of(s.Owners[hotkey], hotkey, coldkey), false)
	}
	for _, sub := range s.pooled() {
		for _, hotkey := range slices.Sorted(maps.Keys(sub.Shares)) {
			if s.Owners[hotkey] != coldkey {
				_, registered := sub.uids[hotkey]
				add(s.netuidOf(sub), hotkey, sub.of(s.Owners[hotkey], hotkey, coldkey), registered)
			}
		}
	}
	return out
}

// Owner is the coldkey of a hotkey, also of one that lost its uid; "" = it was never registered.
func (l *Ledger) Owner(ctx context.Context, hotkey string) (coldkey string, err error) {
	err = l.view(ctx, func(s *state) error {
		coldkey = s.Owners[hotkey]
		return nil
	})
	return coldkey, err
}

// Bonds are the bonds of a subnet's validators, by uid.
func (l *Ledger) Bonds(ctx context.Context, netuid uint16) ([]ledger.WeightRow, error) {
	return l.MechanismBonds(ctx, netuid, 0)
}

func row(uid uint16, of []yuma.Pair) ledger.WeightRow {
	r := ledger.WeightRow{UID: uid, UIDs: make([]uint16, len(of)), Values: make([]uint16, len(of))}
	for i, p := range of {
		r.UIDs[i], r.Values[i] = p.UID, p.Value
	}
	return r
}

// Nonce is how many extrinsics of an account were taken (UseNonce).
func (l *Ledger) Nonce(ctx context.Context, account string) (n uint64, err error) {
	err = l.view(ctx, func(s *state) error {
		n = s.Nonces[account]
		return nil
	})
	return n, err
}

// UseNonce counts an extrinsic of an account, if nonce is the account's next
// one; once for each nonce, over restarts too.
func (l *Ledger) UseNonce(ctx context.Context, account string, nonce uint64) (fresh bool, err error) {
	_, _, err = l.call(ctx, &extrinsic{Call: callNonce, Coldkey: account, Nonce: nonce})
	if errors.Is(err, errNonce) {
		return false, nil
	}
	return err == nil, err
}

var errNonce = errors.New("another nonce is next")

func (s *state) useNonce(x *extrinsic) error {
	if s.Nonces[x.Coldkey] != x.Nonce {
		return errNonce
	}
	s.Nonces[x.Coldkey]++
	return nil
}
