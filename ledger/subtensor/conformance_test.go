package subtensor_test

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/subtensor"
)

const netuid = 1

func keys(t testing.TB) func(string) (auth.Signer, error) {
	t.Helper()
	names := []string{"owner", "a", "b", "c", "d", "m", "r", "v", "w", "x", "z", "late", "stranger"}
	for i := range 12 {
		names = append(names, fmt.Sprint("miner", i))
	}
	m := map[string]*auth.Key{}
	for _, name := range names {
		for _, uri := range []string{"//" + name, "//" + name + "-cold"} {
			k, err := auth.KeyFromURI(uri)
			if err != nil {
				t.Fatal(err)
			}
			m[k.SS58()] = k
		}
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
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}
	if err := l.EnsureSubnet(t.Context(), netuid, owner); err != nil {
		t.Fatal(err)
	}
	h, err := rpc.New(rpc.Config{Ledger: l, Genesis: "test", Replay: l, Now: time.Now, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, s
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
	}{{name: "websocket, finalized", ws: true, final: true}, {name: "http, storage walk", noAPI: true}} {
		t.Run(x.name, func(t *testing.T) {
			ledgertest.Run(t, func(t *testing.T) *ledgertest.Bench {
				l, s := newBed(t)
				url := s.URL
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
