//go:build interop

package interop

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/timelock"
)

// localnet serves an embedded ledger with one subnet as a chain's node.
func localnet(t *testing.T, change func(*ledger.Hyperparameters)) (*local.Ledger, string) {
	t.Helper()
	return localnetOf(t, 250*time.Millisecond, timelock.Key{}, 0, change)
}

// pooled is how many rao of TAO, and of alpha, a subnet's pool begins with.
const pooled = 1_000_000 * 1_000_000_000

// localnetOf is one with a block time, whose rounds are signed with a key, and a subnet with a pool, if it is not 0.
func localnetOf(t *testing.T, blockTime time.Duration, drand timelock.Key, pool uint64, change func(*ledger.Hyperparameters)) (*local.Ledger, string) {
	t.Helper()
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: blockTime, Keep: 256, Drand: drand})
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
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold"), Hyper: &h, Pool: pool, Moving: min(pool, 1_000_000_000)}); err != nil {
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

// TestSubtensor lets the SDK of version 10 make the calls of the field's validators and
// miners, on a subnet whose stake is TAO and on one with a pool.
func TestSubtensor(t *testing.T) { ofSubtensor(t, "sdk", 100, 0) }

func TestSubtensorPool(t *testing.T) { ofSubtensor(t, "sdk", 100, pooled) }

// TestSubtensor9 lets the SDK of version 9.12 make the same calls.
func TestSubtensor9(t *testing.T) { ofSubtensor(t, "sdk9", 72, 0) }

func TestSubtensor9Pool(t *testing.T) { ofSubtensor(t, "sdk9", 72, pooled) }

// TestSubtensor101 lets the SDK of version 10.1, with which ORO's validator is written, make them.
func TestSubtensor101(t *testing.T) { ofSubtensor(t, "sdk101", 98, 0) }

func TestSubtensor101Pool(t *testing.T) { ofSubtensor(t, "sdk101", 98, pooled) }

func ofSubtensor(t *testing.T, env string, least int, pool uint64) {
	t.Helper()
	l, url := localnetOf(t, 250*time.Millisecond, timelock.Key{}, pool, nil)
	args := []string{"subtensor.py", url}
	if pool > 0 {
		args = append(args, "pool")
	}
	if err := l.SetRule(t.Context(), 1, ledgertest.Key(t, "owner-cold"), "mechanism_count", 2); err != nil {
		t.Fatal(err)
	}
	// Of drand's rounds the ledger can have one: it is asked for when something waits for it.
	go l.FollowRounds(t.Context(), 100*time.Millisecond, func(_ context.Context, round uint64) ([]byte, error) {
		if round != 1000 {
			return nil, errors.New("no such round here")
		}
		return hex.DecodeString("b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39")
	}, slog.New(slog.DiscardHandler))
	calls(t, least, interoptest.Python(t, env), args...)
}

// TestSubtensor11 lets the SDK of version 11 do the same, and sign requests as
// btauth/1: it calls our verifier, and checks what we sign.
func TestSubtensor11(t *testing.T) { ofSubtensor11(t, 0) }

func TestSubtensor11Pool(t *testing.T) { ofSubtensor11(t, pooled) }

func ofSubtensor11(t *testing.T, pool uint64) {
	t.Helper()
	l, url := localnetOf(t, 250*time.Millisecond, timelock.Key{}, pool, nil)
	h, err := local.Hyperparameters(local.PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.CommitReveal = true
	owner := ledgertest.Key(t, "owner")
	if err := l.EnsureSubnet(t.Context(), 2, local.Subnet{OwnerHotkey: owner, OwnerColdkey: ledgertest.Key(t, "owner-cold"), Hyper: &h, Pool: pool, Moving: min(pool, 1_000_000_000)}); err != nil {
		t.Fatal(err)
	}
	self := key(t, auth.Sr25519, "//receiver")
	v := &dialect.Verifier{Now: time.Now, Replay: auth.NewMemoryReplay(time.Now), Strict: true, Dialects: []dialect.Dialect{dialect.BTAuth{Self: self.SS58()}}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		if r.URL.Path == "/sign" {
			signed, err := dialect.SignBTAuth(key(t, auth.Sr25519, "//owner"), "POST", "/x", []byte("body"), string(body), time.Now())
			if err != nil {
				t.Error(err)
			}
			out := map[string]string{}
			for name := range signed {
				out[name] = signed.Get(name)
			}
			if err := json.NewEncoder(w).Encode(out); err != nil {
				t.Error(err)
			}
			return
		}
		if _, refusal := v.Verify(r.Context(), dialect.NewRequest(r, body), dialect.Need{}); refusal != nil {
			if err := refusal.Write(w); err != nil {
				t.Error(err)
			}
		}
	}))
	defer srv.Close()
	args, least := []string{"subtensor11.py", url, srv.URL, self.SS58()}, 46
	if pool > 0 {
		args, least = append(args, "pool"), 68
	}
	calls(t, least, interoptest.Python(t, "sdk11"), args...)
	// What the SDK sealed is for the ledger to open, with the owner's weights.
	waiting, err := l.Timelocked(t.Context(), 2)
	if err != nil || len(waiting) != 1 || waiting[0].Hotkey != owner || waiting[0].RevealRound <= timelock.RoundAt(time.Now().Add(-time.Minute)) || timelock.Check(waiting[0].Data) != nil {
		t.Errorf("timelocked weights %+v: %v", waiting, err)
	}
}

// TestGSRPC lets the Go client that the Substrate world uses read, sign and send. It is built from the module proxy.
func TestGSRPC(t *testing.T) {
	_, url := localnet(t, nil)
	bin := filepath.Join(t.TempDir(), "gsrpc")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	build.Dir = "gsrpc"
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	calls(t, 8, bin, url)
}

// TestBTCLI runs the commands of btcli that a miner and a validator begin with.
func TestBTCLI(t *testing.T) { ofBTCLI(t, 0) }

func TestBTCLIPool(t *testing.T) { ofBTCLI(t, pooled) }

func ofBTCLI(t *testing.T, pool uint64) {
	t.Helper()
	_, url := localnetOf(t, 250*time.Millisecond, timelock.Key{}, pool, nil)
	calls(t, 9, interoptest.Python(t, "btcli"), "btcli.py", interoptest.File(t, "btcli", "bin", "btcli"), url)
}
