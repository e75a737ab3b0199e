package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
)

// breaks is a node that takes a registration and can tell nothing of the subnet after it.
type breaks struct {
	*local.Ledger
	broken atomic.Bool
}

func (b *breaks) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	uid, err := b.Ledger.Register(ctx, netuid, hotkey, coldkey)
	b.broken.Store(err == nil)
	return uid, err
}

func (b *breaks) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	if b.broken.Load() {
		return nil, errors.New("the node's disk is gone")
	}
	return b.Ledger.Metagraph(ctx, netuid)
}

// A registration that is paid for is told with its receipt, also where the node
// fails right after it.
func TestReceiptOfAPaidRegistration(t *testing.T) {
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "cold")}); err != nil {
		t.Fatal(err)
	}
	node := &breaks{Ledger: l}
	h, err := rpc.New(rpc.Config{Ledger: node, Genesis: "receipt", Replay: l, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	home, _, _ := newApp(t)
	run := func(args ...string) (int, string, string) {
		a, out, errOut := newApp(t)
		a.Env = home.Env
		code := a.Main(t.Context(), args)
		return code, out.String(), errOut.String()
	}
	if code, _, errs := run("key", "new", "--wallet.hotkey", "val", "--save-coldkey"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := run("ledger", "register", "--wallet.hotkey", "val", "--netuid", "1", "--ledger", "ws"+strings.TrimPrefix(s.URL, "http"), "-o", "json")
	if code != 0 || !strings.Contains(errs, "it is done") {
		t.Fatalf("exit code %d, %s %s", code, out, errs)
	}
	var got struct {
		Netuid uint16
		Hotkey string
		Hash   string `json:"extrinsic_hash"`
		Events []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Netuid != 1 || got.Hotkey == "" || len(got.Hash) != 66 || len(got.Events) == 0 || got.Events[0].Name != "NeuronRegistered" {
		t.Errorf("receipt %s", out)
	}
}
