//go:build interop

package interop

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
)

// localnet serves an embedded ledger with one subnet as a chain's node.
func localnet(t *testing.T, change func(*ledger.Hyperparameters)) (*local.Ledger, string) {
	t.Helper()
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h, err := local.Hyperparameters(local.PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&h)
	}
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold"), Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	s, err := rpc.New(rpc.Config{Ledger: l, Genesis: "interop", Replay: l, BlockTime: l.BlockTime()})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return l, "ws" + strings.TrimPrefix(srv.URL, "http")
}

// calls runs a script that makes calls and says what came of each.
func calls(t *testing.T, least int, python string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "NO_PROXY=*")
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, b, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	got := map[string]string{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for name, what := range got {
		if what != "ok" {
			t.Errorf("%s: %s", name, what)
		}
	}
	t.Logf("%d calls made: %s", len(got), lines[len(lines)-1])
	if len(got) < least {
		t.Errorf("%d calls were made, want %d", len(got), least)
	}
}

// TestSubtensor lets the SDK of version 10 make the calls of the field's validators and miners.
func TestSubtensor(t *testing.T) {
	_, url := localnet(t, nil)
	calls(t, 75, interoptest.Python(t, "sdk"), "subtensor.py", url)
}
