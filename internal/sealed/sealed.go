// Package sealed keeps secrets that others leave with a server: encrypted on disk by a
// key of the server's own (AES-256-GCM), each bound to what it is for.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Key is a server's own secret, 32 bytes.
type Key []byte

// MaxSecret bounds a secret, in bytes.
const MaxSecret = 4 << 10

// Open reads the key in dir, or makes it; its file is the owner's alone.
func Open(dir string) (Key, error) {
	path := filepath.Join(dir, "secret")
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 32 {
		return b, nil
	}
	if err == nil {
		return nil, fmt.Errorf("read %s: it is not whole", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	b = make([]byte, 32)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	return b, errors.Join(err, f.Sync(), f.Close())
}

// Clean trims what somebody gave as a secret; ok is false where it cannot be one.
func Clean(secret string) (clean string, ok bool) {
	clean = strings.TrimSpace(secret)
	return clean, clean != "" && len(clean) <= MaxSecret && !strings.ContainsFunc(clean, func(r rune) bool { return r < ' ' || r > '~' })
}

func (k Key) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal encrypts a secret; only Unseal with the same use reads it again.
func (k Key) Seal(secret, use string) ([]byte, error) {
	x, err := k.aead()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, x.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return x.Seal(nonce, nonce, []byte(secret), []byte(use)), nil
}

// Unseal reads what Seal made. Bytes of another key or use are an error.
func (k Key) Unseal(sealed []byte, use string) (string, error) {
	x, err := k.aead()
	if err != nil {
		return "", err
	}
	if len(sealed) < x.NonceSize() {
		return "", errors.New("a sealed secret is not whole")
	}
	out, err := x.Open(nil, sealed[:x.NonceSize()], sealed[x.NonceSize():], []byte(use))
	return string(out), err
}
