package auth

import (
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/oasisprotocol/curve25519-voi/primitives/sr25519"
	"github.com/tyler-smith/go-bip39"
)

// SignatureSize is the size of a signature in bytes, in both schemes.
const SignatureSize = 64

// signingContext is the context of every Substrate signature. It is cloned
// before each use and never changes.
var signingContext = sr25519.NewSigningContext([]byte("substrate"))

// Key is a key pair. It is immutable and safe for concurrent use; it prints as
// its address only.
type Key struct {
	scheme  Scheme
	sr      *sr25519.KeyPair   // scheme sr25519
	ed      ed25519.PrivateKey // scheme ed25519
	public  [32]byte
	address string
	// phrase and seed are what the key was made from, where known; a keyfile keeps them.
	phrase string
	seed   []byte
}

// NewKey makes an sr25519 key from a new mnemonic of 12 words, which Phrase returns.
func NewKey() (*Key, error) {
	entropy, err := bip39.NewEntropy(128)
	if err != nil {
		return nil, fmt.Errorf("read entropy: %w", err)
	}
	phrase, err := bip39.NewMnemonic(entropy)
	if err != nil {
		return nil, fmt.Errorf("make mnemonic: %w", err)
	}
	return KeyFromMnemonic(Sr25519, phrase, "")
}

// KeyFromMnemonic derives a key from 12, 15, 18, 21 or 24 English words the
// way substrate-bip39 does (PBKDF2 over the entropy, not over the words).
func KeyFromMnemonic(scheme Scheme, phrase, password string) (*Key, error) {
	seed, err := seedFromMnemonic(phrase, password)
	if err != nil {
		return nil, err
	}
	k, err := KeyFromSeed(scheme, seed)
	if err != nil {
		return nil, err
	}
	// With a password the words alone would give another key, so a keyfile must not offer them.
	if password == "" {
		k.phrase = phrase
	}
	return k, nil
}

func seedFromMnemonic(phrase, password string) ([]byte, error) {
	const maxPhrase = 24 * 9
	if len(phrase) > maxPhrase {
		return nil, fmt.Errorf("mnemonic of %d characters: at most %d", len(phrase), maxPhrase)
	}
	entropy, err := bip39.EntropyFromMnemonic(phrase)
	if err != nil {
		// The library's error may name words of the phrase.
		return nil, errors.New("mnemonic is not valid: want 12, 15, 18, 21 or 24 English words with a right checksum")
	}
	seed, err := pbkdf2.Key(sha512.New, string(entropy), []byte("mnemonic"+password), 2048, 64)
	if err != nil {
		return nil, fmt.Errorf("derive seed: %w", err)
	}
	return seed[:32], nil
}

// KeyFromSeed derives a key from a 32-byte mini-secret.
func KeyFromSeed(scheme Scheme, seed []byte) (*Key, error) {
	if len(seed) != 32 {
		return nil, fmt.Errorf("seed of %d bytes: want 32", len(seed))
	}
	var k *Key
	switch scheme {
	case Sr25519:
		mini, err := sr25519.NewMiniSecretKeyFromBytes(seed)
		if err != nil {
			return nil, errors.New("seed is not valid")
		}
		if k, err = keyFromSecret(mini.ExpandEd25519()); err != nil {
			return nil, err
		}
	case Ed25519:
		k = &Key{scheme: Ed25519, ed: ed25519.NewKeyFromSeed(seed)}
		copy(k.public[:], k.ed[32:])
		k.address = EncodeSS58(k.public)
	default:
		return nil, fmt.Errorf("scheme %d: want 0 (ed25519) or 1 (sr25519)", scheme)
	}
	k.seed = append([]byte(nil), seed...)
	return k, nil
}

// KeyFromPrivate makes an sr25519 key from the 64 bytes of a keyfile's
// privateKey: canonical scalar (not multiplied by the cofactor), then nonce.
func KeyFromPrivate(private []byte) (*Key, error) {
	if len(private) != sr25519.SecretKeySize {
		return nil, fmt.Errorf("private key of %d bytes: want %d", len(private), sr25519.SecretKeySize)
	}
	secret, err := sr25519.NewSecretKeyFromBytes(private)
	if err != nil {
		return nil, errors.New("private key is not a canonical sr25519 secret")
	}
	return keyFromSecret(secret)
}

func keyFromSecret(secret *sr25519.SecretKey) (*Key, error) {
	k := &Key{scheme: Sr25519, sr: secret.KeyPair()}
	pub, err := k.sr.PublicKey().MarshalBinary()
	if err != nil {
		return nil, errors.New("private key gives no public key")
	}
	copy(k.public[:], pub)
	if k.public == [32]byte{} {
		return nil, errors.New("private key is zero")
	}
	k.address = EncodeSS58(k.public)
	return k, nil
}

// Scheme returns the signature scheme.
func (k *Key) Scheme() Scheme { return k.scheme }

// SS58 returns the address with prefix 42.
func (k *Key) SS58() string { return k.address }

// Public returns the public key.
func (k *Key) Public() [32]byte { return k.public }

// PublicHex returns the public key as 64 hex digits without prefix.
func (k *Key) PublicHex() string { return hex.EncodeToString(k.public[:]) }

// Phrase returns the mnemonic that the key was made from, or "". Secret.
func (k *Key) Phrase() string { return k.phrase }

// Seed returns the mini-secret, or nil after a soft derivation or an import of
// a raw private key. Secret.
func (k *Key) Seed() []byte { return append([]byte(nil), k.seed...) }

// Private returns the 64 bytes that a keyfile stores: scalar and nonce for
// sr25519, seed and public key for ed25519. Secret.
func (k *Key) Private() ([]byte, error) {
	if k.scheme == Ed25519 {
		return append([]byte(nil), k.ed...), nil
	}
	return k.sr.SecretKey().MarshalBinary()
}

// Sign signs msg. An sr25519 signature is randomised: two of the same message differ.
func (k *Key) Sign(msg []byte) ([]byte, error) {
	if k.scheme == Ed25519 {
		return ed25519.Sign(k.ed, msg), nil
	}
	sig, err := k.sr.Sign(nil, signingContext.NewTranscriptBytes(msg))
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return sig.MarshalBinary()
}

// String returns the address, so that no log shows the secret.
func (k *Key) String() string { return k.address }

// GoString returns the address too.
func (k *Key) GoString() string { return "auth.Key(" + k.address + ")" }

// LogValue returns the address.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.address) }

// Verify checks an sr25519 signature over msg, or over <Bytes>msg</Bytes> as
// browser wallets sign it, by the owner of address (prefix 42). It returns
// ErrBadSignature when a well-formed signature does not hold.
func Verify(address string, msg, sig []byte) error {
	pub, err := ParseSS58(address)
	if err != nil {
		return err
	}
	return VerifyPublic(Sr25519, pub, msg, sig)
}

// VerifyPublic is Verify for a raw public key and either scheme.
func VerifyPublic(scheme Scheme, pub [32]byte, msg, sig []byte) error {
	check, err := verifier(scheme, pub, sig)
	if err != nil {
		return err
	}
	return checkEither(check, msg)
}

// checkEither checks msg, then msg as browser wallets sign it.
func checkEither(check func([]byte) bool, msg []byte) error {
	if check(msg) {
		return nil
	}
	wrapped := make([]byte, 0, len(msg)+15)
	wrapped = append(wrapped, "<Bytes>"...)
	wrapped = append(wrapped, msg...)
	wrapped = append(wrapped, "</Bytes>"...)
	if check(wrapped) {
		return nil
	}
	return ErrBadSignature
}

func verifier(scheme Scheme, pub [32]byte, sig []byte) (func([]byte) bool, error) {
	if len(sig) != SignatureSize {
		return nil, fmt.Errorf("signature of %d bytes: want %d", len(sig), SignatureSize)
	}
	switch scheme {
	case Sr25519:
		key, err := parsePublic(pub)
		if err != nil {
			return nil, err
		}
		return srVerifier(key, sig)
	case Ed25519:
		if pub == [32]byte{} {
			return nil, errZeroKey
		}
		return func(m []byte) bool { return ed25519.Verify(pub[:], m, sig) }, nil
	default:
		return nil, fmt.Errorf("scheme %d: want 0 (ed25519) or 1 (sr25519)", scheme)
	}
}

// Under the identity point anybody can sign: its secret is zero.
var errZeroKey = errors.New("public key is zero")

func parsePublic(pub [32]byte) (*sr25519.PublicKey, error) {
	if pub == [32]byte{} {
		return nil, errZeroKey
	}
	key, err := sr25519.NewPublicKeyFromBytes(pub[:])
	if err != nil {
		return nil, errors.New("public key is not a canonical sr25519 point")
	}
	return key, nil
}

// srVerifier checks sig, of SignatureSize bytes, over messages.
func srVerifier(key *sr25519.PublicKey, sig []byte) (func([]byte) bool, error) {
	s, err := sr25519.NewSignatureFromBytes(sig)
	if err != nil {
		return nil, errors.New("signature is not a canonical sr25519 signature")
	}
	return func(m []byte) bool { return key.Verify(signingContext.NewTranscriptBytes(m), s) }, nil
}
