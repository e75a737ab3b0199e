//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// stranger is a server with an arena of stages, and Ridges' own programs around it.
type stranger struct {
	t            *testing.T
	dir, repo    string
	python, addr string
	server       *exec.Cmd
	keys         map[string][2]string // hotkey and coldkey, by wallet
	env          []string             // of the server
	typed        string               // into the command line
}

// script runs Python with Ridges' packages and returns the last line that it printed.
func (s *stranger) script(text string, args ...string) []byte {
	s.t.Helper()
	cmd := exec.Command(s.python, append([]string{"-c", text}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

// ledger runs a verb of agon ledger as the operator.
func (s *stranger) ledger(args ...string) {
	s.t.Helper()
	s.ledgerAs("operator", filepath.Join(s.dir, "data", "wallets"), args...)
}

// ledgerAs runs a verb of agon ledger with a wallet.
func (s *stranger) ledgerAs(wallet, path string, args ...string) {
	s.t.Helper()
	args = append(append([]string{"ledger"}, args...), "--url", "http://"+s.addr, "--wallet.name", wallet, "--wallet.path", path)
	if out, err := exec.Command(agonBinary(s.t), args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v %s", args, err, out)
	}
}

func (s *stranger) wallets() string { return filepath.Join(s.dir, "home", ".bittensor", "wallets") }

// register makes wallets with Ridges' or ORO's own library, keeps their addresses in
// keys, and registers them on a subnet of the server's ledger.
func (s *stranger) register(netuid string, miners, validators []string) {
	s.t.Helper()
	names, err := json.Marshal(slices.Concat(miners, validators))
	if err != nil {
		s.t.Fatal(err)
	}
	out := s.script(`
import json, sys
from bittensor_wallet import Wallet
out = {}
for name in json.loads(sys.argv[2]):
    w = Wallet(name=name, hotkey="default", path=sys.argv[1])
    w.create_new_coldkey(use_password=False, overwrite=True, suppress=True)
    w.create_new_hotkey(use_password=False, overwrite=True, suppress=True)
    out[name] = [w.hotkey.ss58_address, w.coldkeypub.ss58_address]
print(json.dumps(out))
`, s.wallets(), string(names))
	if err := json.Unmarshal(out, &s.keys); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	for name, k := range s.keys {
		args := []string{"register", "--netuid", netuid, "--hotkey", k[0], "--coldkey", k[1]}
		if slices.Contains(validators, name) {
			args = append(args, "--validator")
		}
		s.ledger(args...)
	}
}
