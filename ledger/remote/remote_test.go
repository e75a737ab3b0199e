package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/serve"
)

const netuid = 7

// keys are the secrets of the suite's accounts, by address.
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

// bed is a stepped ledger behind a server.
type bed struct {
	local *local.Ledger
	url   string
	last  atomic.Pointer[http.Request] // the newest signed request, and its body
	body  atomic.Pointer[[]byte]
}

func newBed(t testing.TB) *bed {
	t.Helper()
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}
	if err := l.EnsureSubnet(t.Context(), netuid, owner); err != nil {
		t.Fatal(err)
	}
	b := &bed{local: l}
	h := serve.New(serve.Config{Ledger: l, Verifier: &auth.Verifier{Audience: "test-ledger", Now: time.Now, Replay: l}})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			b.body.Store(&body)
			b.last.Store(r)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		h.ServeHTTP(w, r)
	}))
	b.url = s.URL
	t.Cleanup(func() {
		s.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bed) client(t testing.TB, signer func(string) (auth.Signer, error)) *remote.Client {
	t.Helper()
	c, err := remote.New(remote.Config{URL: b.url, Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	signer := keys(t)
	ledgertest.Run(t, func(t *testing.T) *ledgertest.Bench {
		b := newBed(t)
		l := b.local
		return &ledgertest.Bench{
			Ledger: b.client(t, signer), Netuid: netuid,
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
}

// Nobody acts for another.
func TestSigners(t *testing.T) {
	b := newBed(t)
	ctx := t.Context()
	of := keys(t)
	as := func(name string) *remote.Client {
		c, err := remote.New(remote.Config{URL: b.url, Signer: func(string) (auth.Signer, error) { return of(ledgertest.Key(t, name)) }})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, cold := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold")
	if _, err := as("a").Register(ctx, netuid, a, cold); err != nil {
		t.Fatalf("a free registration by the hotkey: %v", err)
	}
	thief := as("x")
	hash := ledger.Hash{1}
	for name, err := range map[string]error{
		"weights": thief.SetWeights(ctx, netuid, a, ledger.Weights{}), "promise": thief.CommitWeights(ctx, netuid, a, hash),
		"reveal": thief.RevealWeights(ctx, netuid, a, ledger.Weights{}, nil), "stake": thief.AddStake(ctx, netuid, a, cold, 1),
		"unstake": thief.RemoveStake(ctx, netuid, a, cold, 1), "stake by the hotkey": as("a").AddStake(ctx, netuid, a, cold, 1),
	} {
		if !errors.Is(err, ledger.ErrBadOrigin) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := thief.Commit(ctx, netuid, a, ledger.Raw(nil)); !errors.Is(err, ledger.ErrBadOrigin) {
		t.Errorf("commitment: %v", err)
	}
	if _, err := thief.Register(ctx, netuid, ledgertest.Key(t, "b"), ledgertest.Key(t, "b-cold")); !errors.Is(err, ledger.ErrBadOrigin) {
		t.Errorf("registration: %v", err)
	}
	h, err := local.Hyperparameters(local.PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.MinBurn, h.MaxBurn = 1000, 1000
	if err := b.local.SetHyperparameters(ctx, netuid, h); err != nil {
		t.Fatal(err)
	}
	if _, err := as("c").Register(ctx, netuid, ledgertest.Key(t, "c"), cold); !errors.Is(err, ledger.ErrBadOrigin) {
		t.Errorf("a hotkey spends a coldkey's money: %v", err)
	}
	if _, err := as("a-cold").Register(ctx, netuid, ledgertest.Key(t, "c"), cold); err != nil {
		t.Errorf("a registration by the coldkey: %v", err)
	}
	if err := as("a-cold").AddStake(ctx, netuid, a, cold, 5); err != nil {
		t.Errorf("stake by the coldkey: %v", err)
	}
	if rao, err := thief.Balance(ctx, cold); err != nil || rao != 1000_000_000_000-1000-5 {
		t.Errorf("balance %d, %v", rao, err)
	}

	// The same request again, another body under the same signature, none at all.
	last, body := b.last.Load(), *b.body.Load()
	for name, c := range map[string]struct {
		body   []byte
		header http.Header
	}{
		"replay": {body, last.Header}, "another body": {bytes.Replace(body, []byte(`"rao":5`), []byte(`"rao":6`), 1), last.Header}, "unsigned": {body, http.Header{}},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+remote.PathExtrinsics, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = c.header.Clone()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	reader, err := remote.New(remote.Config{URL: b.url})
	if err != nil {
		t.Fatal(err)
	}
	var coded *agon.Error
	if _, err := reader.Commit(ctx, netuid, a); !errors.As(err, &coded) || coded.Code != "no_key" {
		t.Errorf("without a key: %v", err)
	}
	if in, err := reader.Subnets(ctx); err != nil || len(in) != 1 || in[0] != netuid {
		t.Errorf("subnets %v, %v", in, err)
	}
}

func TestBadRequests(t *testing.T) {
	b := newBed(t)
	key, err := keys(t)(ledgertest.Key(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	do := func(method, path, body string) (int, remote.Problem) {
		req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := auth.SignRequest(req, []byte(body), key, "test-ledger", time.Now()); err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var p remote.Problem
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return resp.StatusCode, p
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/ledger/v1/subnets/70000", "", 422, "bad_request"},
		{"GET", "/ledger/v1/subnets/9", "", 404, "SubnetNotExists"},
		{"GET", "/ledger/v1/subnets/7/commitments/a?from=-1", "", 422, "bad_request"},
		{"GET", "/ledger/v1/balances/me", "", 422, "bad_address"},
		{"GET", "/ledger/v1/nothing", "", 404, "not_found"},
		{"POST", "/ledger/v1/extrinsics", "", 422, "bad_body"},
		{"POST", "/ledger/v1/extrinsics", `{"call":"sudo"}`, 422, "bad_request"},
		{"POST", "/ledger/v1/extrinsics", `{"call":"set_weights","hotkey":"x"}`, 422, "bad_request"},
		{"POST", "/ledger/v1/extrinsics", `{"call":"commit_weights","hotkey":"x"}`, 422, "bad_request"},
		{"POST", "/ledger/v1/extrinsics", `{"call":"commit_weights","hash":"00"}`, 422, "bad_body"},
		{"POST", "/ledger/v1/extrinsics", `{"call":"set_commitment","root":true}`, 422, "bad_body"},
		{"POST", "/ledger/v1/extrinsics", `{"call":"set_commitment"}{}`, 422, "bad_body"},
		{"POST", "/ledger/v1/extrinsics", strings.Repeat(" ", remote.MaxExtrinsic+1), 413, "too_large"},
	} {
		if status, p := do(c.method, c.path, c.body); status != c.status || p.Code != c.code || p.Detail == "" {
			t.Errorf("%s %s %.40s: %d %+v", c.method, c.path, c.body, status, p)
		}
	}
}

// What is wrong with a ledger that answers badly is the ledger's fault.
func TestSickLedger(t *testing.T) {
	var block atomic.Uint64
	block.Store(100)
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case remote.PathInfo:
			fmt.Fprintf(w, `{"audience":"a","block":%d}`, block.Load())
		case remote.PathSubnets + "1":
			fmt.Fprint(w, `{"netuid":1,"block":100,"neurons":[{"uid":4}]}`)
		case remote.PathSubnets + "2":
			fmt.Fprint(w, `<html>`)
		case remote.PathSubnets + "3":
			<-release
		case remote.PathSubnets + "4":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case remote.PathSubnets + "5":
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, `{"code":"SubnetNotExists","refused":true,"detail":"x"}`)
		case remote.PathSubnets + "6":
			fmt.Fprint(w, `{"netuid":6,"block":100,"weights":[{"uid":0,"uids":[1]}]}`)
		}
	}))
	defer s.Close()
	defer close(release)
	c, err := remote.New(remote.Config{URL: s.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	hasty, err := remote.New(remote.Config{URL: s.URL, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sick := func(what string, err error) {
		t.Helper()
		var coded *agon.Error
		var refusal *ledger.Error
		if !errors.As(err, &coded) || coded.Fault != agon.FaultLedger || errors.As(err, &refusal) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n, what := range []string{"empty", "gaps", "html", "slow", "redirect", "bad gateway", "ragged weights"} {
		from := c
		if what == "slow" {
			from = hasty
		}
		_, err := from.Metagraph(t.Context(), uint16(n))
		sick(what, err)
	}
	if _, err := c.Block(t.Context()); err != nil {
		t.Fatal(err)
	}
	block.Store(99)
	_, err = c.Block(t.Context())
	sick("behind", err)
	block.Store(101)
	if got, err := c.Block(t.Context()); err != nil || got != 101 {
		t.Errorf("block %d, %v", got, err)
	}
	s.CloseClientConnections()
	gone, err := remote.New(remote.Config{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = gone.Block(t.Context())
	sick("gone", err)
	for _, u := range []string{"", "ledger.db", "ftp://x", "http://", "http://x/y", "http://u:p@x", "http://x?y"} {
		if _, err := remote.New(remote.Config{URL: u}); err == nil {
			t.Errorf("%q: accepted", u)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Block(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkMetagraph(b *testing.B) {
	bed := newBed(b)
	for i := range 250 {
		hot := ledgertest.Key(b, fmt.Sprint("n", i))
		if _, err := bed.local.Register(b.Context(), netuid, hot, hot); err != nil {
			b.Fatal(err)
		}
	}
	c := bed.client(b, nil)
	for b.Loop() {
		if _, err := c.Metagraph(b.Context(), netuid); err != nil {
			b.Fatal(err)
		}
	}
}
