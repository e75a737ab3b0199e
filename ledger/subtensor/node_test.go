package subtensor_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/scale"
)

// chainMetadata is the real metadata of a runtime of the chain.
func chainMetadata(t testing.TB, spec uint32) []byte {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("../scale/testdata/spec-%d.scale", spec))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// newLedger is a stepped ledger with one subnet.
func newLedger(t testing.TB) *local.Ledger {
	t.Helper()
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	owner := local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}
	if err := l.EnsureSubnet(t.Context(), netuid, owner); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// node is a chain's node in the form of a real runtime: its pallets, indexes,
// types, hashers and extensions, over a ledger.
type node struct {
	*rpc.Server
	meta *scale.Metadata
	http *httptest.Server
}

// newNode makes a node; spec 0 is the embedded ledger's own form. replay is the
// ledger that keeps extrinsics from being taken twice.
func newNode(t testing.TB, l ledger.Full, replay *local.Ledger, spec uint32) *node {
	t.Helper()
	if spec == 0 {
		return nodeOf(t, l, replay, nil, 0)
	}
	return nodeOf(t, l, replay, chainMetadata(t, spec), spec)
}

// nodeOf makes a node in the form that metadata says.
func nodeOf(t testing.TB, l ledger.Full, replay *local.Ledger, metadata []byte, spec uint32) *node {
	t.Helper()
	cfg := rpc.Config{Ledger: l, Genesis: "test", Replay: replay, Now: time.Now, Poll: 5 * time.Millisecond}
	n := &node{}
	if metadata != nil {
		cfg.Metadata, cfg.SpecVersion = metadata, spec
		var err error
		if n.meta, err = scale.Decode(cfg.Metadata); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if n.Server, err = rpc.New(cfg); err != nil {
		t.Fatal(err)
	}
	n.http = httptest.NewServer(n.Server)
	t.Cleanup(n.http.Close)
	return n
}
