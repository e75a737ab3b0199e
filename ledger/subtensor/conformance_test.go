package subtensor_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/subtensor"
)

const netuid = 1

// testKeys are the keys of test accounts, by address: made once, each costs some thousand hashes.
var testKeys = sync.OnceValues(func() (map[string]*auth.Key, error) {
	names := []string{"owner", "a", "b", "c", "d", "m", "r", "v", "w", "x", "z", "late", "stranger"}
	for i := range 12 {
		names = append(names, fmt.Sprint("miner", i))
	}
	for i := range maxRows {
		names = append(names, fmt.Sprint("row", i))
	}
	m := map[string]*auth.Key{}
	for _, name := range names {
		for _, uri := range []string{"//" + name, "//" + name + "-cold"} {
			k, err := auth.KeyFromURI(uri)
			if err != nil {
				return nil, err
			}
			m[k.SS58()] = k
		}
	}
	return m, nil
})

// maxRows is how many rows of TestFaults have an account.
const maxRows = 40

func keys(t testing.TB) func(string) (auth.Signer, error) {
	t.Helper()
	m, err := testKeys()
	if err != nil {
		t.Fatal(err)
	}
	return func(address string) (auth.Signer, error) {
		if k := m[address]; k != nil {
			return k, nil
		}
		return nil, fmt.Errorf("no key of %s", address)
	}
}

// newBed is a stepped ledger behind JSON-RPC.
func newBed(t testing.TB) (*local.Ledger, *httptest.Server) {
	t.Helper()
	l := newLedger(t)
	return l, newNode(t, l, l, 0).http
}

func client(t testing.TB, cfg subtensor.Config) *subtensor.Client {
	t.Helper()
	if cfg.Signer == nil {
		cfg.Signer = keys(t)
	}
	cfg.Poll = 5 * time.Millisecond
	c, err := subtensor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestConformance(t *testing.T) {
	for _, x := range []struct {
		name  string
		ws    bool
		noAPI bool
		final bool
		spec  uint32
	}{
		{name: "websocket, finalized", ws: true, final: true},
		{name: "http, storage walk", noAPI: true},
		{name: "metadata 424, websocket", ws: true, spec: 424},
	} {
		t.Run(x.name, func(t *testing.T) {
			ledgertest.Run(t, func(t *testing.T) *ledgertest.Bench {
				l := newLedger(t)
				url := newNode(t, l, l, x.spec).http.URL
				if x.ws {
					url = "ws" + strings.TrimPrefix(url, "http")
				}
				return &ledgertest.Bench{
					Ledger: client(t, subtensor.Config{URLs: []string{url}, NoAPI: x.noAPI, Finalized: x.final}), Netuid: netuid,
					Advance: func(blocks uint64) {
						if _, err := l.Step(t.Context(), blocks); err != nil {
							t.Fatal(err)
						}
					},
					Validator: func(hotkey string, stake uint64) {
						if err := l.SetValidator(t.Context(), netuid, hotkey, true, stake); err != nil {
							t.Fatal(err)
						}
					},
					Hyper: func(change func(*ledger.Hyperparameters)) {
						m, err := l.Metagraph(t.Context(), netuid)
						if err != nil {
							t.Fatal(err)
						}
						change(&m.Hyper)
						if err := l.SetHyperparameters(t.Context(), netuid, m.Hyper); err != nil {
							t.Fatal(err)
						}
					},
				}
			})
		})
	}
}
