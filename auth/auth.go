// Package auth holds keys, wallets and signed requests: sr25519 (and ed25519)
// key pairs in the forms of the Bittensor wallets, SS58 addresses, keyfiles,
// and agon's own request signature with its replay guard.
//
// No error and no printed form of this package carries key material.
package auth

import "errors"

// Sentinels that callers branch on.
var (
	// ErrBadSignature means that a well-formed signature does not hold.
	ErrBadSignature = errors.New("signature does not hold")
	// ErrKeyfileMissing means that there is no such keyfile.
	ErrKeyfileMissing = errors.New("keyfile does not exist")
	// ErrKeyfileExists means that a keyfile would have been overwritten.
	ErrKeyfileExists = errors.New("keyfile exists")
	// ErrKeyfileOpen means that others may read a secret keyfile.
	ErrKeyfileOpen = errors.New("keyfile is readable by others")
	// ErrKeyfileEncrypted means that a password is needed.
	ErrKeyfileEncrypted = errors.New("keyfile is encrypted")
	// ErrColdkey means that a coldkey was asked for where only hotkeys are loaded.
	ErrColdkey = errors.New("coldkeys are not loaded here")
	// ErrPublicOnly means that a keyfile holds an address but no secret.
	ErrPublicOnly = errors.New("keyfile holds no secret")
)

// Signer signs as one address. *Key is one; a signing agent may be another.
// Implementations are safe for concurrent use.
type Signer interface {
	// SS58 returns the address, prefix 42.
	SS58() string
	// Sign returns a 64-byte signature over msg.
	Sign(msg []byte) ([]byte, error)
}

// Scheme is a signature scheme.
type Scheme byte

// The schemes, with the numbers that keyfiles give them (cryptoType).
const (
	Ed25519 Scheme = 0
	Sr25519 Scheme = 1
)

func (s Scheme) String() string {
	switch s {
	case Ed25519:
		return "ed25519"
	case Sr25519:
		return "sr25519"
	default:
		return "unknown"
	}
}
