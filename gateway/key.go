package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon/auth"
)

// NewKey makes a key that signs receipts.
func NewKey() (*auth.Key, error) {
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("make gateway key: %w", err)
	}
	return auth.KeyFromSeed(auth.Ed25519, seed[:])
}

// LoadKey reads the gateway's key, 64 hex digits of seed, or makes it where
// there is none (0600; file and directory are synced before it is returned). It refuses a
// file that others may read.
func LoadKey(path string) (*auth.Key, error) {
	b, err := readSecret(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read gateway key: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(seed) != 32 {
		return nil, fmt.Errorf("read gateway key: %s does not hold 64 hex digits", path)
	}
	return auth.KeyFromSeed(auth.Ed25519, seed)
}

// maxSecret bounds a file of a secret in bytes.
const maxSecret = 4096

// readSecret reads a small regular file that only its owner may read.
func readSecret(path string) ([]byte, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s is readable by others (mode %04o, want 0600)", path, st.Mode().Perm())
	case st.Size() > maxSecret:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxSecret)
	}
	return os.ReadFile(path)
}

func makeKey(path string) (*auth.Key, error) {
	k, err := NewKey()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("store gateway key: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone after the rename
	_, err = f.WriteString(hex.EncodeToString(k.Seed()) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("store gateway key: %w", err)
	}
	// Link, not rename: of two that start at once one key stands.
	if err := os.Link(f.Name(), path); err != nil {
		if errors.Is(err, os.ErrExist) {
			return LoadKey(path)
		}
		return nil, fmt.Errorf("store gateway key: %w", err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("store gateway key: %w", err)
	}
	return k, errors.Join(d.Sync(), d.Close())
}
