//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
)

// TestSubtensorEconomy lets the SDK of version 10 stake, move, swap, name children
// and claim on a ledger whose subnets have pools.
func TestSubtensorEconomy(t *testing.T) {
	ctx := t.Context()
	l, err := local.Open(ctx, filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: 250 * time.Millisecond, Keep: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const tao = 1_000_000_000
	for i, name := range []string{"//Alice", "//Bob", "//Charlie", "//Dave", "//Eve", "//Ferdie"} {
		hot, cold := key(t, auth.Sr25519, name+"//hot").SS58(), key(t, auth.Sr25519, name).SS58()
		if err := l.Fund(ctx, cold, 100_000*tao); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			for n := uint16(1); n <= 2; n++ {
				if err := l.EnsureSubnet(ctx, n, local.Subnet{OwnerHotkey: hot, OwnerColdkey: cold, Pool: 1_000_000 * tao, Moving: tao}); err != nil {
					t.Fatal(err)
				}
			}
		} else if _, err := l.Register(ctx, 1, hot, cold); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := l.AddStake(ctx, 1, hot, cold, 10_000*tao); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := rpc.New(rpc.Config{Ledger: l, Genesis: "interop", Replay: l, BlockTime: l.BlockTime()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	calls(t, 25, interoptest.Python(t, "sdk"), "economy.py", "ws"+strings.TrimPrefix(srv.URL, "http"))
}

// TestMetagraphTime says how long the SDK of version 10 takes for a full metagraph of
// 256 neurons, 64 of which weigh all: asking, answering, decoding and its own work.
func TestMetagraphTime(t *testing.T) {
	ctx := t.Context()
	l, url := localnet(t, func(h *ledger.Hyperparameters) { h.Tempo, h.WeightsRateLimit = 50_000, 0 })
	all := ledger.Weights{UIDs: []uint16{0}, Values: []uint16{1}}
	for i := 1; i < 256; i++ {
		if _, err := l.Register(ctx, 1, ledgertest.Key(t, fmt.Sprint(i)), ledgertest.Key(t, "cold")); err != nil {
			t.Fatal(err)
		}
		all.UIDs, all.Values = append(all.UIDs, uint16(i)), append(all.Values, uint16(i*251))
	}
	for i := 1; i <= 64; i++ {
		hotkey := ledgertest.Key(t, fmt.Sprint(i))
		if err := l.SetValidator(ctx, 1, hotkey, true, uint64(i)*1_000_000_000); err != nil {
			t.Fatal(err)
		}
		if err := l.SetWeights(ctx, 1, hotkey, all); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, interoptest.Python(t, "sdk"), "metagraph.py", url)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=*")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Median, Least, CPU float64 }
	if err := json.Unmarshal(out, &got); err != nil || got.Median <= 0 {
		t.Fatalf("%s: %v", out, err)
	}
	t.Logf("SDK 10.5: a full metagraph of 256 in %.1f ms at the median, %.1f ms at the least, of which the SDK itself works %.1f ms (asked: 20 ms)", got.Median, got.Least, got.CPU)
}
