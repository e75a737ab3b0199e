package timelock

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/calc"
)

// Real beacons of the quicknet.
var beacons = map[uint64]string{
	1000:     "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39",
	30668812: "b7e15d214002905b548474719ec134e1de7935c35b8b12028ced184c233a01555c1b163f8d2cab92cd69b205cd9c1e07",
	30668813: "a266e4bd1d7b20f3e9d36011d08fc1a921f5e3cb541ae3994795f042a18b7ba3573c7ae3807fcc7f0c9b910f4a4693c3",
	30668814: "930695e26d9672abc00be9afd637e0e1dbac924e7267b94b6f6f3c1700d49640e5638204e259ef8c51d5ff87be53db9b",
	30668815: "aab35f9c2dedeb6f5d7b47748be8eb76a5871d18a7368fda06aa1034d83045b52d60a5d6b132329a0e2ff9e20152155c",
}

// vector was made by another implementation, in Rust, for round 1000.
const vector = "a569a0e3e11b01979014d687ce008149d4a24624da70e0cfa878cd3a5abcbef4c4a02d53aff68b18bab4dbf02097e6320efb7e2acd233124d1391ab07471a0a08cfcd909258e88ea46ef13fa1e56ba16a46e9a7520b5411b4c4f906b2fb5cbb7" +
	"2000000000000000e403c065e4d88a6f7258dba0c699b1e85a34139e1910ccc53d8a40cc55f1007a" + "200000000000000022ce8b5dca11d15d8cd345826790dcfb85d48fb89e417c14e085eaab9b45789f" +
	"3a000000000000001e00000000000000f814ff2509ec4db057760952f41656452841e799ddb967cb4f70c0c4fc020c000000000000003e0794b71fefbbfdb522083308000000000000004145535f47434d5f"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBeacons(t *testing.T) {
	for round, s := range beacons {
		if err := Verify(round, unhex(t, s)); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if err := Verify(round+1, unhex(t, s)); !errors.Is(err, ErrSignature) {
			t.Errorf("round %d with the signature of the one before: %v", round+1, err)
		}
	}
}

func TestVector(t *testing.T) {
	plain, err := Decrypt(unhex(t, vector), unhex(t, beacons[1000]))
	if err != nil || string(plain) != "this is a test" {
		t.Fatalf("%q %v", plain, err)
	}
	if _, err := Decrypt(unhex(t, vector), unhex(t, beacons[30668812])); !errors.Is(err, ErrOpen) {
		t.Errorf("another round's signature: %v", err)
	}
	var out bytes.Buffer
	reg := calc.New(Rules()...)
	if _, err := reg.Run("chain.timelock_decrypt", strings.NewReader(`{"ciphertext_hex":"`+vector+`","signature_hex":"0x`+beacons[1000]+`"}`), &out); err != nil || out.String() != `{"plaintext_hex":"7468697320697320612074657374"}`+"\n" {
		t.Errorf("calc: %s %v", out.String(), err)
	}
}

func TestRoundTrip(t *testing.T) {
	for round, s := range beacons {
		for _, plain := range [][]byte{{}, []byte("weights"), bytes.Repeat([]byte{7}, MaxPlaintext)} {
			c, err := Encrypt(nil, round, plain)
			if err != nil || len(c) != len(plain)+Overhead || Check(c) != nil {
				t.Fatalf("%d bytes: %d, %v", len(plain), len(c), err)
			}
			if got, err := Decrypt(c, unhex(t, s)); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("round %d, %d bytes: %v", round, len(plain), err)
			}
		}
	}
	if _, err := Encrypt(nil, 1, make([]byte, MaxPlaintext+1)); err == nil {
		t.Error("a byte too much")
	}
	if _, err := Encrypt(nil, 0, nil); err == nil {
		t.Error("round 0")
	}
	if _, err := Encrypt(strings.NewReader("short"), 1, nil); err == nil {
		t.Error("no entropy")
	}
}

// TestMalformed changes every byte: none goes through, and points that are
// none are refused as such.
func TestMalformed(t *testing.T) {
	good, sig := unhex(t, vector), unhex(t, beacons[1000])
	for i := range good {
		if i%7 != 0 && i > 4 && i < pointSize {
			continue // pairings are slow
		}
		c := bytes.Clone(good)
		c[i] ^= 1
		if _, err := Decrypt(c, sig); !errors.Is(err, ErrOpen) && !errors.Is(err, ErrFormat) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for n := range good {
		if _, err := Decrypt(good[:n], sig); !errors.Is(err, ErrFormat) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := Decrypt(append(bytes.Clone(good), 0), sig); !errors.Is(err, ErrFormat) {
		t.Errorf("a byte more: %v", err)
	}
	infinity := append([]byte{0xc0}, make([]byte, pointSize-1)...)
	// The last has an x of 2: whether it is on the curve or not, it is not a point of the subgroup.
	for name, u := range map[string][]byte{"infinity": infinity, "zeros": make([]byte, pointSize), "x of ff": bytes.Repeat([]byte{0xff}, pointSize), "small x": append([]byte{0x80}, append(make([]byte, pointSize-2), 2)...)} {
		if _, err := Decrypt(append(bytes.Clone(u), good[pointSize:]...), sig); !errors.Is(err, ErrFormat) {
			t.Errorf("U is %s: %v", name, err)
		}
	}
	for name, s := range map[string][]byte{"infinity": infinity[:48], "zeros": make([]byte, 48), "short": sig[:47], "empty": nil, "small x": append([]byte{0x80}, append(make([]byte, 46), 4)...)} {
		if _, err := Decrypt(good, s); !errors.Is(err, ErrSignature) {
			t.Errorf("signature is %s: %v", name, err)
		}
		if err := Verify(1000, s); !errors.Is(err, ErrSignature) {
			t.Errorf("verify %s: %v", name, err)
		}
	}
	// The newer layout without lengths before V and W is not the chain's.
	newer := slices.Concat(good[:96], good[104:136], good[144:])
	if _, err := Decrypt(newer, sig); !errors.Is(err, ErrFormat) {
		t.Errorf("the newer layout: %v", err)
	}
}

func TestPayload(t *testing.T) {
	p := &Payload{Hotkey: [32]byte{1}, UIDs: []uint16{1, 300}, Values: []uint16{65535, 7}, VersionKey: 10001}
	b, err := p.Encode()
	if err != nil || hex.EncodeToString(b) != "8001"+strings.Repeat("00", 31)+"0801002c0108ffff07001127000000000000" {
		t.Fatalf("%x %v", b, err)
	}
	if got, legacy, err := DecodePayload(b); err != nil || legacy || got.Hotkey != p.Hotkey || !slices.Equal(got.UIDs, p.UIDs) || got.VersionKey != 10001 {
		t.Errorf("%+v %v %v", got, legacy, err)
	}
	if got, legacy, err := DecodePayload(b[33:]); err != nil || !legacy || !slices.Equal(got.Values, p.Values) {
		t.Errorf("legacy: %+v %v %v", got, legacy, err)
	}
	for n := range b {
		if _, legacy, err := DecodePayload(b[:n]); err == nil && !legacy {
			t.Errorf("cut at %d is read", n)
		}
	}
	if _, err := (&Payload{UIDs: []uint16{1}}).Encode(); err == nil {
		t.Error("unequal lengths")
	}
}

func TestRounds(t *testing.T) {
	if got := RoundAt(time.Unix(Genesis+3000, 0)); got != 1000 {
		t.Errorf("round %d", got)
	}
	if got := RoundAt(time.Unix(0, 0)); got != 1 {
		t.Errorf("before genesis: %d", got)
	}
	if got := TimeOf(1000).Unix(); got != Genesis+999*3 {
		t.Errorf("time of round 1000: %d", got)
	}
}

func FuzzDecrypt(f *testing.F) {
	good, sig := unhex(f, vector), unhex(f, beacons[1000])
	f.Add(good, sig)
	f.Add(good[:100], sig)
	f.Fuzz(func(t *testing.T, c, s []byte) {
		if plain, err := Decrypt(c, s); err == nil && string(plain) != "this is a test" {
			t.Errorf("opened %q", plain)
		}
	})
}

func BenchmarkEncrypt(b *testing.B) {
	for b.Loop() {
		if _, err := Encrypt(nil, 1000, []byte("x")); err != nil {
			b.Fatal(err)
		}
	}
}

// TestBeacon seals to the rounds of a beacon of one's own, whose signatures
// open what is sealed to it, and nothing of quicknet's.
func TestBeacon(t *testing.T) {
	b := NewBeacon([]byte("test"))
	sig, err := b.Signature(t.Context(), 1000)
	if err != nil || b.Key().Verify(1000, sig) != nil || b.Key().Verify(1001, sig) == nil || Verify(1000, sig) == nil || b.Key().Verify(1000, unhex(t, beacons[1000])) == nil {
		t.Fatalf("signature %x: %v", sig, err)
	}
	own, err := b.Key().Encrypt(nil, 1000, []byte("weights"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Decrypt(own, sig); err != nil || string(got) != "weights" {
		t.Errorf("%q: %v", got, err)
	}
	quicknet, err := Encrypt(nil, 1000, []byte("weights"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decrypt(quicknet, sig); !errors.Is(err, ErrOpen) {
		t.Errorf("quicknet's: %v", err)
	}
}
