package auth

import (
	"fmt"
	"sync"

	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// readyOptions make the library accept what crypto/ed25519 accepts, no more.
var readyOptions = &ed25519.Options{Verify: ed25519.VerifyOptionsStdLib}

// maxReady bounds the keys that a Ready keeps.
const maxReady = 64

// Ready checks ed25519 signatures of few signers, many times: it keeps a table
// of each signer's key, with which a check costs half of what VerifyPublic
// takes. It accepts what VerifyPublic accepts. The zero value is ready to use,
// by many at once.
type Ready struct {
	mu   sync.Mutex
	keys map[string]*readyKey // guarded by mu, by address; at most maxReady
}

type readyKey struct {
	pub   [32]byte
	table *ed25519.ExpandedPublicKey
}

// Verify checks that the owner of the ed25519 key at address signed msg. It
// returns ErrBadSignature when a well-formed signature does not hold.
func (r *Ready) Verify(address string, msg, sig []byte) error {
	k, err := r.key(address)
	if err != nil {
		return err
	}
	if len(sig) == SignatureSize && ed25519.VerifyExpandedWithOptions(k.table, msg, sig, readyOptions) {
		return nil
	}
	return VerifyPublic(Ed25519, k.pub, msg, sig) // it names what is wrong, and knows what wallets sign
}

func (r *Ready) key(address string) (*readyKey, error) {
	r.mu.Lock()
	k := r.keys[address]
	r.mu.Unlock()
	if k != nil {
		return k, nil
	}
	pub, err := ParseSS58(address)
	if err != nil {
		return nil, err
	}
	if pub == [32]byte{} {
		return nil, errZeroKey
	}
	table, err := ed25519.NewExpandedPublicKey(pub[:])
	if err != nil {
		return nil, fmt.Errorf("expand key %s: %w", address, err)
	}
	k = &readyKey{pub, table}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil || len(r.keys) >= maxReady {
		r.keys = map[string]*readyKey{} // rare: an arena has one key
	}
	r.keys[address] = k
	return k, nil
}
