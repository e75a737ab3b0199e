package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

const (
	vectorPassword = "thisisafakepassword"
	vectorKey      = "a17c46ecafdd501ecb1da0651d35abfecf60df14bffa8e949f58aaecd75cb3c8"
	vectorPlain    = `{"accountId":"0xd4","ss58Address":"5Grw"}`
	vectorSealed   = "e32b205873302010dd452e23be92ab21a818896fc58b9615756ca8f833ae2d83293a3c7e4d6bc35d03528eb0ab584fa241f40ba3d752a05adf"
)

func vectorFile(t testing.TB) []byte {
	return mustHex(t, "244e41434c"+"000102030405060708090a0b0c0d0e0f1011121314151617"+vectorSealed)
}

// The vector of spec/chain.md 1.3, but for the slow derivation (TestNaClDerivation).
func TestNaClVector(t *testing.T) {
	key := (*[32]byte)(mustHex(t, vectorKey))
	file := vectorFile(t)
	plain, err := openNaCl(key, file)
	if err != nil || string(plain) != vectorPlain {
		t.Errorf("open: %q %v", plain, err)
	}
	if got := sealNaCl(key, [24]byte(file[5:29]), []byte(vectorPlain)); hex.EncodeToString(got) != hex.EncodeToString(file) {
		t.Errorf("seal: %x", got)
	}
	for i := 5; i < len(file); i += 7 {
		bad := append([]byte(nil), file...)
		bad[i] ^= 1
		if _, err := openNaCl(key, bad); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for n := range 45 {
		if _, err := DecryptKeyfile(file[:n], vectorPassword); err == nil {
			t.Errorf("%d bytes of it: opened", n)
		}
	}
}

// sealVault is the other direction of openVault, for tests: agon never writes this form.
func sealVault(t *testing.T, plain, password string) string {
	salt := []byte("0123456789abcdef0123456789abcdef")
	key, err := pbkdf2.Key(sha256.New, password, salt, 10_000, 80)
	if err != nil {
		t.Fatal(err)
	}
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	text := []byte(plain + strings.Repeat(string(rune(pad)), pad))
	block, err := aes.NewCipher(key[:32])
	if err != nil {
		t.Fatal(err)
	}
	cipher.NewCTR(block, key[64:]).XORKeyStream(text, text)
	mac := hmac.New(sha256.New, key[32:64])
	mac.Write(text)
	body := hex.EncodeToString([]byte(hex.EncodeToString(salt) + "\n" + hex.EncodeToString(mac.Sum(nil)) + "\n" + hex.EncodeToString(text)))
	var out strings.Builder
	out.WriteString(vaultHeader + "\n")
	for len(body) > 80 {
		out.WriteString(body[:80] + "\n")
		body = body[80:]
	}
	return out.String() + body + "\n"
}

func TestVault(t *testing.T) {
	for _, plain := range []string{"", vectorPlain, strings.Repeat("x", 16)} {
		file := []byte(sealVault(t, plain, "pässwörd"))
		got, err := DecryptKeyfile(file, "pässwörd")
		if err != nil || string(got) != plain {
			t.Errorf("%q: got %q, %v", plain, got, err)
		}
		if _, err := DecryptKeyfile(file, "passwort"); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("wrong password: %v", err)
		}
		if _, err := DecryptKeyfile(file[:len(file)/2], "pässwörd"); err == nil {
			t.Error("half a file: opened")
		}
	}
	for _, file := range []string{"$ANSIBLE_VAULT;1.2;AES256;x\n00", vaultHeader, vaultHeader + "\nzz", vaultHeader + "\n00"} {
		if _, err := DecryptKeyfile([]byte(file), "p"); err == nil {
			t.Errorf("%q: opened", file)
		}
	}
}

// The vector of the Fernet specification.
func TestFernet(t *testing.T) {
	key, err := base64.URLEncoding.DecodeString("cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=")
	if err != nil {
		t.Fatal(err)
	}
	token := "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA=="
	if got, err := openFernet(key, []byte(token)); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := openFernet(key, []byte(strings.Replace(token, "cp", "cq", 1))); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("changed: %v", err)
	}
	if _, err := openFernet(key, []byte(token[:40])); err == nil {
		t.Error("half a token: opened")
	}
}

func TestPasswordFromEnv(t *testing.T) {
	const path = "/home/a/.bittensor/wallets/default/coldkey"
	const name = "BT_PW__HOME_A__BITTENSOR_WALLETS_DEFAULT_COLDKEY"
	if got := PasswordVariable(path); got != name {
		t.Errorf("variable %s", got)
	}
	xored := []byte(strings.Repeat("grün ", 20)) // longer than the name: the name repeats
	for i := range xored {
		xored[i] ^= name[i%len(name)]
	}
	for value, want := range map[string]string{"": "", base64.StdEncoding.EncodeToString(xored): strings.Repeat("grün ", 20)} {
		got, ok, err := PasswordFromEnv(func(k string) string {
			if k == name {
				return value
			}
			return ""
		}, path)
		if err != nil || got != want || ok != (want != "") {
			t.Errorf("%q: got %q %t %v", value, got, ok, err)
		}
	}
	if _, _, err := PasswordFromEnv(func(string) string { return "%%\xff" }, path); err == nil || strings.Contains(err.Error(), "%%") {
		t.Errorf("neither base64 nor text: %v", err)
	}
	// As bittensor-wallet 2.1.3 wrote it.
	if got, ok, err := PasswordFromEnv(func(string) string { return "%&\u00a3>wy\x7f'\u00b1\u008f" }, "/tmp/ck2x/coldkey"); err != nil || !ok || got != "grün & süß" {
		t.Errorf("raw characters: %q %t %v", got, ok, err)
	}
}

func FuzzDecryptVault(f *testing.F) {
	f.Add([]byte(vaultHeader + "\n3030"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if plain, err := openVault(b, "password"); err == nil {
			t.Errorf("opened: %q", plain)
		}
		if plain, err := openFernet(make([]byte, 32), b); err == nil {
			t.Errorf("opened: %q", plain)
		}
	})
}
