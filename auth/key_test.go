package auth

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	aliceSS58 = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"
	alicePub  = "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d"
	leopard   = "old leopard transfer rib spatial phone calm indicate online fire caution review"
)

func mustHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustURI(t testing.TB, uri string) *Key {
	t.Helper()
	k, err := KeyFromURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The vectors of spec/chain.md section 1.4.
func TestURIVectors(t *testing.T) {
	for _, c := range []struct{ uri, address, seed string }{
		{"", "5DfhGyQdFobKM8NsWvEeAKk5EQQgYe9AydgJ7rMB6E1EqRzV", "fac7959dbfe72f052e5a0c3c8d6530f202b02fd8f9f5ca3580ec8deb7797479e"},
		{DevPhrase, "5DfhGyQdFobKM8NsWvEeAKk5EQQgYe9AydgJ7rMB6E1EqRzV", "fac7959dbfe72f052e5a0c3c8d6530f202b02fd8f9f5ca3580ec8deb7797479e"},
		{"//Alice", aliceSS58, "e5be9a5092b81bca64be81d212e7f2f9eba183bb7a90954f7b76361f6edb5c0a"},
		{DevPhrase + "//Alice", aliceSS58, "e5be9a5092b81bca64be81d212e7f2f9eba183bb7a90954f7b76361f6edb5c0a"},
		{"0xfac7959dbfe72f052e5a0c3c8d6530f202b02fd8f9f5ca3580ec8deb7797479e//Alice", aliceSS58, "e5be9a5092b81bca64be81d212e7f2f9eba183bb7a90954f7b76361f6edb5c0a"},
		{"//Bob", "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty", "398f0c28f98885e046333d4a41c19cee4c37368a9832c6502f6cfd182e2aef89"},
		{leopard, "5HDvhV6WDCjCKyrXqGQSDYqQAzkzabNhctmiDYEqgBC66BsX", "da3cf5b1e9144931a0f0db65664aab662673b099415a7f8121b7245fb0be4143"},
		{leopard + "//Alice", "5FEiH8iuDUw271xbqWTWuB6WrDjv5dnCeDX1CyHubAniXDNN", "dabc9dec4e905868035e6ec14189d1dbb5f8bc8e97aaf931a9db56001ab34d85"},
		{leopard + "/Alice", "5GNXbA46ma5dg19GXdiKi5JH3mnkZ8Yea3bBtZAvj7t99P9i", ""},
		{"//Bob/test", "5CJGwWiKXSE16WJaxBdPZhWqUYkotgenLUALv7ZvqQ4TXeqf", ""},
		{"/Bob//test", "5Cwc8tShrshDJUp1P1M21dKUTcYQpV9GcfSa4hUBNmMdV3Cx", "?"},
		{"//PathNameLongerThan32BytesWhichShouldBeHashed", "5GR5pfZeNs1uQiSWVxZaQiZou3wdZiX894eqgvfNfHbEh7W2", "91373acc…9724a25"},
	} {
		t.Run(c.uri, func(t *testing.T) {
			k, err := KeyFromURI(c.uri)
			if err != nil {
				t.Fatal(err)
			}
			if k.SS58() != c.address {
				t.Errorf("address %s, want %s", k.SS58(), c.address)
			}
			seed := hex.EncodeToString(k.Seed())
			head, tail, cut := strings.Cut(c.seed, "…")
			switch {
			case c.seed == "?":
			case cut && (!strings.HasPrefix(seed, head) || !strings.HasSuffix(seed, tail)), !cut && seed != c.seed:
				t.Errorf("seed %s, want %s", seed, c.seed)
			}
			sig, err := k.Sign([]byte("m"))
			if err != nil {
				t.Fatal(err)
			}
			if err := Verify(k.SS58(), []byte("m"), sig); err != nil {
				t.Errorf("own signature: %v", err)
			}
		})
	}
	if got := mustURI(t, "//Alice").PublicHex(); got != alicePub {
		t.Errorf("public %s", got)
	}
}

func TestURIPasswordAndNumbers(t *testing.T) {
	plain, with := mustURI(t, leopard), mustURI(t, leopard+"///geheim ü/x")
	if plain.SS58() == with.SS58() {
		t.Error("password changes nothing")
	}
	if again, err := KeyFromMnemonic(Sr25519, leopard, "geheim ü/x"); err != nil || again.SS58() != with.SS58() {
		t.Errorf("password in a uri and beside a mnemonic differ: %v", err)
	}
	if with.Phrase() != "" {
		t.Error("words are kept though they give another key without the password")
	}
	if mustURI(t, "//1").SS58() != mustURI(t, "//+1").SS58() || mustURI(t, "//1").SS58() != mustURI(t, "//01").SS58() {
		t.Error("number forms differ")
	}
	if mustURI(t, "//1").SS58() == mustURI(t, "/1").SS58() {
		t.Error("hard and soft are the same")
	}
	// One more than a u64 is a string.
	if _, err := KeyFromURI("//18446744073709551616"); err != nil {
		t.Error(err)
	}
	a, _ := mustURI(t, "/soft").Private()
	b, _ := mustURI(t, "/soft").Private()
	if string(a) != string(b) {
		t.Error("soft derivation is not deterministic")
	}
}

func TestURIRefused(t *testing.T) {
	for name, uri := range map[string]string{
		"empty junction":     "//Alice//",
		"trailing slash":     "//Alice/",
		"bad words":          "bottom drive obey lake curtain smoke basket hold race lonely fit fit",
		"eleven words":       "bottom drive obey lake curtain smoke basket hold race lonely fit",
		"short seed":         "0xfac7",
		"seed not hex":       "0x" + strings.Repeat("zz", 32),
		"seed with password": "0x" + strings.Repeat("11", 32) + "///pw",
		"too long":           strings.Repeat("/a", 600),
		"too many junctions": strings.Repeat("/a", 33),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := KeyFromURI(uri)
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "bottom") || strings.Contains(err.Error(), "fac7") {
				t.Errorf("error shows the secret: %v", err)
			}
		})
	}
}

func TestPrivateKeyVector(t *testing.T) {
	const private = "1f1995bdf3a17b60626a26cfe6f564b337d46056b7a1281b64c649d592ccda0a9cffd34d9fb01cae1fba61aeed184c817442a2186d5172416729a4b54dd4b84e"
	k, err := KeyFromPrivate(mustHex(t, private))
	if err != nil {
		t.Fatal(err)
	}
	if k.PublicHex() != "e4359ad3e2716c539a1d663ebd0a51bdc5c98a12e663bb4c4402db47828c9446" {
		t.Errorf("public %s", k.PublicHex())
	}
	pub, prefix, err := DecodeSS58("16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2")
	if err != nil || prefix != 0 || pub != k.Public() {
		t.Errorf("prefix 0 form: %x %d %v", pub, prefix, err)
	}
	if _, err := ParseSS58("16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2"); err == nil {
		t.Error("strict parse accepts prefix 0")
	}
	back, err := k.Private()
	if err != nil || hex.EncodeToString(back) != private {
		t.Errorf("private %x %v", back, err)
	}
	for name, b := range map[string][]byte{
		"short": make([]byte, 63), "zero": make([]byte, 64),
		"not canonical": []byte(strings.Repeat("\xff", 64)),
	} {
		if _, err := KeyFromPrivate(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPolkadotForm(t *testing.T) {
	alice := mustURI(t, "//Alice")
	private, _ := alice.Private()
	p, err := alice.PolkadotPrivate()
	if err != nil {
		t.Fatal(err)
	}
	h, ph := hex.EncodeToString(private), hex.EncodeToString(p)
	if !strings.HasPrefix(h, "33a6f309") || h[56:72] != "fffb1f09925a225d" || !strings.HasSuffix(h, "4a66011") {
		t.Errorf("keyfile form %s", h)
	}
	if !strings.HasPrefix(ph, "98319d4f") || ph[56:72] != "fedfff48925a225d" || !strings.HasSuffix(ph, "4a66011") {
		t.Errorf("polkadot form %s", ph)
	}
	back, err := KeyFromPolkadotPrivate(p)
	if err != nil || back.SS58() != aliceSS58 {
		t.Errorf("back: %v %v", back, err)
	}
	if _, err := KeyFromPolkadotPrivate(private); err == nil {
		t.Error("keyfile form accepted as polkadot form")
	}
}

func TestSignatureVectors(t *testing.T) {
	for msg, sig := range map[string]string{
		"hello arena": "407c1f48f7bea70b6e7ef70f010666fce36100cc89a1f6637c0b8513050f85344f1e1f612251ffba5ec8cd2d272e8ab12c702f4dd55c8990ef2440320f8f5d89",
		"":            "26c046c3b2cfd50b09d12ff9286778d020648c22aa707215feaa799d42ce2b52757bcbddf98a9c9f5876be513ac67de2a1193b99d21bcf2aba65ead415e4cd86",
	} {
		b := mustHex(t, sig)
		if err := Verify(aliceSS58, []byte(msg), b); err != nil {
			t.Errorf("%q: %v", msg, err)
		}
		if err := Verify(aliceSS58, []byte(msg+"x"), b); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%q with another message: %v", msg, err)
		}
		if err := Verify(mustURI(t, "//Bob").SS58(), []byte(msg), b); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%q by another key: %v", msg, err)
		}
		for i := range b {
			bad := append([]byte(nil), b...)
			bad[i] ^= 1
			if Verify(aliceSS58, []byte(msg), bad) == nil {
				t.Errorf("%q with byte %d changed: accepted", msg, i)
			}
		}
	}
}

func TestVerifyForms(t *testing.T) {
	alice := mustURI(t, "//Alice")
	wrapped, _ := alice.Sign([]byte("<Bytes>hi</Bytes>"))
	if err := Verify(aliceSS58, []byte("hi"), wrapped); err != nil {
		t.Errorf("<Bytes> form: %v", err)
	}
	sig, _ := alice.Sign([]byte("hi"))
	unmarked := append([]byte(nil), sig...)
	unmarked[63] &= 127
	big := append([]byte(nil), sig...)
	for i := 32; i < 64; i++ {
		big[i] = 0xff // not a canonical scalar
	}
	for name, s := range map[string][]byte{"unmarked": unmarked, "non-canonical": big, "short": sig[:63], "empty": nil} {
		if Verify(aliceSS58, []byte("hi"), s) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := VerifyPublic(Sr25519, [32]byte{}, []byte("hi"), sig); err == nil || errors.Is(err, ErrBadSignature) {
		t.Errorf("zero key: %v", err)
	}
}

func TestEd25519(t *testing.T) {
	k, err := KeyFromSchemeURI(Ed25519, "//Alice")
	if err != nil {
		t.Fatal(err)
	}
	// The well-known ed25519 Alice of every Substrate development chain.
	if k.SS58() != "5FA9nQDVg267DEd8m1ZypXLBnvN7SFxYwV7ndqSYGiN9TTpu" {
		t.Errorf("address %s", k.SS58())
	}
	sig, _ := k.Sign([]byte("hi"))
	if err := VerifyPublic(Ed25519, k.Public(), []byte("hi"), sig); err != nil {
		t.Error(err)
	}
	if VerifyPublic(Ed25519, k.Public(), []byte("ho"), sig) == nil {
		t.Error("another message accepted")
	}
	if _, err := KeyFromSchemeURI(Ed25519, "/soft"); err == nil {
		t.Error("soft junction accepted")
	}
}

func TestKeyPrintsNoSecret(t *testing.T) {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(k.Phrase())); n != 12 {
		t.Errorf("%d words", n)
	}
	again, err := KeyFromMnemonic(Sr25519, k.Phrase(), "")
	if err != nil || again.SS58() != k.SS58() {
		t.Errorf("phrase gives %v, %v", again, err)
	}
	out := fmt.Sprintf("%v %+v %#v %s", k, k, k, k)
	for _, secret := range []string{k.Phrase(), hex.EncodeToString(k.Seed()), fmt.Sprint(k.Seed())} {
		if strings.Contains(out, secret) {
			t.Errorf("printed form %q shows the secret", out)
		}
	}
}

func TestSS58Refused(t *testing.T) {
	for name, s := range map[string]string{
		"empty": "", "long": strings.Repeat("1", 65), "checksum": aliceSS58[:47] + "Z",
		"letter": strings.Replace(aliceSS58, "G", "0", 1), "blank": " " + aliceSS58,
		"cut": aliceSS58[:40], "reserved": encodeBase58(append([]byte{200}, make([]byte, 34)...)),
	} {
		if _, _, err := DecodeSS58(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	var pub [32]byte
	copy(pub[:], mustHex(t, alicePub))
	for _, prefix := range []uint16{0, 2, 42, 63, 64, 255, 1284, 16383} {
		back, p, err := DecodeSS58(encodeSS58(pub, prefix))
		if err != nil || p != prefix || back != pub {
			t.Errorf("prefix %d: %d %v", prefix, p, err)
		}
	}
}

func FuzzDecodeSS58(f *testing.F) {
	f.Add(aliceSS58)
	f.Add("16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2")
	f.Add("1111")
	f.Fuzz(func(t *testing.T, s string) {
		pub, prefix, err := DecodeSS58(s)
		if err == nil && encodeSS58(pub, prefix) != s {
			t.Errorf("%q is accepted but not canonical", s)
		}
	})
}

func FuzzKeyFromURI(f *testing.F) {
	for _, s := range []string{"//Alice", "/a/1//b///pw", "0x" + strings.Repeat("11", 32), leopard} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, path, _, err := parseURI(s); err == nil && len(path) > maxJunctions {
			t.Error("too many junctions")
		}
	})
}
