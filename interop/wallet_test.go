//go:build interop

package interop

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/coldkey"
	"github.com/agon-arena/agon/auth/signing"
)

const password = "grün & süß"

var wallets = []string{"wallet", "wallet3", "wallet2", "sdk"}

func key(t *testing.T, scheme auth.Scheme, uri string) *auth.Key {
	t.Helper()
	k, err := auth.KeyFromSchemeURI(scheme, uri)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t *testing.T, k *auth.Key, msg []byte) string {
	t.Helper()
	sig, err := k.Sign(msg)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sig)
}

func check(t *testing.T, scheme auth.Scheme, address, sigHex string, msg []byte) error {
	t.Helper()
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return err
	}
	sig, err := hex.DecodeString(sigHex)
	if err != nil {
		return err
	}
	return auth.VerifyPublic(scheme, pub, msg, sig)
}

func forWallets(t *testing.T, f func(t *testing.T, p *peer)) {
	for _, name := range wallets {
		t.Run(name, func(t *testing.T) {
			p := start(t, name)
			v := p.ask(t, "version", args{"package": "bittensor-wallet"})
			t.Logf("bittensor-wallet %s", v.text("version"))
			f(t, p)
		})
	}
}

const leopard = "old leopard transfer rib spatial phone calm indicate online fire caution review"

// The same secret gives the same address, and each side's signatures hold at the other.
func TestKeys(t *testing.T) {
	forWallets(t, func(t *testing.T, p *peer) {
		for _, uri := range []string{
			"//Alice", "//Bob/test", "/Bob//test", "//PathNameLongerThan32BytesWhichShouldBeHashed", leopard, leopard + "//Alice", leopard + "/Alice",
			leopard + "//a//b/c///secret", "//0", "//18446744073709551615", "/1//2",
		} {
			k := key(t, auth.Sr25519, uri)
			got := p.ask(t, "address", args{"uri": uri})
			if got.text("ss58") != k.SS58() || got.text("public") != k.PublicHex() {
				t.Errorf("%s: %s there, %s here", uri, got.text("ss58"), k.SS58())
			}
			for _, msg := range []string{"", "hello arena", "<Bytes>x</Bytes>", "\x00\xff"} {
				m := hex.EncodeToString([]byte(msg))
				if err := check(t, auth.Sr25519, k.SS58(), p.ask(t, "sign", args{"uri": uri, "message": m}).text("signature"), []byte(msg)); err != nil {
					t.Errorf("%s: its signature of %q: %v", uri, msg, err)
				}
				if ok := p.ask(t, "verify", args{"ss58": k.SS58(), "message": m, "signature": sign(t, k, []byte(msg))})["ok"]; ok != true {
					t.Errorf("%s: our signature of %q does not hold there", uri, msg)
				}
			}
			wrapped := sign(t, k, []byte("<Bytes>m</Bytes>"))
			if ok := p.ask(t, "verify", args{"ss58": k.SS58(), "message": hex.EncodeToString([]byte("m")), "signature": wrapped})["ok"]; ok != true {
				t.Errorf("%s: the <Bytes> form does not hold there", uri)
			}
			if ok := p.ask(t, "verify", args{"ss58": k.SS58(), "message": "00", "signature": sign(t, k, []byte{1})})["ok"]; ok != false {
				t.Error("a false signature holds there")
			}
		}
		for _, words := range []int{12, 15, 18, 21, 24} {
			got := p.ask(t, "new_mnemonic", args{"words": words})
			if k, err := auth.KeyFromMnemonic(auth.Sr25519, got.text("mnemonic"), ""); err != nil || k.SS58() != got.text("ss58") {
				t.Errorf("%d words: %v %v", words, k, err)
			}
		}
		ours, err := auth.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.ask(t, "address", args{"mnemonic": ours.Phrase()}); got.text("ss58") != ours.SS58() {
			t.Errorf("our words give %s there", got.text("ss58"))
		}
	})
}

func TestEd25519(t *testing.T) {
	p := start(t, "wallet")
	for _, uri := range []string{"//Alice", leopard, leopard + "//a//0"} {
		k := key(t, auth.Ed25519, uri)
		a := args{"uri": uri, "crypto_type": 0, "message": "0102"}
		if got := p.ask(t, "address", a); got.text("ss58") != k.SS58() {
			t.Errorf("%s: %s there, %s here", uri, got.text("ss58"), k.SS58())
		}
		if err := check(t, auth.Ed25519, k.SS58(), p.ask(t, "sign", a).text("signature"), []byte{1, 2}); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// Wallet directories in both directions: words, a URI (no seed), a soft URI.
func TestWalletFiles(t *testing.T) {
	forWallets(t, func(t *testing.T, p *peer) {
		cold := key(t, auth.Sr25519, "//Bob")
		for _, uri := range []string{"", "//Alice", leopard + "//a/soft"} {
			dir := t.TempDir()
			made := p.ask(t, "create_wallet", args{"path": dir, "name": "n", "hotkey": "h", "uri": uri, "coldkey": "//Bob"})
			w := auth.Wallet{Path: dir, Name: "n", Hotkey: "h"}
			k, err := w.LoadHotkey()
			if err != nil || k.SS58() != made.text("hotkey") {
				t.Fatalf("%q: its hotkey: %v %v", uri, k, err)
			}
			if address, err := w.ColdkeyAddress(); err != nil || address != cold.SS58() {
				t.Errorf("%q: its coldkeypub: %s %v", uri, address, err)
			}
			if err := auth.Verify(k.SS58(), []byte("m"), mustSign(t, k)); err != nil {
				t.Error(err)
			}

			w.Path = t.TempDir()
			if uri != "" {
				k = key(t, auth.Sr25519, uri)
			} else if k, err = auth.NewKey(); err != nil {
				t.Fatal(err)
			}
			if err := w.CreateHotkey(k); err != nil {
				t.Fatal(err)
			}
			if err := w.CreateColdkeyPub(cold.SS58()); err != nil {
				t.Fatal(err)
			}
			got := p.ask(t, "load_wallet", args{"path": w.Path, "name": "n", "hotkey": "h", "message": "6d"})
			if got.text("hotkey") != k.SS58() || got.text("coldkey") != cold.SS58() {
				t.Errorf("%q: our wallet there: %v", uri, got)
			}
			if pub, ok := got["hotkeypub"]; ok && pub != k.SS58() {
				t.Errorf("%q: our hotkeypub there: %v", uri, pub)
			}
			if err := check(t, auth.Sr25519, k.SS58(), got.text("signature"), []byte("m")); err != nil {
				t.Errorf("%q: signature of our key there: %v", uri, err)
			}
		}
	})
}

func mustSign(t *testing.T, k *auth.Key) []byte {
	sig, err := k.Sign([]byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// Encrypted coldkeys in both directions, by password and by the variable of the environment.
func TestEncryptedColdkeys(t *testing.T) {
	alice := key(t, auth.Sr25519, "//Alice")
	ours := auth.Wallet{Path: t.TempDir(), Name: "n", Hotkey: "h"}
	if err := ours.CreateEncryptedColdkey(alice, password); err != nil {
		t.Fatal(err)
	}
	opened := false
	for _, name := range wallets {
		t.Run(name, func(t *testing.T) {
			p := start(t, name)
			if got := p.ask(t, "decrypt", args{"path": ours.ColdkeyPath(), "password": password}); got.text("ss58") != alice.SS58() {
				t.Errorf("our file there: %v", got)
			}
			if _, problem := p.try(t, "decrypt", args{"path": ours.ColdkeyPath(), "password": "wrong"}); problem == "" {
				t.Error("a wrong password opens our file there")
			}
			theirs := auth.Wallet{Path: t.TempDir(), Name: "n", Hotkey: "h"}
			if err := os.MkdirAll(theirs.Dir(), 0o700); err != nil {
				t.Fatal(err)
			}
			made := p.ask(t, "encrypt", args{"path": theirs.ColdkeyPath(), "uri": "//Alice", "password": password})
			value := func(name string) string { return map[string]string{made.text("variable"): made.text("value")}[name] }
			got, ok, err := auth.PasswordFromEnv(value, theirs.ColdkeyPath())
			if err != nil || !ok || got != password {
				t.Errorf("its variable %s: %q %t %v", made.text("variable"), got, ok, err)
			}
			if !opened { // seconds and 512 MiB here: once is enough, the key is the same
				cold, err := coldkey.Open(theirs, func(string) (string, error) { return got, nil })
				if err != nil || cold.Address() != alice.SS58() {
					t.Errorf("its file here: %v %v", cold, err)
				}
				opened = true
			}
			variable := auth.PasswordVariable(ours.ColdkeyPath())
			raw := []byte(password)
			for i := range raw {
				raw[i] ^= variable[i%len(variable)]
			}
			if name == "wallet2" {
				return // it does not read the base64 that all later ones write
			}
			answer, problem := p.try(t, "decrypt_with_env", args{"path": ours.ColdkeyPath(), "value": base64.StdEncoding.EncodeToString(raw)})
			if problem != "" || answer.text("variable") != variable || answer.text("ss58") != alice.SS58() {
				t.Errorf("our variable there: %v %s", answer, problem)
			}
		})
	}
}

// The older forms of encryption, written by the libraries that wallets used for them.
func TestOlderEncryption(t *testing.T) {
	p, alice := start(t, "wallet"), key(t, auth.Sr25519, "//Alice")
	private, err := alice.Private()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"privateKey": "0x" + hex.EncodeToString(private), "ss58Address": alice.SS58()})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"vault", "fernet"} {
		t.Run(op, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hot")
			file := p.ask(t, op, args{"text": string(text), "password": password}).text("file")
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			if k, err := auth.LoadEncryptedKeyfile(path, password); err != nil || k.SS58() != alice.SS58() {
				t.Errorf("%v %v", k, err)
			}
		})
	}
}

func TestPolkadotExport(t *testing.T) {
	p := start(t, "wallet")
	for _, uri := range []string{"//Alice", leopard + "/soft"} {
		got := p.ask(t, "export", args{"uri": uri, "password": password})
		if k, err := auth.ParsePolkadotExport([]byte(got.text("file")), password); err != nil || k.SS58() != got.text("ss58") {
			t.Errorf("%s: %v %v", uri, k, err)
		}
	}
}

// The two older signing packages.
func TestSigningPackages(t *testing.T) {
	p := start(t, "wallet")
	for _, scheme := range []auth.Scheme{auth.Sr25519, auth.Ed25519} {
		t.Run("substrate-interface "+scheme.String(), func(t *testing.T) {
			k := key(t, scheme, leopard)
			got := p.ask(t, "substrate", args{"mnemonic": leopard, "crypto_type": int(scheme), "ss58": k.SS58(), "message": "6d", "signature": sign(t, k, []byte("m"))})
			if got.text("ss58") != k.SS58() || got["ok"] != true {
				t.Errorf("%v", got)
			}
			if err := check(t, scheme, k.SS58(), got.text("signature"), []byte("m")); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("py-sr25519-bindings", func(t *testing.T) {
		k := key(t, auth.Sr25519, "//Alice")
		got := p.ask(t, "sr25519", args{"seed": hex.EncodeToString(k.Seed()), "public": k.PublicHex(), "message": "6d", "signature": sign(t, k, []byte("m"))})
		if got.text("public") != k.PublicHex() || got["ok"] != true {
			t.Errorf("%v", got)
		}
		if err := check(t, auth.Sr25519, k.SS58(), got.text("signature"), []byte("m")); err != nil {
			t.Error(err)
		}
	})
}

// What Python clients send and sign: canonical JSON, numbers, str().
func TestCanonicalJSON(t *testing.T) {
	p := start(t, "wallet")
	const each, rounds = 2000, 10
	bad := 0
	for seed := range rounds {
		for _, d := range p.ask(t, "documents", args{"seed": seed, "count": each})["documents"].([]any) {
			pair := d.([]any)
			wire, want := pair[0].(string), pair[1].(string)
			for _, form := range []func([]byte) ([]byte, error){signing.CanonicalJSON, signing.PythonJSON} {
				got, err := form([]byte(wire))
				if err != nil || signing.BodyHash(got) != want {
					if bad++; bad < 5 {
						t.Errorf("%s: %s %v", wire, got, err)
					}
				}
			}
		}
	}
	t.Logf("%d documents, %d mismatches", each*rounds, bad)
	texts := []string{
		`[1e-7, 0.10, 1E5, -0, -0.0, 1e16, 1e15, 123456789012345678901234567890, 1e400, 5e-324, 0.0001, 0.00001]`,
		`{"a": 1, "b": {"x": [true, false, null]}, "é": "\ud83d\ude00\ud800", "it's": "\"q\""}`, `"plain 'text'"`, `["\u0001\u007f\u0080\u00a0\u00ad\u2028\u200b"]`,
	}
	for i, d := range p.ask(t, "texts", args{"texts": texts})["texts"].([]any) {
		pair := d.([]any)
		if got, err := signing.PythonJSON([]byte(texts[i])); err != nil || string(got) != pair[0] {
			t.Errorf("%s: %s %v, there %s", texts[i], got, err, pair[0])
		}
		if i == 1 {
			continue // half a surrogate pair does not travel in the answer
		}
		if got, err := signing.PythonText([]byte(texts[i])); err != nil || got != pair[1] {
			t.Errorf("str of %s: %q %v, there %q", texts[i], got, err, pair[1])
		}
	}
}
