// Package timelock encrypts to a future round of the drand quicknet, in the
// layout that version 4 of the chain's commit-reveal reads. Who has the
// signature of the round opens it; nobody has it before the round.
package timelock

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"
	"time"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// The drand quicknet.
const (
	// ChainHash names the network in drand's HTTP API.
	ChainHash = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
	// Genesis is when round 1 is, in Unix seconds; Period is between rounds.
	Genesis = 1_692_803_367
	Period  = 3 * time.Second
	// Version is the commit-reveal version whose layout this is.
	Version = 4

	publicKeyHex = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a"
)

// Sizes in bytes.
const (
	MaxCiphertext = 5000 // what the chain takes as weights; a commitment's field has 1024
	Overhead      = 244  // what encryption adds
	MaxPlaintext  = MaxCiphertext - Overhead
	SignatureSize = 48
	pointSize     = 96
	nonceSize     = 12
	tagSize       = 16
)

const (
	suite = "AES_GCM_"
	dst   = "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
)

// Errors that callers branch on.
var (
	// ErrFormat is wrapped where bytes are not a ciphertext of this layout.
	ErrFormat = errors.New("no timelock ciphertext")
	// ErrSignature is wrapped where bytes are not a signature, or not the round's.
	ErrSignature = errors.New("no signature of the round")
	// ErrOpen is returned where the signature does not open the ciphertext.
	ErrOpen = errors.New("the signature does not open the ciphertext: it is of another round, or the ciphertext was changed")
)

// publicKey is quicknet's key.
var publicKey = sync.OnceValue(func() bls.G2Affine {
	b, err := hex.DecodeString(publicKeyHex)
	if err != nil {
		panic(err) // a constant
	}
	var p bls.G2Affine
	if _, err := p.SetBytes(b); err != nil {
		panic(err)
	}
	return p
})

// RoundAt is the round that is out at t, at least 1.
func RoundAt(t time.Time) uint64 {
	s := t.Unix() - Genesis
	if s < 3 {
		return 1
	}
	return uint64(s) / 3
}

// TimeOf is when a round comes out; of one that is further away than 2^40 rounds, when that comes out.
func TimeOf(round uint64) time.Time {
	round = min(round, 1<<40)
	return time.Unix(Genesis+int64(max(round, 1)-1)*3, 0).UTC()
}

func roundPoint(round uint64) (bls.G1Affine, error) {
	var be [8]byte
	binary.BigEndian.PutUint64(be[:], round)
	msg := sha256.Sum256(be[:])
	p, err := bls.HashToG1(msg[:], []byte(dst))
	if err != nil {
		return p, fmt.Errorf("hash round %d: %w", round, err)
	}
	return p, nil
}

// point1 reads a compressed point of G1. A point that is not on the curve, not in
// the subgroup, infinite or spelled otherwise is refused.
func point1(b []byte) (p bls.G1Affine, err error) {
	if len(b) != SignatureSize || b[0]&0x80 == 0 {
		return p, fmt.Errorf("%d bytes, want %d, compressed", len(b), SignatureSize)
	}
	if _, err := p.SetBytes(b); err != nil {
		return p, err
	}
	if again := p.Bytes(); p.IsInfinity() || subtle.ConstantTimeCompare(again[:], b) != 1 {
		return p, errors.New("point is infinite or not in its one form")
	}
	return p, nil
}

func point2(b []byte) (p bls.G2Affine, err error) {
	if len(b) != pointSize || b[0]&0x80 == 0 {
		return p, fmt.Errorf("%d bytes, want %d, compressed", len(b), pointSize)
	}
	if _, err := p.SetBytes(b); err != nil {
		return p, err
	}
	if again := p.Bytes(); p.IsInfinity() || subtle.ConstantTimeCompare(again[:], b) != 1 {
		return p, errors.New("point is infinite or not in its one form")
	}
	return p, nil
}

// Verify checks the signature of a round against quicknet's key.
func Verify(round uint64, signature []byte) error { return Key{}.Verify(round, signature) }

// Encrypt encrypts to a round of quicknet.
func Encrypt(random io.Reader, round uint64, plaintext []byte) ([]byte, error) {
	return Key{}.Encrypt(random, round, plaintext)
}

// Encrypt encrypts to a round, from 1. random is crypto/rand where nil.
func (k Key) Encrypt(random io.Reader, round uint64, plaintext []byte) ([]byte, error) {
	if len(plaintext) > MaxPlaintext {
		return nil, fmt.Errorf("encrypt %d bytes: at most %d", len(plaintext), MaxPlaintext)
	}
	if round == 0 {
		return nil, errors.New("encrypt to round 0: rounds begin with 1")
	}
	if random == nil {
		random = rand.Reader
	}
	var seed [32 + 32 + nonceSize]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return nil, fmt.Errorf("read entropy: %w", err)
	}
	key, sigma, nonce := seed[:32], seed[32:64], seed[64:]
	h, err := roundPoint(round)
	if err != nil {
		return nil, err
	}
	r := exponent(sigma, key)
	var rpk bls.G2Affine
	pk := k.get()
	rpk.ScalarMultiplication(&pk, r)
	gt, err := bls.Pair([]bls.G1Affine{h}, []bls.G2Affine{rpk})
	if err != nil {
		return nil, fmt.Errorf("encrypt to round %d: %w", round, err)
	}
	u := commitPoint(r)
	out := make([]byte, 0, len(plaintext)+Overhead)
	out = append(out, u[:]...)
	mask := sha256.Sum256(gtBytes(&gt))
	out = appendVec(out, xor(sigma, mask[:]))
	mask = sha256.Sum256(sigma)
	out = appendVec(out, xor(key, mask[:]))
	gcm, err := gcmOf(key)
	if err != nil {
		return nil, err
	}
	body := appendVec(nil, gcm.Seal(nil, nonce, plaintext, nil))
	out = appendVec(out, appendVec(body, nonce))
	return appendVec(out, []byte(suite)), nil
}

// Decrypt opens a ciphertext with the signature of its round. Nothing says
// which round that is: another's gives ErrOpen.
func Decrypt(ciphertext, signature []byte) ([]byte, error) {
	sig, err := point1(signature)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	c, err := parse(ciphertext)
	if err != nil {
		return nil, err
	}
	u, err := point2(c.u)
	if err != nil {
		return nil, fmt.Errorf("%w: point: %w", ErrFormat, err)
	}
	gt, err := bls.Pair([]bls.G1Affine{sig}, []bls.G2Affine{u})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	mask := sha256.Sum256(gtBytes(&gt))
	sigma := xor(c.v, mask[:])
	mask = sha256.Sum256(sigma)
	key := xor(c.w, mask[:])
	if again := commitPoint(exponent(sigma, key)); subtle.ConstantTimeCompare(again[:], c.u) != 1 {
		return nil, ErrOpen
	}
	gcm, err := gcmOf(key)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, c.nonce, c.sealed, nil)
	if err != nil {
		return nil, ErrOpen
	}
	return plain, nil
}

// Check reports whether b has the layout of a ciphertext; it opens nothing.
func Check(b []byte) error {
	c, err := parse(b)
	if err != nil {
		return err
	}
	if _, err := point2(c.u); err != nil {
		return fmt.Errorf("%w: point: %w", ErrFormat, err)
	}
	return nil
}

type parts struct{ u, v, w, sealed, nonce []byte }

func parse(b []byte) (c parts, err error) {
	if len(b) > MaxCiphertext {
		return c, fmt.Errorf("%w: %d bytes, at most %d", ErrFormat, len(b), MaxCiphertext)
	}
	if len(b) < Overhead {
		return c, fmt.Errorf("%w: %d bytes, at least %d", ErrFormat, len(b), Overhead)
	}
	c.u, b = b[:pointSize], b[pointSize:]
	take := func(what string, from *[]byte, size int) (v []byte) {
		if err != nil {
			return nil
		}
		var n uint64
		if len(*from) >= 8 {
			n = binary.LittleEndian.Uint64(*from)
		}
		if len(*from) < 8 || n > uint64(len(*from)-8) || size >= 0 && n != uint64(size) {
			err = fmt.Errorf("%w: length %d of %s", ErrFormat, n, what)
			return nil
		}
		v, *from = (*from)[8:8+n], (*from)[8+n:]
		return v
	}
	c.v = take("V", &b, 32)
	c.w = take("W", &b, 32)
	body := take("the body", &b, -1)
	name := take("the suite", &b, len(suite))
	c.sealed = take("the sealed text", &body, -1)
	c.nonce = take("the nonce", &body, nonceSize)
	switch {
	case err != nil:
	case len(b) > 0 || len(body) > 0:
		err = fmt.Errorf("%w: bytes are left over", ErrFormat)
	case len(c.sealed) < tagSize:
		err = fmt.Errorf("%w: a sealed text of %d bytes", ErrFormat, len(c.sealed))
	case string(name) != suite:
		err = fmt.Errorf("%w: suite %q", ErrFormat, name)
	}
	return c, err
}

// exponent is r = sha256(sigma ‖ key) modulo the order of the groups.
func exponent(sigma, key []byte) *big.Int {
	h := sha256.New()
	h.Write(sigma)
	h.Write(key)
	r := new(big.Int).SetBytes(h.Sum(nil))
	return r.Mod(r, fr.Modulus())
}

func commitPoint(r *big.Int) [pointSize]byte {
	_, _, _, g2 := bls.Generators()
	var u bls.G2Affine
	u.ScalarMultiplication(&g2, r)
	return u.Bytes()
}

// gtBytes writes an element of GT as arkworks does: its twelve coordinates, each little-endian.
func gtBytes(gt *bls.GT) []byte {
	out := make([]byte, 0, 12*fp.Bytes)
	for _, e := range []*fp.Element{
		&gt.C0.B0.A0, &gt.C0.B0.A1, &gt.C0.B1.A0, &gt.C0.B1.A1, &gt.C0.B2.A0, &gt.C0.B2.A1,
		&gt.C1.B0.A0, &gt.C1.B0.A1, &gt.C1.B1.A0, &gt.C1.B1.A1, &gt.C1.B2.A0, &gt.C1.B2.A1,
	} {
		b := e.Bytes()
		for i := range b {
			out = append(out, b[len(b)-1-i])
		}
	}
	return out
}

func gcmOf(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("open cipher: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("open cipher: %w", err)
	}
	return gcm, nil
}

func xor(a, b []byte) []byte {
	out := make([]byte, len(a))
	subtle.XORBytes(out, a, b)
	return out
}

func appendVec(b, v []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(v))), v...)
}
