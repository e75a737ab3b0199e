package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// export builds an export as polkadot.js does, with cheap scrypt parameters.
func export(t testing.TB, k *Key, password string, change func(plain, params []byte) []byte) []byte {
	t.Helper()
	private, err := k.PolkadotPrivate()
	if err != nil {
		t.Fatal(err)
	}
	pub := k.Public()
	plain := bytes.Join([][]byte{pkcs8Head, private, pkcs8Divider, pub[:]}, nil)
	params := make([]byte, 44)
	copy(params, "a salt of thirty-two bytes, no more")
	binary.LittleEndian.PutUint32(params[32:], 1024)
	binary.LittleEndian.PutUint32(params[36:], 1)
	binary.LittleEndian.PutUint32(params[40:], 8)
	derived, err := scrypt.Key([]byte(password), params[:32], 1024, 8, 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		plain = change(plain, params)
	}
	var nonce [24]byte
	nonce[3] = 7
	raw := secretbox.Seal(append(params, nonce[:]...), plain, &nonce, (*[32]byte)(derived))
	return exportJSON(t, raw, k.SS58(), "sr25519", "scrypt", "xsalsa20-poly1305")
}

func exportJSON(t testing.TB, raw []byte, address, content string, types ...string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"encoded": base64.StdEncoding.EncodeToString(raw), "address": address, "meta": map[string]any{"name": "x"},
		"encoding": map[string]any{"content": []string{"pkcs8", content}, "type": types, "version": "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPolkadotExport(t *testing.T) {
	for _, uri := range []string{"//Alice", leopard, "//Alice/soft"} {
		k := mustURI(t, uri)
		back, err := ParsePolkadotExport(export(t, k, "pässword", nil), "pässword")
		if err != nil || back.SS58() != k.SS58() {
			t.Fatalf("%s: %v %v", uri, back, err)
		}
		sig, err := back.Sign([]byte("m"))
		if err != nil || Verify(k.SS58(), []byte("m"), sig) != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	alice := mustURI(t, "//Alice")
	private, _ := alice.PolkadotPrivate()
	pub := alice.Public()
	plain := bytes.Join([][]byte{pkcs8Head, private, pkcs8Divider, pub[:]}, nil)
	// Unencrypted, and the old form whose key is the padded password.
	if back, err := ParsePolkadotExport(exportJSON(t, plain, "", "sr25519", "none"), ""); err != nil || back.SS58() != aliceSS58 {
		t.Errorf("unencrypted: %v %v", back, err)
	}
	var padded [32]byte
	copy(padded[:], "pw")
	var nonce [24]byte
	if back, err := ParsePolkadotExport(exportJSON(t, secretbox.Seal(nonce[:], plain, &nonce, &padded), "0x"+alicePub, "sr25519", "xsalsa20-poly1305"), "pw"); err != nil || back.SS58() != aliceSS58 {
		t.Errorf("old form: %v %v", back, err)
	}
	params := func(offset int, value uint32) func(plain, params []byte) []byte {
		return func(plain, params []byte) []byte {
			binary.LittleEndian.PutUint32(params[offset:], value)
			return plain
		}
	}
	for name, c := range map[string]struct {
		file     []byte
		password string
		want     string
	}{
		"wrong password":  {export(t, alice, "a", nil), "b", ErrWrongPassword.Error()},
		"no export":       {[]byte(`{"ss58Address":"x"}`), "", "not a polkadot.js export"},
		"ed25519":         {exportJSON(t, plain, "", "ed25519", "none"), "", "only sr25519"},
		"unknown type":    {exportJSON(t, plain, "", "sr25519", "rot13"), "", "unknown way"},
		"no base64":       {[]byte(`{"encoded":"!","encoding":{"content":"sr25519","type":"none"}}`), "", "neither base64 nor hex"},
		"too short":       {exportJSON(t, []byte("x"), "", "sr25519", "scrypt", "xsalsa20-poly1305"), "", "too short"},
		"huge N":          {export(t, alice, "a", params(32, 1<<30)), "a", "too much"},
		"odd N":           {export(t, alice, "a", params(32, 1000)), "a", "power of two"},
		"huge p":          {export(t, alice, "a", params(36, 1<<20)), "a", "too much"},
		"huge r":          {export(t, alice, "a", params(40, 1<<20)), "a", "too much"},
		"zero r":          {export(t, alice, "a", params(40, 0)), "a", "too much"},
		"other public":    {export(t, alice, "a", func(p, _ []byte) []byte { p[len(p)-1] ^= 1; return p }), "a", "not that of its public key"},
		"not a scalar x8": {export(t, alice, "a", func(p, _ []byte) []byte { p[len(pkcs8Head)] |= 1; return p }), "a", "no sr25519 secret"},
		"other head":      {export(t, alice, "a", func(p, _ []byte) []byte { p[0] = 0; return p }), "a", "no sr25519 key pair"},
		"other address":   {exportJSON(t, plain, mustURI(t, "//Bob").SS58(), "sr25519", "none"), "", "not of the address"},
		"too large":       {bytes.Repeat([]byte(" "), maxKeyfile+1), "", "at most"},
	} {
		k, err := ParsePolkadotExport(c.file, c.password)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v %v", name, k, err)
		}
	}
	if _, err := ParseKeyfile(export(t, alice, "a", nil)); err == nil || !strings.Contains(err.Error(), "polkadot.js") {
		t.Errorf("as a keyfile: %v", err)
	}
	if _, err := ParsePolkadotExport(export(t, alice, "a", nil), "b"); !errors.Is(err, ErrWrongPassword) {
		t.Error(err)
	}
}

// Files that other programs wrote: py-substrate-interface and ansible-vault.
func TestForeignFiles(t *testing.T) {
	b, err := os.ReadFile("testdata/polkadot-alice.json")
	if err != nil {
		t.Fatal(err)
	}
	if k, err := ParsePolkadotExport(b, "grün"); err != nil || k.SS58() != aliceSS58 {
		t.Errorf("export: %v %v", k, err)
	}
	if b, err = os.ReadFile("testdata/vault-alice"); err != nil {
		t.Fatal(err)
	}
	plain, err := DecryptKeyfile(b, "grün")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := ParseKeyfile(plain); err != nil || f.Key == nil || f.Address != aliceSS58 {
		t.Errorf("vault: %v %v", f, err)
	}
}

func FuzzParsePolkadotExport(f *testing.F) {
	alice := mustURI(f, "//Alice")
	f.Add(export(f, alice, "a", nil), "a")
	f.Add([]byte(`{"encoded":"0x00","encoding":{"content":"sr25519","type":"none"}}`), "")
	f.Fuzz(func(t *testing.T, b []byte, password string) {
		if k, err := ParsePolkadotExport(b, password); err == nil && k == nil {
			t.Error("no key and no error")
		}
	})
}
