package subtensor_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/agent"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// A key agent with a policy signs for the client the call that it lists, on the
// chain that it lists, short and long; any other call, and any other chain, it refuses.
func TestAgentPolicy(t *testing.T) {
	l, srv := newBed(t)
	a := ledgertest.Key(t, "a")
	if _, err := l.Register(t.Context(), netuid, a, ledgertest.Key(t, "a-cold")); err != nil {
		t.Fatal(err)
	}
	r, err := http.Post(srv.URL, "application/json", strings.NewReader(`{"id":1,"method":"chain_getBlockHash","params":[0]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var genesis struct{ Result string }
	if err := json.NewDecoder(r.Body).Decode(&genesis); err != nil {
		t.Fatal(err)
	}
	key, err := keys(t)(a)
	if err != nil {
		t.Fatal(err)
	}
	of := func(genesis string) *subtensor.Client {
		t.Helper()
		dir, err := os.MkdirTemp("", "agon") // short: a socket's path may have 100 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		p, err := agent.ParsePolicy([]string{"18.0"}, []string{genesis}) // Commitments.set_commitment
		if err != nil {
			t.Fatal(err)
		}
		s, err := agent.New(agent.Config{Keys: []auth.Signer{key}, Policy: p})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "s")
		ln, err := agent.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		signer, err := agent.Dial(path, a, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			stop()
			if err := errors.Join(<-done, signer.Close()); err != nil {
				t.Error(err)
			}
		})
		return client(t, subtensor.Config{URLs: []string{srv.URL}, Signer: func(string) (auth.Signer, error) { return signer, nil }})
	}
	c := of(genesis.Result)
	for _, n := range []int{5, 400} {
		if _, err := c.Commit(t.Context(), netuid, a, ledger.Raw(make([]byte, n))); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	refused := func(err error) {
		t.Helper()
		var no *agent.Error
		if !errors.As(err, &no) || no.Code != agent.CodePolicy {
			t.Errorf("signed what the policy does not allow: %v", err)
		}
	}
	refused(c.SetWeights(t.Context(), netuid, a, ledger.Weights{UIDs: []uint16{0}, Values: []uint16{1}}))
	_, err = of("0x"+strings.Repeat("07", 32)).Commit(t.Context(), netuid, a, ledger.Raw([]byte("x")))
	refused(err)
	all, err := l.Commitments(t.Context(), netuid)
	if err != nil || len(all) != 1 || len(all[0].Fields[0].Data) != 400 {
		t.Errorf("commitments %+v: %v", all, err)
	}
}
