package timelock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Key is the public key of a network that signs rounds. The zero value is quicknet's.
type Key struct {
	point *bls.G2Affine
}

// String is the key in hex.
func (k Key) String() string {
	p := k.get()
	b := p.Bytes()
	return hex.EncodeToString(b[:])
}

func (k Key) get() bls.G2Affine {
	if k.point == nil {
		return publicKey()
	}
	return *k.point
}

// Verify checks the signature of a round against the key.
func (k Key) Verify(round uint64, signature []byte) error {
	sig, err := point1(signature)
	if err != nil {
		return fmt.Errorf("%w %d: %w", ErrSignature, round, err)
	}
	h, err := roundPoint(round)
	if err != nil {
		return err
	}
	_, _, _, g2 := bls.Generators()
	h.Neg(&h)
	ok, err := bls.PairingCheck([]bls.G1Affine{sig, h}, []bls.G2Affine{g2, k.get()})
	if err != nil {
		return fmt.Errorf("check signature of round %d: %w", round, err)
	}
	if !ok {
		return fmt.Errorf("%w %d", ErrSignature, round)
	}
	return nil
}

// Beacon signs rounds with a secret of its own, by quicknet's scheme and clock:
// a network of one, for ledgers that ask no other.
type Beacon struct {
	secret *big.Int
	key    Key
}

// NewBeacon makes the beacon of a seed. Who knows the seed opens every round.
func NewBeacon(seed []byte) *Beacon {
	h := sha256.Sum256(append([]byte("agon-beacon-v1 "), seed...))
	secret := new(big.Int).SetBytes(h[:])
	secret.Mod(secret, fr.Modulus()) // 0 has the odds of 2^-254
	_, _, _, g2 := bls.Generators()
	p := new(bls.G2Affine).ScalarMultiplication(&g2, secret)
	return &Beacon{secret: secret, key: Key{point: p}}
}

// Key is what the beacon's rounds are checked and sealed with.
func (b *Beacon) Key() Key { return b.key }

// Signature signs a round, whether it is out or not.
func (b *Beacon) Signature(_ context.Context, round uint64) ([]byte, error) {
	h, err := roundPoint(round)
	if err != nil {
		return nil, err
	}
	h.ScalarMultiplication(&h, b.secret)
	sig := h.Bytes()
	return sig[:], nil
}
