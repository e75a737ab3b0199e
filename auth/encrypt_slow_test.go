//go:build !race

package auth

import (
	"encoding/hex"
	"errors"
	"os"
	"testing"
)

// The derivation takes 512 MiB and seconds, so it is done once, and not under
// the race detector, where it would take most of the suite's time.
func TestNaClDerivation(t *testing.T) {
	if got := hex.EncodeToString(naclKey(vectorPassword)[:]); got != vectorKey {
		t.Errorf("key %s", got)
	}
}

// TestEncryptedColdkey needs three derivations; AGON_SLOW_TESTS=1 asks for it.
func TestEncryptedColdkey(t *testing.T) {
	if os.Getenv("AGON_SLOW_TESTS") == "" {
		t.Skip("NOT RUN: three derivations of 512 MiB; set AGON_SLOW_TESTS=1")
	}
	w, k := testWallet(t), mustURI(t, "//Alice")
	if err := w.CreateEncryptedColdkey(k, "grün"); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyfile(w.ColdkeyPath()); !errors.Is(err, ErrKeyfileEncrypted) {
		t.Errorf("without a password: %v", err)
	}
	if back, err := LoadEncryptedKeyfile(w.ColdkeyPath(), "grün"); err != nil || back.SS58() != k.SS58() {
		t.Errorf("with it: %v %v", back, err)
	}
	if _, err := LoadEncryptedKeyfile(w.ColdkeyPath(), "gruen"); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("with another: %v", err)
	}
}
