package subtensor_test

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// The receipt of a proxied call says what became of the call within, though the
// chain calls the extrinsic a success.
func TestProxiedReceipt(t *testing.T) {
	l := newLedger(t)
	n := newNode(t, l, l, 424)
	c := client(t, subtensor.Config{URLs: []string{n.http.URL}})
	real, staff := ledgertest.Key(t, "a-cold"), ledgertest.Key(t, "a")
	if _, err := c.Submit(t.Context(), real, "Proxy", "add_proxy", scale.Map{"delegate": staff, "proxy_type": scale.Value{Name: "Transfer"}, "delay": 0}); err != nil {
		t.Fatal(err)
	}
	send := func(rao uint64) error {
		call := scale.Value{Name: "Balances", Of: scale.Value{Name: "transfer_keep_alive", Of: scale.Map{"dest": staff, "value": rao}}}
		_, err := c.Submit(t.Context(), staff, "Proxy", "proxy", scale.Map{"real": real, "force_proxy_type": nil, "call": call})
		return err
	}
	if err := send(1e9); err != nil {
		t.Errorf("a transfer by a proxy: %v", err)
	}
	var refused *ledger.Error
	if err := send(1e15); !errors.As(err, &refused) || refused.Name != "TokenFundsUnavailable" {
		t.Errorf("a transfer of too much by a proxy is told as %v", err)
	}
}
