package auth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
)

// Ready and VerifyPublic agree on everything, also on what a hostile signer
// makes of small orders, odd encodings and numbers beyond the group's order.
func TestReady(t *testing.T) {
	k, err := KeyFromSeed(Ed25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	msg := []byte("hello arena")
	sig, err := k.Sign(msg)
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := k.Sign([]byte("<Bytes>hello arena</Bytes>"))
	if err != nil {
		t.Fatal(err)
	}
	var r Ready
	for range 2 { // the second time with the table that was kept
		if err := r.Verify(k.SS58(), msg, sig); err != nil {
			t.Error(err)
		}
		if err := r.Verify(k.SS58(), msg, wrapped); err != nil {
			t.Error("as wallets sign it:", err)
		}
		if err := r.Verify(k.SS58(), []byte("hello arenb"), sig); !errors.Is(err, ErrBadSignature) {
			t.Error("another text:", err)
		}
		if err := r.Verify(k.SS58(), msg, sig[:63]); err == nil {
			t.Error("a short signature")
		}
	}
	if err := r.Verify("5x", msg, sig); err == nil {
		t.Error("no address")
	}
	if err := r.Verify(EncodeSS58([32]byte{}), msg, sig); err == nil {
		t.Error("the zero key")
	}

	order, _ := hex.DecodeString("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010")
	points := [][]byte{k.public[:], sig[:32], bytes.Repeat([]byte{0xff}, 32)}
	for _, p := range []string{ // of small order, two of them in odd encodings
		"0100000000000000000000000000000000000000000000000000000000000000", "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0000000000000000000000000000000000000000000000000000000000000000", "0000000000000000000000000000000000000000000000000000000000000080",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "0100000000000000000000000000000000000000000000000000000000000080",
	} {
		b, err := hex.DecodeString(p)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, b)
	}
	numbers := [][]byte{sig[32:], make([]byte, 32), order, bytes.Repeat([]byte{0xff}, 32)}
	accepted := 0
	for _, pub := range points {
		for _, at := range points {
			for _, s := range numbers {
				for n := range 4 { // the challenge depends on the text: small orders pass for some
					text := fmt.Appendf(nil, "text %d", n)
					forged := append(bytes.Clone(at), s...)
					want := VerifyPublic(Ed25519, [32]byte(pub), text, forged)
					got := r.Verify(EncodeSS58([32]byte(pub)), text, forged)
					if (want == nil) != (got == nil) {
						t.Errorf("key %x, signature %x, text %q: %v, VerifyPublic %v", pub, forged, text, got, want)
					}
					if got == nil {
						accepted++
					}
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("no edge case is accepted by either: the comparison compares nothing")
	}
	if len(r.keys) > maxReady {
		t.Errorf("%d keys are kept", len(r.keys))
	}
	for i := range maxReady + 1 {
		_ = r.Verify(EncodeSS58([32]byte{31: byte(i)}), msg, sig)
	}
	if len(r.keys) > maxReady {
		t.Errorf("%d keys are kept", len(r.keys))
	}
}

func BenchmarkReady(b *testing.B) {
	k, err := KeyFromSeed(Ed25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		b.Fatal(err)
	}
	msg := []byte("hello arena")
	sig, err := k.Sign(msg)
	if err != nil {
		b.Fatal(err)
	}
	var r Ready
	b.Run("ready", func(b *testing.B) {
		benchCPU(b, func() {
			if err := r.Verify(k.SS58(), msg, sig); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("plain", func(b *testing.B) {
		benchCPU(b, func() {
			if err := VerifyPublic(Ed25519, k.public, msg, sig); err != nil {
				b.Fatal(err)
			}
		})
	})
}
