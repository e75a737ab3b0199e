//go:build !race

package auth

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The derivation takes 512 MiB and seconds, so it is done once, and not under
// the race detector, where it would take most of the suite's time.
func TestNaClDerivation(t *testing.T) {
	if got := hex.EncodeToString(naclKey(vectorPassword)[:]); got != vectorKey {
		t.Errorf("key %s", got)
	}
}

// TestEncryptedKeyfile needs three derivations; AGON_SLOW_TESTS=1 asks for it.
func TestEncryptedKeyfile(t *testing.T) {
	if os.Getenv("AGON_SLOW_TESTS") == "" {
		t.Skip("NOT RUN: three derivations of 512 MiB; set AGON_SLOW_TESTS=1")
	}
	w, k := testWallet(t), mustURI(t, "//Alice")
	if err := w.CreateEncryptedColdkey(k, "grün"); err != nil {
		t.Fatal(err)
	}
	// The same bytes as a hotkey: those may be encrypted too.
	if err := os.MkdirAll(filepath.Dir(w.HotkeyPath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.ColdkeyPath(), w.HotkeyPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.LoadHotkey(); !errors.Is(err, ErrKeyfileEncrypted) {
		t.Errorf("without a password: %v", err)
	}
	asked := 0
	u := &Unlocker{Ask: func(string) (string, error) { asked++; return "grün", nil }}
	for range 2 {
		if back, err := u.Key(w.HotkeyPath()); err != nil || back.SS58() != k.SS58() || asked != 1 {
			t.Errorf("with it: %v %v, asked %d times", back, err, asked)
		}
	}
	if _, err := LoadEncryptedKeyfile(w.HotkeyPath(), "gruen"); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("with another: %v", err)
	}
}
