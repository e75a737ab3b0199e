package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/store"
)

// Where an arena names its gateway's key, a result needs receipts under it.
func TestAttested(t *testing.T) {
	var run store.Run
	a := store.Attempt{Attempt: agon.Attempt{Run: "r", N: 1}}
	made := []agon.Receipt{{ID: "x", Run: "r", Attempt: 1, N: 1, Cost: 5, Reserved: 9, Signer: "5x", Sig: "00"}}
	for _, c := range []struct {
		name, key string
		r         client.Result
		ok        bool
	}{
		{"no key is demanded", "", client.Result{Receipts: made}, true},
		{"made up", "5GUHiCB5aXRKk213bXmRX1a9twXTjcEgAEzXKgWqXRYe3g6F", client.Result{Receipts: made, Cost: 5}, false},
		{"no call was made", "5GUHiCB5aXRKk213bXmRX1a9twXTjcEgAEzXKgWqXRYe3g6F", client.Result{}, true},
		{"cost without receipts", "5GUHiCB5aXRKk213bXmRX1a9twXTjcEgAEzXKgWqXRYe3g6F", client.Result{Cost: 7}, false},
		{"a fault of ours", "5GUHiCB5aXRKk213bXmRX1a9twXTjcEgAEzXKgWqXRYe3g6F", client.Result{Receipts: made, Fault: agon.FaultProvider}, true},
	} {
		run.Policy.GatewayKey = c.key
		if err := attested(run, a, c.r); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
