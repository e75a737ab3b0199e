package roles

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
)

// elsewhere is a ledger of another operator, which speaks as a chain's node.
func elsewhere(t *testing.T, netuid uint16) (*local.Ledger, string) {
	t.Helper()
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo})
	if err != nil {
		t.Fatal(err)
	}
	owner, err := auth.KeyFromURI("//owner")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EnsureSubnet(t.Context(), netuid, local.Subnet{OwnerHotkey: owner.SS58(), OwnerColdkey: owner.SS58()}); err != nil {
		t.Fatal(err)
	}
	h, err := rpc.New(rpc.Config{Ledger: l, Genesis: "elsewhere", Replay: l, Now: time.Now, BlockTime: l.BlockTime()})
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
	return l, "ws" + strings.TrimPrefix(s.URL, "http")
}

// Two arenas of one platform are on the same subnet number of two ledgers: the
// registrations of each come from its own, and so do the weights.
func TestTwoLedgers(t *testing.T) {
	dir := t.TempDir()
	there, url := elsewhere(t, 3)
	uids := map[string]uint16{}
	for _, name := range []string{"validator", "miner-repair", "miner-nop"} { // the llm sample's miner is not registered there
		p, err := kit.LoadParty(filepath.Join(dir, "wallets"), name)
		if err != nil {
			t.Fatal(err)
		}
		if uids[name], err = there.Register(t.Context(), 3, p.Hotkey.SS58(), p.Coldkey); err != nil {
			t.Fatal(err)
		}
		if name == "validator" {
			if err := there.SetValidator(t.Context(), 3, p.Hotkey.SS58(), true, demoStake); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := testOptions(dir)
	first := smallArena(t, "small/interval-merge")
	text, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "second.toml")
	if err := os.WriteFile(second, []byte(strings.Replace(string(text), `id = "test-coding"`, fmt.Sprintf("id = \"second\"\nledger = %q", url), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Once, o.Arenas = true, []string{first, second}
	var said []string
	o.Say = func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	ov, err := Up(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	entered := map[string]int{}
	for _, b := range ov.Arenas {
		entered[b.ID] = len(b.Submissions)
		if len(b.Weights) != 1 {
			t.Errorf("arena %s: weights %+v", b.ID, b.Weights)
		}
	}
	if entered["test-coding"] != 5 || entered["second"] != 2 || !strings.Contains(strings.Join(said, "\n"), "is not registered on subnet 3 of the ledger "+url) {
		t.Errorf("entered %v; said %q", entered, said)
	}
	m, err := there.Metagraph(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Weights) != 1 || m.Weights[0].UID != uids["validator"] || len(m.Weights[0].UIDs) != 1 || m.Weights[0].UIDs[0] != uids["miner-repair"] {
		t.Errorf("weights elsewhere %+v, uids %v", m.Weights, uids)
	}
}

// A ledger that an arena cannot have is one error that names the field.
func TestArenaLedger(t *testing.T) {
	for _, x := range []struct {
		ledger, want string // want: of the arena, or after ! of the error
	}{
		{"", ""},
		{"local", ""},
		{"finney", "finney"},
		{"test", "test"},
		{"http://127.0.0.1:9950", "http://127.0.0.1:9950"},
		{"wss://a.example:443,wss://b.example", "wss://a.example:443,wss://b.example"},
		{"ledger.db", `!ledger: "ledger.db" is neither`},
		{"ftp://a.example", "!ledger: "},
		{"ws://", "!ledger: "},
		{"http://user:secret@a.example", "!ledger: "},
		{strings.Repeat("ws://a.example,", 16) + "ws://a.example", "!ledger: 17 addresses"},
	} {
		f, err := kit.ParseArenaFile(fmt.Appendf(nil, "id = \"aa\"\nkind = \"claim\"\nsets = [\"small\"]\nledger = %q\n", x.ledger), kinds.All())
		if want, bad := strings.CutPrefix(x.want, "!"); bad {
			var e *agon.Error
			if !errors.As(err, &e) || len(e.Findings) != 1 || e.Findings[0].Field != "ledger" || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", x.ledger, err, want)
			}
			continue
		}
		if err != nil || f.Arena().Ledger != x.want {
			t.Errorf("%q: %q, %v", x.ledger, f.Arena().Ledger, err)
		}
	}
}

// A validator signs for the ledgers that its own operator named, and for no
// address that an arena made up.
func TestLedgersAreTrusted(t *testing.T) {
	key, err := auth.KeyFromURI("//v")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"AGON_LEDGER": "ws://own.example", "AGON_LEDGERS": "ws://a.example http://b.example"}
	w, err := validatorLedgers(kit.Options{Getenv: func(k string) string { return env[k] }}, "http://platform.example", key)
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"": true, "finney": true, "test": true, "ws://a.example": true, "http://b.example": true, "ws://own.example": true, "ws://evil.example": false, "ws://a.example,ws://evil.example": false} {
		_, err := w.open(name)
		var e *agon.Error
		if ok && err != nil || !ok && (!errors.As(err, &e) || e.Code != "ledger_not_trusted") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, k := range []string{"AGON_LEDGER", "AGON_LEDGERS"} {
		if _, err := validatorLedgers(kit.Options{Getenv: func(n string) string { return map[string]string{k: "nonsense"}[n] }}, "http://platform.example", key); err == nil || !strings.Contains(err.Error(), k+": ledger:") {
			t.Errorf("%s: %v", k, err)
		}
	}
}

// A ledger elsewhere that stops to answer is read as it was for a while, then not at all.
func TestForeignLedgerIsCached(t *testing.T) {
	there, url := elsewhere(t, 3)
	now := time.Now()
	f := newForeign(func() time.Time { return now })
	l := f.of(url)
	if _, err := l.Metagraph(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Metagraph(t.Context(), 4); !errors.Is(err, ledger.ErrSubnetNotExists) {
		t.Errorf("a subnet that is none: %v", err)
	}
	miner, err := auth.KeyFromURI("//m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := there.Register(t.Context(), 3, miner.SS58(), miner.SS58()); err != nil {
		t.Fatal(err)
	}
	registered := func() bool {
		t.Helper()
		_, ok, err := kit.Chain{Ledger: l}.Registered(t.Context(), 3, miner.SS58())
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if registered() {
		t.Error("it was read again at once")
	}
	now = now.Add(graphFresh)
	if !registered() {
		t.Error("it was not read again")
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	// Nobody is there any more.
	dead := httptest.NewServer(nil)
	dead.Close()
	gone := f.of("ws" + strings.TrimPrefix(dead.URL, "http"))
	gone.nets[3] = &snapshot{graph: l.nets[3].graph, at: now}
	now = now.Add(graphFresh)
	if _, err := gone.Metagraph(t.Context(), 3); err != nil {
		t.Errorf("a stale graph: %v", err)
	}
	now = now.Add(graphStale)
	var e *agon.Error
	if _, err := gone.Metagraph(t.Context(), 3); !errors.As(err, &e) || e.Fault != agon.FaultLedger {
		t.Errorf("too old: %v", err)
	}
}
