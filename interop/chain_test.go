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

	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/scale"
)

// TestChain lets the clients that the ecosystem uses read the embedded ledger
// as a chain's node and land extrinsics on it.
func TestChain(t *testing.T) {
	for name, command := range map[string][]string{
		"polkadot.js":         {"node", "chain.mjs", "URL", interoptest.File(t, "node")},
		"substrate-interface": {interoptest.Python(t, "wallet"), "chain.py", "URL"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: 500 * time.Millisecond, Keep: 64})
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
				Headers                              string
				Extrinsics                           int
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			if got.Chain != "agon" || got.Register != "ok" || got.Commit != "ok" || got.Again != "HotKeyAlreadyRegisteredInSubNet" || !got.Listed || got.Tempo == 0 {
				t.Errorf("%s", b)
			}
			if name == "polkadot.js" && (got.Headers != "ok" || got.Extrinsics != 3) {
				t.Errorf("headers: %s", b)
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

// TestPythonDecodes lets the Python SCALE package decode, by the metadata of
// runtime 424 as this program writes it, the calls that this program encodes.
func TestPythonDecodes(t *testing.T) {
	b, err := os.ReadFile("../ledger/scale/testdata/spec-424.scale")
	if err != nil {
		t.Fatal(err)
	}
	m, err := scale.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := rpc.New(rpc.Config{Ledger: l, Genesis: "interop", Replay: l, Metadata: b, SpecVersion: 424})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	alice := ledgertest.Key(t, "Alice")
	calls := []struct{ pallet, name, args, want string }{
		{"SubtensorModule", "set_weights", `{"netuid":3,"dests":[1,2,3],"weights":[100,65535,7],"version_key":0}`, `[3,[1,2,3],[100,65535,7],0]`},
		{"SubtensorModule", "set_mechanism_weights", `{"netuid":3,"mecid":1,"dests":[1],"weights":[100],"version_key":10001}`, `[3,1,[1],[100],10001]`},
		{"SubtensorModule", "batch_set_weights", `[[1,300],[[[1,65535],[300,5]],[]],[0,70000]]`, `[[1,300],[[[1,65535],[300,5]],[]],[0,70000]]`},
		{"SubtensorModule", "commit_timelocked_mechanism_weights", `{"netuid":3,"mecid":1,"commit":"0xdeadbeef","reveal_round":30668812,"commit_reveal_version":4}`, `[3,1,"0xdeadbeef",30668812,4]`},
		{"SubtensorModule", "reveal_weights", `[3,[1,2],[10,20],[5,6],7]`, `[3,[1,2],[10,20],[5,6],7]`},
		{"SubtensorModule", "register_limit", `[3,"` + alice + `",1000000000]`, `[3,"` + alice + `",1000000000]`},
		{"SubtensorModule", "add_stake_limit", `["` + alice + `",3,5,6,true]`, `["` + alice + `",3,5,6,true]`},
		{
			"Commitments", "set_commitment", `{"netuid":3,"info":{"fields":[{"TimelockEncrypted":{"encrypted":"0xdeadbeef","reveal_round":30668812}},"ResetBondsFlag"]}}`,
			`[3,{"fields":[{"TimelockEncrypted":{"encrypted":"0xdeadbeef","reveal_round":30668812}},"ResetBondsFlag"]}]`,
		},
		{"Balances", "transfer_keep_alive", `["` + alice + `",12345]`, `["` + alice + `",12345]`},
	}
	var in strings.Builder
	for _, x := range calls {
		args, err := scale.ParseJSON([]byte(x.args))
		if err != nil {
			t.Fatal(err)
		}
		call, err := m.EncodeCall(x.pallet, x.name, args)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "%x\n", call)
	}
	cmd := exec.CommandContext(t.Context(), interoptest.Python(t, "wallet"), "chain_decode.py", s.URL)
	cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(calls) {
		t.Fatalf("%d answers: %s", len(lines), out)
	}
	for i, x := range calls {
		var got struct {
			Function string `json:"call_function"`
			Module   string `json:"call_module"`
			Args     []struct {
				Value json.RawMessage `json:"value"`
			} `json:"call_args"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatalf("%v: %s", err, lines[i])
		}
		values := []json.RawMessage{}
		for _, a := range got.Args {
			values = append(values, a.Value)
		}
		b, err := json.Marshal(values)
		if err != nil || got.Function != x.name || got.Module != x.pallet || string(b) != x.want {
			t.Errorf("%s.%s is %s.%s %s, want %s: %v", x.pallet, x.name, got.Module, got.Function, b, x.want, err)
		}
	}
}
