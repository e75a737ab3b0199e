package rpc

import (
	"errors"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger/scale"
)

// account is System.Account: the balance, what proxies have reserved of it, and the nonce.
func (r *reading) account(key any) (any, error) {
	address, _ := key.(string)
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return nil, nil
	}
	free, err := r.ledger.Balance(r.ctx, address)
	if err != nil {
		return nil, err
	}
	_, item, err := r.meta.Storage("System", "Account")
	if err != nil {
		return nil, err
	}
	v, ok := scale.Zero(item.Value).(scale.Map)
	if !ok {
		return nil, errors.New("account is not a struct")
	}
	nonce, err := r.nonceIn(r.ctx, r.ledger, pub)
	if err != nil {
		return nil, err
	}
	v["nonce"], v["providers"] = nonce, 1
	if data, ok := v["data"].(scale.Map); ok {
		data["free"] = free
		if d, err := r.delegations(address); err != nil {
			return nil, err
		} else if reserved := d.Proxies[address].Deposit + d.Announced[address].Deposit; reserved > 0 {
			data["reserved"] = reserved
		}
	}
	return v, nil
}
