package validator

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/serve"
)

// halves are two arenas of one subnet, each on its mechanism.
type halves struct{}

func (halves) Arenas(context.Context) ([]client.Arena, error) {
	return []client.Arena{{Arena: agon.Arena{ID: "first", Netuid: 1}}, {Arena: agon.Arena{ID: "second", Netuid: 1, Mechanism: 1}}}, nil
}

func (halves) Target(_ context.Context, arena string) (*client.Target, error) {
	if arena == "first" {
		return &client.Target{Netuid: 1, UIDs: []uint16{0, 1}, Values: []uint16{65535, 1}}, nil
	}
	return &client.Target{Netuid: 1, UIDs: []uint16{0, 1}, Values: []uint16{2, 65535}}, nil
}

// Arenas on different mechanisms of a subnet have weights of their own, over the
// ledger's API and a node's alike, and set or committed and revealed.
func TestWeightsOfMechanisms(t *testing.T) {
	owner, err := auth.KeyFromURI("//owner")
	if err != nil {
		t.Fatal(err)
	}
	for _, over := range []string{"the ledger itself", "its API", "a node"} {
		for _, commits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, commits %v", over, commits), func(t *testing.T) {
				l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				h, err := local.Hyperparameters(local.PresetDemo)
				if err != nil {
					t.Fatal(err)
				}
				h.CommitReveal = commits
				if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: owner.SS58(), OwnerColdkey: ledgertest.Key(t, "cold"), Hyper: &h}); err != nil {
					t.Fatal(err)
				}
				if err := l.SetRule(t.Context(), 1, ledgertest.Key(t, "cold"), "mechanism_count", 2); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Register(t.Context(), 1, ledgertest.Key(t, "m"), ledgertest.Key(t, "m")); err != nil {
					t.Fatal(err)
				}
				open := func(string) (keeper.Ledger, error) { return l, nil }
				if over != "the ledger itself" {
					var handler http.Handler = serve.New(serve.Config{Ledger: l, Verifier: &auth.Verifier{Audience: "test", Now: time.Now, Replay: l}})
					if over == "a node" {
						if handler, err = rpc.New(rpc.Config{Ledger: l, Genesis: "test", Replay: l, Now: time.Now, Poll: 5 * time.Millisecond}); err != nil {
							t.Fatal(err)
						}
					}
					s := httptest.NewServer(handler)
					defer s.Close()
					p, err := dial.Parse(s.URL)
					if err != nil {
						t.Fatal(err)
					}
					z := dial.NewLazy(p, dial.Config{Signer: func(string) (auth.Signer, error) { return owner, nil }})
					defer z.Close()
					open = func(string) (keeper.Ledger, error) { return z, nil }
				}
				w := &Weights{Targets: halves{}, Log: slog.New(slog.DiscardHandler), Dir: t.TempDir(), Hotkey: owner.SS58(), Ledgers: open, nets: map[place]*net{}, unopened: map[place]string{}}
				for range 6 { // tempos
					if _, err := l.Step(t.Context(), uint64(h.Tempo)/2); err != nil {
						t.Fatal(err)
					}
					var wg sync.WaitGroup
					err := w.look(t.Context(), &wg)
					wg.Wait()
					if err != nil {
						t.Fatal(err)
					}
				}
				m, err := l.Metagraph(t.Context(), 1)
				if err != nil || len(m.Mechanisms) != 1 || len(m.Weights) != 1 || len(m.Mechanisms[0].Weights) != 1 {
					t.Fatalf("weights %+v, %+v: %v", m.Weights, m.Mechanisms, err)
				}
				if first, second := m.Weights[0].Values, m.Mechanisms[0].Weights[0].Values; first[0] != 65535 || first[1] != 1 || second[0] != 2 || second[1] != 65535 {
					t.Errorf("the first arena's weights are %v, the second's %v", first, second)
				}
			})
		}
	}
}
