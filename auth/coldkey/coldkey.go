// Package coldkey opens coldkeys, which own funds. A validator, a platform or a
// gateway never needs one: none of them may import this package, and its Key is
// not an auth.Signer, so that it fits nowhere where a hotkey is expected.
package coldkey

import (
	"errors"
	"fmt"

	"github.com/agon-arena/agon/auth"
)

// Key is an open coldkey. It prints as its address.
type Key struct {
	key *auth.Key
}

// Open opens the coldkey of a wallet. ask is called for the password where the
// file is encrypted, and once only. The errors are those of auth.LoadKeyfile,
// and auth.ErrWrongPassword; a file that is not the coldkey of its
// coldkeypub.txt is refused.
func Open(w auth.Wallet, ask func(path string) (string, error)) (*Key, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	path := w.ColdkeyPath()
	b, err := auth.ReadKeyfile(path)
	if err != nil {
		return nil, err
	}
	f, err := auth.ParseKeyfile(b)
	if errors.Is(err, auth.ErrKeyfileEncrypted) {
		password, aerr := ask(path)
		if aerr != nil {
			return nil, fmt.Errorf("ask for the password of %s: %w", path, aerr)
		}
		if b, err = auth.DecryptKeyfile(b, password); err == nil {
			f, err = auth.ParseKeyfile(b)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, err)
	}
	if f.Key == nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, auth.ErrPublicOnly)
	}
	switch address, err := w.ColdkeyAddress(); {
	case errors.Is(err, auth.ErrKeyfileMissing):
	case err != nil:
		return nil, err
	case address != f.Address:
		return nil, fmt.Errorf("read keyfile %s: its address is %s, but %s says %s", path, f.Address, w.ColdkeyPubPath(), address)
	}
	return &Key{f.Key}, nil
}

// Address returns the coldkey's address, prefix 42.
func (k *Key) Address() string { return k.key.SS58() }

// SignTransaction signs the payload of one transaction.
func (k *Key) SignTransaction(payload []byte) ([]byte, error) { return k.key.Sign(payload) }

// String returns the address, so that no log shows the secret.
func (k *Key) String() string { return k.Address() }
