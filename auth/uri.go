package auth

import (
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"github.com/oasisprotocol/curve25519-voi/primitives/merlin"
	"github.com/oasisprotocol/curve25519-voi/primitives/sr25519"
	"golang.org/x/crypto/blake2b"
)

// DevPhrase is the well-known phrase that a URI without one stands for. Keys
// of it (//Alice) are public: for demos and tests only.
const DevPhrase = "bottom drive obey lake curtain smoke basket hold race lonely fit walk"

// Limits of a secret URI.
const (
	maxURI       = 1024
	maxJunctions = 32
)

type junction struct {
	hard bool
	code [32]byte
}

// KeyFromURI derives an sr25519 key from a secret URI:
// phrase//hard/soft///password. The phrase is a mnemonic or 0x and a 32-byte
// seed in hex; without one it is DevPhrase.
func KeyFromURI(uri string) (*Key, error) { return KeyFromSchemeURI(Sr25519, uri) }

// KeyFromSchemeURI is KeyFromURI for either scheme. Ed25519 has hard junctions only.
func KeyFromSchemeURI(scheme Scheme, uri string) (*Key, error) {
	phrase, path, password, err := parseURI(uri)
	if err != nil {
		return nil, err
	}
	var key *Key
	if seedHex, ok := strings.CutPrefix(phrase, "0x"); ok {
		if password != "" {
			return nil, errors.New("secret uri: a password goes with a mnemonic, not with a seed")
		}
		seed, err := hex.DecodeString(seedHex)
		if err != nil {
			return nil, errors.New("secret uri: seed is not hex")
		}
		if key, err = KeyFromSeed(scheme, seed); err != nil {
			return nil, err
		}
	} else {
		if phrase == "" {
			phrase = DevPhrase
		}
		if key, err = KeyFromMnemonic(scheme, phrase, password); err != nil {
			return nil, err
		}
	}
	for _, j := range path {
		if key, err = key.derive(j); err != nil {
			return nil, err
		}
	}
	return key, nil
}

func parseURI(uri string) (phrase string, path []junction, password string, err error) {
	if len(uri) > maxURI {
		return "", nil, "", fmt.Errorf("secret uri of %d bytes: at most %d", len(uri), maxURI)
	}
	rest, password, _ := strings.Cut(uri, "///")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return rest, nil, password, nil
	}
	phrase, rest = rest[:slash], rest[slash:]
	for rest != "" {
		if len(path) == maxJunctions {
			return "", nil, "", fmt.Errorf("secret uri: more than %d junctions", maxJunctions)
		}
		var j junction
		rest = rest[1:] // the slash that ended the last part
		if strings.HasPrefix(rest, "/") {
			j.hard, rest = true, rest[1:]
		}
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return "", nil, "", fmt.Errorf("secret uri: junction %d is empty", len(path)+1)
		}
		j.code = chainCode(rest[:end])
		path, rest = append(path, j), rest[end:]
	}
	return phrase, path, password, nil
}

// chainCode is SCALE of the junction, zero-padded to 32 bytes or hashed if
// longer. A decimal number is a u64, anything else a string.
func chainCode(name string) (code [32]byte) {
	var enc []byte
	// The reference parses numbers as Rust does, which allows one leading plus.
	if n, err := strconv.ParseUint(strings.TrimPrefix(name, "+"), 10, 64); err == nil {
		enc = binary.LittleEndian.AppendUint64(nil, n)
	} else {
		enc = append(compactLen(len(name)), name...)
	}
	if len(enc) > 32 {
		return blake2b.Sum256(enc)
	}
	copy(code[:], enc)
	return code
}

// compactLen is SCALE's compact form of a length below 2^14 (maxURI is far below).
func compactLen(n int) []byte {
	if n < 64 {
		return []byte{byte(n << 2)}
	}
	return binary.LittleEndian.AppendUint16(nil, uint16(n<<2|1))
}

func (k *Key) derive(j junction) (*Key, error) {
	if k.scheme == Ed25519 {
		if !j.hard {
			return nil, errors.New("secret uri: ed25519 has no soft junctions")
		}
		h := append(append(append(compactLen(11), "Ed25519HDKD"...), k.seed...), j.code[:]...)
		seed := blake2b.Sum256(h)
		return KeyFromSeed(Ed25519, seed[:])
	}
	private, err := k.Private()
	if err != nil {
		return nil, err
	}
	t := merlin.NewTranscript("SchnorrRistrettoHDKD")
	t.AppendMessage("sign-bytes", nil)
	t.AppendMessage("chain-code", j.code[:])
	if j.hard {
		var seed [32]byte
		t.AppendMessage("secret-key", private[:32])
		t.ExtractBytes(seed[:], "HDKD-hard")
		return KeyFromSeed(Sr25519, seed[:])
	}
	t.AppendMessage("public-key", k.public[:])
	var wide [64]byte
	t.ExtractBytes(wide[:], "HDKD-scalar")
	tweak, err := scalar.NewFromBytesModOrderWide(wide[:])
	if err != nil {
		return nil, errors.New("derive soft junction: challenge is not a scalar")
	}
	old, err := scalar.NewFromCanonicalBytes(private[:32])
	if err != nil {
		return nil, errors.New("derive soft junction: key is not a scalar")
	}
	sum := scalar.New().Add(old, tweak)
	next := make([]byte, sr25519.SecretKeySize)
	if err := sum.ToBytes(next[:32]); err != nil {
		return nil, errors.New("derive soft junction: sum is not a scalar")
	}
	// The nonce half is free (the reference draws it at random); derived from
	// the secret, the same URI gives the same keyfile.
	nonce := sha512.Sum512(append(append([]byte("agon-soft-nonce-v1"), private...), j.code[:]...))
	copy(next[32:], nonce[:32])
	return KeyFromPrivate(next)
}

// PolkadotPrivate returns the 64 bytes as polkadot-js stores them: the scalar times eight, then the nonce. Secret.
func (k *Key) PolkadotPrivate() ([]byte, error) {
	if k.scheme != Sr25519 {
		return nil, errors.New("polkadot form: key is not sr25519")
	}
	private, err := k.Private()
	if err != nil {
		return nil, err
	}
	n := new(big.Int).SetBytes(reversed(private[:32]))
	n.Lsh(n, 3)
	if n.BitLen() > 256 {
		return nil, errors.New("polkadot form: scalar does not fit")
	}
	copy(private[:32], reversed(n.FillBytes(make([]byte, 32))))
	return private, nil
}

// KeyFromPolkadotPrivate reads the form that PolkadotPrivate writes.
func KeyFromPolkadotPrivate(b []byte) (*Key, error) {
	if len(b) != sr25519.SecretKeySize {
		return nil, fmt.Errorf("private key of %d bytes: want %d", len(b), sr25519.SecretKeySize)
	}
	n := new(big.Int).SetBytes(reversed(b[:32]))
	if n.Bit(0)|n.Bit(1)|n.Bit(2) != 0 {
		return nil, errors.New("private key is not in the polkadot form")
	}
	n.Rsh(n, 3)
	out := append([]byte(nil), b...)
	copy(out[:32], reversed(n.FillBytes(make([]byte, 32))))
	return KeyFromPrivate(out)
}

func reversed(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		out[len(b)-1-i] = c
	}
	return out
}
