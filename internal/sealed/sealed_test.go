package sealed

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A secret comes back for its own use only, by the key of its own folder, which a
// restart finds again; and it does not stand in what is written.
func TestSealed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of", "mine")
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "sk-or-canary-of-a-miner"
	b, err := k.Seal(secret, "miner openrouter")
	if err != nil || bytes.Contains(b, []byte("canary")) {
		t.Fatalf("%q %v", b, err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Unseal(b, "miner openrouter"); err != nil || got != secret {
		t.Errorf("%q %v", got, err)
	}
	other, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() (string, error){
		"another use": func() (string, error) { return k.Unseal(b, "miner chutes") },
		"another key": func() (string, error) { return other.Unseal(b, "miner openrouter") },
		"a byte changed": func() (string, error) {
			return k.Unseal(append(bytes.Clone(b[:len(b)-1]), ^b[len(b)-1]), "miner openrouter")
		},
		"cut short":       func() (string, error) { return k.Unseal(b[:5], "miner openrouter") },
		"nothing written": func() (string, error) { return k.Unseal(nil, "") },
	} {
		if got, err := f(); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "secret")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("half a key was taken")
	}
	for _, bad := range []string{"", " \n", "a\nb", "ключ", strings.Repeat("x", MaxSecret+1)} {
		if _, ok := Clean(bad); ok {
			t.Errorf("%.20q passes as a secret", bad)
		}
	}
	if got, ok := Clean("  sk \n"); !ok || got != "sk" {
		t.Errorf("%q %v", got, ok)
	}
}
