package coldkey

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
)

func wallet(t *testing.T) (auth.Wallet, *auth.Key) {
	k, err := auth.KeyFromURI("//Alice")
	if err != nil {
		t.Fatal(err)
	}
	return auth.Wallet{Path: filepath.Join(t.TempDir(), "w"), Name: "a", Hotkey: "h"}, k
}

func noPassword(string) (string, error) { return "", errors.New("asked for a password") }

func TestOpen(t *testing.T) {
	w, k := wallet(t)
	if _, err := Open(w, noPassword); !errors.Is(err, auth.ErrKeyfileMissing) {
		t.Errorf("missing: %v", err)
	}
	if err := w.CreateColdkey(k); err != nil {
		t.Fatal(err)
	}
	cold, err := Open(w, noPassword)
	if err != nil || cold.Address() != k.SS58() {
		t.Fatalf("%v %v", cold, err)
	}
	sig, err := cold.SignTransaction([]byte("payload"))
	if err != nil || auth.Verify(k.SS58(), []byte("payload"), sig) != nil {
		t.Errorf("signature: %v", err)
	}
	if s := fmt.Sprintf("%v %+v %s", cold, cold, cold); strings.Count(s, k.SS58()) != 3 || strings.Contains(s, "key:") {
		t.Errorf("prints as %s", s)
	}
	if err := os.Chmod(w.ColdkeyPath(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(w, noPassword); !errors.Is(err, auth.ErrKeyfileOpen) {
		t.Errorf("readable by others: %v", err)
	}
}

func TestOpenRefusesAnotherWalletsKey(t *testing.T) {
	w, k := wallet(t)
	if err := w.CreateColdkey(k); err != nil {
		t.Fatal(err)
	}
	bob, err := auth.KeyFromURI("//Bob")
	if err != nil {
		t.Fatal(err)
	}
	other := w
	other.Name = "b"
	if err := other.CreateColdkeyPub(bob.SS58()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.ColdkeyPath(), other.ColdkeyPath()); err != nil {
		t.Fatal(err)
	}
	if cold, err := Open(other, noPassword); err == nil {
		t.Errorf("opened %v", cold)
	}
}

func TestOpenAsks(t *testing.T) {
	w, k := wallet(t)
	if err := w.CreateColdkeyPub(k.SS58()); err != nil {
		t.Fatal(err)
	}
	// Half an encrypted file: the password is asked for, and no seconds are spent on it.
	if err := os.WriteFile(w.ColdkeyPath(), []byte("$NACLxxx"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(w, func(string) (string, error) { return "x", nil }); !errors.Is(err, auth.ErrWrongPassword) {
		t.Errorf("half a file: %v", err)
	}
	if _, err := Open(w, noPassword); err == nil || !strings.Contains(err.Error(), "asked for a password") {
		t.Errorf("nobody answers: %v", err)
	}
}

// A coldkey fits nowhere where a signer of requests is expected.
func TestNoSigner(t *testing.T) {
	if reflect.TypeFor[*Key]().Implements(reflect.TypeFor[auth.Signer]()) {
		t.Error("a coldkey is an auth.Signer")
	}
}

// Only commands for people open coldkeys.
func TestWhoImports(t *testing.T) {
	const module = "github.com/agon-arena/agon"
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for _, imp := range fields[1:] {
			if imp == module+"/auth/coldkey" && fields[0] != module+"/ui/cli" {
				t.Errorf("%s imports auth/coldkey", fields[0])
			}
		}
	}
}
