package scale

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/agon-arena/agon/auth"
)

// TestExtrinsicVector reads a real extrinsic of a chain of spec 438 and holds
// its hash and signature against what we would sign.
func TestExtrinsicVector(t *testing.T) {
	m := metadata(t, 424) // the same extensions
	raw, _ := hex.DecodeString("39028400d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d01d6be92c2fdb49f3d9df549938ce21c849792a40d5e89bb066604d0c80b8ce1645a7db054b85dc13dec75d6bcce7fd710f5ae67f168152c68816da86efc98678e000000000503008eaf04151687736326c9fea17e25fc5287613693c912909cb226aa4794f26a4802286bee")
	if h := Hash(raw); hex.EncodeToString(h[:]) != "ba6160fd8243c810c04e8b507877a8df77052764f183eb19ca7ebd1eaab8bdb4" {
		t.Errorf("hash %x", h)
	}
	x, err := m.ParseExtrinsic(raw)
	if err != nil {
		t.Fatal(err)
	}
	c := Chain{SpecVersion: 438, Version: 1}
	genesis, _ := hex.DecodeString("d642ae29c636817637b3b869e776516dda61f0dab7550f6992ce3aac24d62728")
	copy(c.Genesis[:], genesis)
	extra, err := m.Extra([]byte{0}, 0, 0)
	if err != nil || !bytes.Equal(extra, x.Extra) {
		t.Errorf("extra %x, want %x: %v", extra, x.Extra, err)
	}
	additional, err := m.Additional(c, c.Genesis)
	if err != nil {
		t.Fatal(err)
	}
	payload := Payload(x.Call, extra, additional)
	if len(payload) != 116 {
		t.Errorf("%d bytes are signed", len(payload))
	}
	if err := auth.VerifyPublic(auth.Sr25519, x.Signer, payload, x.Signature); err != nil {
		t.Error(err)
	}
	if again := x.Encode(); !bytes.Equal(again, raw) {
		t.Errorf("written again %x", again)
	}
	for n := range raw {
		if _, err := m.ParseExtrinsic(raw[:n]); err == nil {
			t.Errorf("cut at %d is read", n)
		}
	}
	// (ii) of spec 446: nonce 7.
	if extra, _ := m.Extra([]byte{0}, 7, 0); hex.EncodeToString(extra) != "001c0000" {
		t.Errorf("extra %x", extra)
	}
}

// TestExtensions refuses what it does not know and is not empty, and leaves
// out what an old runtime has not.
// TestSignedBytes is the second vector of spec/chain.md 2.4: runtime 446, version
// 1, nonce 7, immortal. Its extensions are those of 424.
func TestSignedBytes(t *testing.T) {
	m := metadata(t, 424)
	call, err := m.EncodeCall("Balances", "transfer_keep_alive", parse(t, `["5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty",12345]`))
	if err != nil || hex.EncodeToString(call) != "0503008eaf04151687736326c9fea17e25fc5287613693c912909cb226aa4794f26a48e5c0" {
		t.Errorf("call %x %v", call, err)
	}
	extra, err := m.Extra([]byte{0}, 7, 0)
	if err != nil || hex.EncodeToString(extra) != "001c0000" {
		t.Errorf("extra %x %v", extra, err)
	}
	genesis := [32]byte{0x90, 0x8a, 0x4c, 0x92}
	additional, err := m.Additional(Chain{Genesis: genesis, SpecVersion: 446, Version: 1}, genesis)
	g := hex.EncodeToString(genesis[:])
	if err != nil || hex.EncodeToString(additional) != "be01000001000000"+g+g+"00" {
		t.Errorf("additional %x %v", additional, err)
	}
}

func TestExtensions(t *testing.T) {
	m := *metadata(t, 424)
	u8, err := m.Named("u8")
	if err != nil {
		t.Fatal(err)
	}
	unit, err := m.Named("()")
	if err != nil {
		t.Fatal(err)
	}
	known := m.Extensions
	m.Extensions = append(known[:len(known):len(known)], Extension{"New", unit, unit})
	if b, err := m.Extra([]byte{0}, 0, 0); err != nil || len(b) != 4 {
		t.Errorf("a new empty extension: %x %v", b, err)
	}
	m.Extensions = append(known[:len(known):len(known)], Extension{"New", u8, unit})
	if _, err := m.Extra([]byte{0}, 0, 0); !errors.Is(err, ErrExtension) {
		t.Errorf("a new extension with bytes: %v", err)
	}
	m.Extensions = append(known[:len(known):len(known)], Extension{"New", unit, u8})
	if _, err := m.Additional(Chain{}, [32]byte{}); !errors.Is(err, ErrExtension) {
		t.Errorf("a new extension that signs bytes: %v", err)
	}
	m.Extensions = known[:len(known)-1] // as at 143
	if b, err := m.Extra([]byte{0}, 0, 0); err != nil || len(b) != 3 {
		t.Errorf("without CheckMetadataHash: %x %v", b, err)
	}
	if b, err := metadata(t, 218).Extra([]byte{0}, 0, 0); err != nil || len(b) != 4 {
		t.Errorf("spec 218: %x %v", b, err)
	}
}

func BenchmarkComposeAndSign(b *testing.B) {
	m := metadata(b, 424)
	key, err := auth.KeyFromURI("//Alice")
	if err != nil {
		b.Fatal(err)
	}
	uids := make([]uint16, 64)
	for b.Loop() {
		call, err := m.EncodeCall("SubtensorModule", "set_weights", []any{3, uids, uids, 0})
		if err != nil {
			b.Fatal(err)
		}
		extra, _ := m.Extra([]byte{0}, 1, 0)
		additional, _ := m.Additional(Chain{}, [32]byte{})
		sig, err := key.Sign(Payload(call, extra, additional))
		if err != nil {
			b.Fatal(err)
		}
		(&Extrinsic{Signature: sig, Extra: extra, Call: call}).Encode()
	}
}
