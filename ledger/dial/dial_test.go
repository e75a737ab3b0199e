package dial_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/serve"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]dial.Place{
		"":                          {},
		"local":                     {},
		"http://127.0.0.1:1":        {Name: "http://127.0.0.1:1", URLs: []string{"http://127.0.0.1:1"}},
		"ws://a.example,ws://b/rpc": {Name: "ws://a.example,ws://b/rpc", URLs: []string{"ws://a.example", "ws://b/rpc"}},
	} {
		p, err := dial.Parse(name)
		if err != nil || p.Name != want.Name || strings.Join(p.URLs, " ") != strings.Join(want.URLs, " ") || p.Network || p.Own() != (len(want.URLs) == 0) {
			t.Errorf("%q: %+v %v", name, p, err)
		}
	}
	for _, name := range []string{"finney", "test"} {
		if p, err := dial.Parse(name); err != nil || !p.Network || p.Own() || !strings.HasPrefix(p.URLs[0], "wss://") {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
	for _, name := range []string{"x", "lab.db", "ws://", "ftp://a", "ws://a,", "http://u:p@a", "ws://a?x=1", "ws://a#b", "%zz"} {
		var e *agon.Error
		if _, err := dial.Parse(name); !errors.As(err, &e) || e.Field != "ledger" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Open finds out what an address speaks, and a lazy ledger when there is somebody.
func TestOpen(t *testing.T) {
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.EnsureSubnet(t.Context(), 3, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner")}); err != nil {
		t.Fatal(err)
	}
	node, err := rpc.New(rpc.Config{Ledger: l, Genesis: "test", Replay: l, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	chain := httptest.NewServer(node)
	defer chain.Close()
	own := httptest.NewServer(serve.New(serve.Config{Ledger: l, Verifier: &auth.Verifier{Audience: "test", Now: time.Now, Replay: l}}))
	defer own.Close()
	for _, x := range []struct {
		name      string
		timelocks bool // only the client of a chain knows of them
	}{{chain.URL, true}, {"ws" + strings.TrimPrefix(chain.URL, "http"), true}, {own.URL, false}} {
		p, err := dial.Parse(x.name)
		if err != nil {
			t.Fatal(err)
		}
		z := dial.NewLazy(p, dial.Config{})
		m, err := z.Metagraph(t.Context(), 3)
		if err != nil || len(m.Neurons) != 1 {
			t.Errorf("%s: %v", x.name, err)
		}
		if _, err := z.SealWeights(t.Context(), m, ledgertest.Key(t, "owner"), ledger.Weights{}); !errors.Is(err, ledger.ErrNoTimelocks) {
			t.Errorf("%s: timelocks: %v", x.name, err)
		}
		full, stop, err := dial.Open(t.Context(), p, dial.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := full.(ledger.TimelockCommitter); ok != x.timelocks {
			t.Errorf("%s: opened as %T", x.name, full)
		}
		if err := errors.Join(stop(), z.Close(), z.Close()); err != nil {
			t.Error(err)
		}
	}
	// Nodes and their proxies refuse a GET in many ways, and some have a page for it.
	for _, answer := range []int{200, 400, 404, 405, 415, 426} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.WriteHeader(answer)
				_, _ = w.Write([]byte("used for JSON-RPC"))
				return
			}
			node.ServeHTTP(w, r)
		}))
		p, err := dial.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := dial.NewLazy(p, dial.Config{}).Metagraph(t.Context(), 3); err != nil || len(m.Neurons) != 1 {
			t.Errorf("a node that answers GET with %d: %v", answer, err)
		}
		s.Close()
	}
	dead := httptest.NewServer(nil)
	dead.Close()
	var e *agon.Error
	p, err := dial.Parse(dead.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := dial.Open(t.Context(), p, dial.Config{}); !errors.As(err, &e) || e.Fault != agon.FaultLedger {
		t.Errorf("nobody there: %v", err)
	}
}
