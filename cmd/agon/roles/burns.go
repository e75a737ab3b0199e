package roles

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// burnsOf reads what was burned by the protocol of the chain, whichever ledger
// the arena is on.
func (s *server) burnsOf(a agon.Arena) ledger.Burns {
	if a.Ledger != "" {
		return s.foreignLedgers.of(a.Ledger)
	}
	return ownBurns{sync.OnceValues(func() (*subtensor.Client, error) {
		return subtensor.New(subtensor.Config{URLs: []string{"http://embedded.invalid"}, Transport: inProcess{s}})
	})}
}

// ownBurns asks the embedded ledger's node.
type ownBurns struct {
	client func() (*subtensor.Client, error) // one, which remembers the metadata
}

// inProcess carries requests to the node of the embedded ledger in this process.
type inProcess struct{ s *server }

// RoundTrip implements http.RoundTripper without a network.
func (o inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	h := o.s.rpc.Load()
	if h == nil {
		return nil, errors.New("the ledger is not there yet")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// Burnable implements ledger.Burns.
func (o ownBurns) Burnable(ctx context.Context, netuid uint16, coldkey, hotkey string) (int64, error) {
	c, err := o.client()
	if err != nil {
		return 0, err
	}
	return c.Burnable(ctx, netuid, coldkey, hotkey)
}

// Burned implements ledger.Burns.
func (o ownBurns) Burned(ctx context.Context, block string, index int, hotkey string) (*ledger.Burn, error) {
	c, err := o.client()
	if err != nil {
		return nil, err
	}
	return c.Burned(ctx, block, index, hotkey)
}

// Burnable implements ledger.Burns.
func (f *foreignLedger) Burnable(ctx context.Context, netuid uint16, coldkey, hotkey string) (int64, error) {
	if f.bad != nil {
		return 0, f.bad
	}
	return f.l.Burnable(ctx, netuid, coldkey, hotkey)
}

// Burned implements ledger.Burns.
func (f *foreignLedger) Burned(ctx context.Context, block string, index int, hotkey string) (*ledger.Burn, error) {
	if f.bad != nil {
		return nil, f.bad
	}
	return f.l.Burned(ctx, block, index, hotkey)
}
