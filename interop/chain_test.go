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
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
)

// TestChain lets the clients that the ecosystem uses read the embedded ledger
// as a chain's node and land extrinsics on it.
func TestChain(t *testing.T) {
	for name, command := range map[string][]string{
		"polkadot.js":         {"node", "chain.mjs", "URL", interoptest.File(t, "node")},
		"substrate-interface": {interoptest.Python(t, "wallet"), "chain.py", "URL"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}); err != nil {
				t.Fatal(err)
			}
			h, err := rpc.New(rpc.Config{Ledger: l, Genesis: "interop", Replay: l, BlockTime: l.BlockTime()})
			if err != nil {
				t.Fatal(err)
			}
			s := httptest.NewServer(h)
			defer s.Close()
			args := append([]string{}, command...)
			args[2] = "ws" + strings.TrimPrefix(s.URL, "http")
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Stderr = os.Stderr
			b, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			lines := strings.Split(strings.TrimSpace(string(b)), "\n")
			var got struct {
				Chain, Register, Commit, Again, Call string
				Tempo                                int
				Listed                               bool
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if got.Chain != "agon" || got.Register != "ok" || got.Commit != "ok" || got.Again != "HotKeyAlreadyRegisteredInSubNet" || !got.Listed || got.Tempo == 0 {
				t.Errorf("%s", b)
			}
			if got.Call != "0x070003000c0100020003000c6400ffff07000000000000000000" {
				t.Errorf("call %s", got.Call)
			}
			all, err := l.Commitments(t.Context(), 1)
			if err != nil || len(all) != 1 || string(all[0].Fields[0].Data) != "hello" {
				t.Errorf("commitments %+v %v", all, err)
			}
		})
	}
}
