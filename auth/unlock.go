package auth

import (
	"errors"
	"fmt"
	"sync"
)

// Unlocker opens secret keyfiles, each at most once in a process: the NaCl form
// takes seconds and 512 MiB. It opens one file at a time, and is safe for
// concurrent use.
type Unlocker struct {
	// Getenv finds passwords as the wallet tools leave them (PasswordVariable); nil = no environment.
	Getenv func(string) string
	// Ask asks a person for the password of a file; nil = nobody is there.
	Ask func(path string) (string, error)

	mu   sync.Mutex
	open map[string]*Key // guarded by mu; by path
}

// Key returns the key of the keyfile at path (absolute). A plain file needs no
// password. The errors are those of LoadKeyfile, and ErrWrongPassword.
func (u *Unlocker) Key(path string) (*Key, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k := u.open[path]; k != nil {
		return k, nil
	}
	key, err := LoadKeyfile(path)
	if errors.Is(err, ErrKeyfileEncrypted) {
		var password string
		if password, err = u.password(path, err); err == nil {
			key, err = LoadEncryptedKeyfile(path, password)
		}
	}
	if err != nil {
		return nil, err
	}
	if u.open == nil {
		u.open = map[string]*Key{}
	}
	u.open[path] = key
	return key, nil
}

// password finds a password; locked is the error for when there is none.
func (u *Unlocker) password(path string, locked error) (string, error) {
	if u.Getenv != nil {
		password, ok, err := PasswordFromEnv(u.Getenv, path)
		if ok || err != nil {
			return password, err
		}
	}
	if u.Ask == nil {
		return "", locked
	}
	password, err := u.Ask(path)
	if err != nil {
		return "", fmt.Errorf("ask for the password of %s: %w", path, err)
	}
	return password, nil
}
