package auth

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func testWallet(t *testing.T) Wallet {
	return Wallet{Path: filepath.Join(t.TempDir(), "wallets"), Name: "default", Hotkey: "hot"}
}

func TestWalletFromEnv(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want Wallet
	}{
		"default":       {map[string]string{"HOME": "/home/a"}, Wallet{"/home/a/.bittensor/wallets", "default", "default"}},
		"bt":            {map[string]string{"HOME": "/h", "BT_WALLET_PATH": "~/w/", "BT_WALLET_NAME": "n", "BT_WALLET_HOTKEY": "k"}, Wallet{"/h/w", "n", "k"}},
		"agon first":    {map[string]string{"AGON_WALLET_PATH": "/x", "BT_WALLET_PATH": "/y"}, Wallet{"/x", "default", "default"}},
		"seeds' names":  {map[string]string{"BT_WALLET_PATH": "/y", "WALLET_NAME": "n", "WALLET_HOTKEY": "k"}, Wallet{"/y", "n", "k"}},
		"other's tilde": {map[string]string{"HOME": "/h", "BT_WALLET_PATH": "~bob/w"}, Wallet{"~bob/w", "default", "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WalletFromEnv(func(k string) string { return c.env[k] }); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCreateAndLoadHotkey(t *testing.T) {
	for _, uri := range []string{"phrase", "//Alice", "//Alice/soft"} {
		t.Run(uri, func(t *testing.T) {
			w := testWallet(t)
			k, err := NewKey()
			if uri != "phrase" {
				k, err = KeyFromURI(uri)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := w.CreateHotkey(k); err != nil {
				t.Fatal(err)
			}
			back, err := w.LoadHotkey()
			if err != nil || back.SS58() != k.SS58() {
				t.Fatalf("load: %v %v", back, err)
			}
			if address, err := w.HotkeyAddress(); err != nil || address != k.SS58() {
				t.Errorf("address: %s %v", address, err)
			}
			for path, mode := range map[string]os.FileMode{
				w.HotkeyPath(): 0o600, w.HotkeyPubPath(): 0o600, filepath.Dir(w.HotkeyPath()): 0o700, w.Dir(): 0o700,
			} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v %v", path, info.Mode(), err)
				}
			}
			// A reader of map<string, string> must be able to read both files.
			for _, path := range []string{w.HotkeyPath(), w.HotkeyPubPath()} {
				b, _ := os.ReadFile(path)
				var m map[string]string
				if err := json.Unmarshal(b, &m); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				if _, ok := m["cryptoType"]; ok {
					t.Errorf("%s has cryptoType", path)
				}
				if path == w.HotkeyPubPath() && len(m) != 3 {
					t.Errorf("public file has %d fields", len(m))
				}
			}
			if err := w.CreateHotkey(mustURI(t, "//Bob")); !errors.Is(err, ErrKeyfileExists) {
				t.Errorf("second create: %v", err)
			}
			if back, err := w.LoadHotkey(); err != nil || back.SS58() != k.SS58() {
				t.Errorf("after the second create: %v %v", back, err)
			}
			entries, _ := os.ReadDir(filepath.Dir(w.HotkeyPath()))
			if len(entries) != 2 {
				t.Errorf("files left over: %v", entries)
			}
		})
	}
}

func TestCreateHotkeyRace(t *testing.T) {
	w := testWallet(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			k, err := NewKey()
			if err != nil {
				t.Error(err)
				return
			}
			if err := w.CreateHotkey(k); err == nil {
				won.Add(1)
			} else if !errors.Is(err, ErrKeyfileExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d creations won", won.Load())
	}
}

func TestColdkey(t *testing.T) {
	w, k := testWallet(t), mustURI(t, "//Alice")
	if err := w.CreateColdkeyPub(k.SS58()); err != nil {
		t.Fatal(err)
	}
	if address, err := w.ColdkeyAddress(); err != nil || address != aliceSS58 {
		t.Errorf("%s %v", address, err)
	}
	if _, err := os.Stat(w.ColdkeyPath()); !os.IsNotExist(err) {
		t.Error("a secret coldkey was written")
	}
	if err := w.CreateColdkey(mustURI(t, "//Bob")); !errors.Is(err, ErrKeyfileExists) {
		t.Errorf("another coldkey: %v", err)
	}
	w.Name = "second"
	if err := w.CreateColdkey(k); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyfile(w.ColdkeyPath()); !errors.Is(err, ErrColdkey) {
		t.Errorf("coldkey loaded: %v", err)
	}
	link := filepath.Join(w.Dir(), "hotkeys", "hot")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.ColdkeyPath(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := w.LoadHotkey(); !errors.Is(err, ErrColdkey) {
		t.Errorf("coldkey loaded through a link: %v", err)
	}
	if _, err := LoadEncryptedKeyfile(w.ColdkeyPath(), "x"); !errors.Is(err, ErrColdkey) {
		t.Errorf("encrypted coldkey loaded: %v", err)
	}
	// A copy of it under another name, by the wallet's hotkeys, plain or encrypted.
	secret, err := os.ReadFile(w.ColdkeyPath())
	if err != nil {
		t.Fatal(err)
	}
	w.Hotkey = "copy"
	if err := os.WriteFile(w.HotkeyPath(), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.LoadHotkey(); !errors.Is(err, ErrColdkey) {
		t.Errorf("a copied coldkey: %v", err)
	}
	if _, err := (&Unlocker{}).Key(w.HotkeyPath()); !errors.Is(err, ErrColdkey) {
		t.Errorf("a copied coldkey, unlocked: %v", err)
	}
	// A link to a hotkey elsewhere is compared with the wallet that it lies in, and with its own.
	far := w
	far.Name, far.Hotkey = "far", "link"
	if err := os.MkdirAll(filepath.Dir(far.HotkeyPath()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.HotkeyPath(), far.HotkeyPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := far.LoadHotkey(); !errors.Is(err, ErrColdkey) {
		t.Errorf("a link to a copied coldkey: %v", err)
	}
	w.Hotkey = "sound"
	if err := w.CreateHotkey(mustURI(t, "//Bob")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.LoadHotkey(); err != nil {
		t.Errorf("a hotkey beside it: %v", err)
	}
	w.Hotkey = "coldkey"
	if err := w.CreateHotkey(k); err == nil {
		t.Error("a hotkey of the name coldkey was made")
	}
}

func TestSubnetFromEnv(t *testing.T) {
	for _, c := range []struct {
		env     map[string]string
		network string
		netuid  uint16
		ok, bad bool
	}{
		{env: nil},
		{env: map[string]string{"NETWORK": "test", "NETUID": "11"}, network: "test", netuid: 11, ok: true},
		{env: map[string]string{"AGON_NETWORK": "finney", "NETWORK": "test", "AGON_NETUID": "0", "NETUID": "11"}, network: "finney", ok: true},
		{env: map[string]string{"NETWORK": "finney"}, network: "finney"},
		{env: map[string]string{"NETUID": "65536"}, bad: true},
		{env: map[string]string{"NETUID": "x"}, bad: true},
	} {
		network, netuid, ok, err := SubnetFromEnv(func(k string) string { return c.env[k] })
		if network != c.network || netuid != c.netuid || ok != c.ok || (err != nil) != c.bad {
			t.Errorf("%v: %s %d %t %v", c.env, network, netuid, ok, err)
		}
	}
}

func TestUnlockerOpensOnce(t *testing.T) {
	w := testWallet(t)
	if err := w.CreateHotkey(mustURI(t, "//Alice")); err != nil {
		t.Fatal(err)
	}
	u := &Unlocker{Getenv: func(string) string { return "" }}
	first, err := u.Key(w.HotkeyPath())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.HotkeyPath()); err != nil {
		t.Fatal(err)
	}
	if again, err := u.Key(w.HotkeyPath()); err != nil || again != first {
		t.Errorf("second time: %v %v", again, err)
	}
	locked := filepath.Join(t.TempDir(), "hot")
	if err := os.WriteFile(locked, vectorFile(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Key(locked); !errors.Is(err, ErrKeyfileEncrypted) {
		t.Errorf("nobody to ask: %v", err)
	}
	u.Ask = func(string) (string, error) { return "", errors.New("terminal is gone") }
	if _, err := u.Key(locked); err == nil || !strings.Contains(err.Error(), "terminal is gone") {
		t.Errorf("asking failed: %v", err)
	}
	u.Getenv = func(string) string { return "\xff" }
	if _, err := u.Key(locked); err == nil || !strings.Contains(err.Error(), "base64") {
		t.Errorf("broken variable: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	w := testWallet(t)
	if _, err := w.LoadHotkey(); !errors.Is(err, ErrKeyfileMissing) {
		t.Errorf("missing: %v", err)
	}
	if err := w.CreateHotkey(mustURI(t, "//Alice")); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o601, 0o660} {
		if err := os.Chmod(w.HotkeyPath(), mode); err != nil {
			t.Fatal(err)
		}
		_, err := w.LoadHotkey()
		if !errors.Is(err, ErrKeyfileOpen) || !strings.Contains(err.Error(), "chmod 600 "+w.HotkeyPath()) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	dir := w
	dir.Hotkey = "d"
	if err := os.Mkdir(dir.HotkeyPath(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.LoadHotkey(); err == nil {
		t.Error("directory accepted")
	}
	for _, name := range []string{"", "..", ".x", "a/b", "xpub.txt", strings.Repeat("a", 65), "a\x00b"} {
		bad := w
		bad.Hotkey = name
		if _, err := bad.LoadHotkey(); err == nil || errors.Is(err, ErrKeyfileMissing) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

func TestParseKeyfileForms(t *testing.T) {
	alice, bob := mustURI(t, "//Alice"), mustURI(t, "//Bob")
	leo := mustURI(t, leopard)
	private := func(k *Key) string { b, _ := k.Private(); return "0x" + hex.EncodeToString(b) }
	seed := func(k *Key) string { return "0x" + hex.EncodeToString(k.Seed()) }
	edAlice, err := KeyFromSeed(Ed25519, alice.Seed())
	if err != nil {
		t.Fatal(err)
	}
	edPhrase, err := KeyFromMnemonic(Ed25519, leopard, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file    string
		address string // "" = refused
		public  bool   // no secret
	}{
		"private only":           {`{"ss58Address":"` + aliceSS58 + `","privateKey":"` + private(alice) + `"}`, aliceSS58, false},
		"phrase first":           {`{"secretPhrase":"` + leopard + `","secretSeed":"` + seed(alice) + `"}`, leo.SS58(), false},
		"seed before private":    {`{"secretSeed":"` + seed(bob) + `","privateKey":"` + private(alice) + `"}`, bob.SS58(), false},
		"address decides":        {`{"secretPhrase":"` + leopard + `","privateKey":"` + private(alice) + `","ss58Address":"` + aliceSS58 + `"}`, aliceSS58, false},
		"nulls":                  {`{"secretPhrase":null,"secretSeed":null,"privateKey":"` + private(alice) + `","ss58Address":null}`, aliceSS58, false},
		"leading blank key":      {`{" ss58Address":"` + aliceSS58 + `","secretSeed":"` + seed(alice) + `"}`, aliceSS58, false},
		"raw utf-8 seed":         {`{"secretSeed":"0xabcdefghijklmnopqrstuvwxyzabcdef","privateKey":"` + private(alice) + `"}`, aliceSS58, false},
		"ed25519 unnamed":        {`{"ss58Address":"` + edAlice.SS58() + `","secretSeed":"` + seed(alice) + `"}`, edAlice.SS58(), false},
		"ed25519 number":         {`{"cryptoType":0,"secretPhrase":"` + leopard + `"}`, edPhrase.SS58(), false},
		"ed25519 text":           {`{"cryptoType":"0","secretPhrase":"` + leopard + `"}`, edPhrase.SS58(), false},
		"newer fields":           {`{"cryptoType":1,"accountType":"x","signingScheme":{"a":1},"secretSeed":"` + seed(alice) + `"}`, aliceSS58, false},
		"public":                 {`{"accountId":"0x` + alicePub + `","publicKey":"0x` + alicePub + `","ss58Address":"` + aliceSS58 + `"}`, aliceSS58, true},
		"public without address": {`{"publicKey":"0x` + alicePub + `"}`, aliceSS58, true},
		"bare seed":              {seed(alice)[2:] + "\n", aliceSS58, false},
		"bare 0x seed":           {seed(alice), aliceSS58, false},
		"bare private":           {private(alice), aliceSS58, false},
		"bare phrase":            {"  " + strings.ReplaceAll(leopard, " ", "\n") + "\n", leo.SS58(), false},

		"odd cryptoType":        {`{"cryptoType":2,"secretSeed":"` + seed(alice) + `"}`, "", false},
		"object cryptoType":     {`{"cryptoType":{},"secretSeed":"` + seed(alice) + `"}`, "", false},
		"wrong address":         {`{"ss58Address":"` + bob.SS58() + `","secretSeed":"` + seed(alice) + `"}`, "", false},
		"address not its key":   {`{"ss58Address":"` + bob.SS58() + `","publicKey":"0x` + alicePub + `"}`, "", false},
		"foreign prefix":        {`{"ss58Address":"16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2"}`, "", false},
		"number as seed":        {`{"secretSeed":5}`, "", false},
		"half a file":           {`{"secretSeed":"` + seed(alice)[:20], "", false},
		"nothing in it":         {`{}`, "", false},
		"empty":                 {" \n", "", false},
		"list":                  {`[1]`, "", false},
		"short hex":             {"abcd", "", false},
		"thirteen words":        {leopard + " review", "", false},
		"too large":             {strings.Repeat(" ", maxKeyfile+1), "", false},
		"nacl":                  {"$NACLxxxx", "", false},
		"vault":                 {"$ANSIBLE_VAULT;1.1;AES256\n00", "", false},
		"fernet":                {"gAAAAAxyz", "", false},
		"polkadot.js export":    {`{"encoded":"AA","encoding":{"content":["pkcs8","sr25519"]},"address":"` + aliceSS58 + `"}`, "", false},
		"only broken secrets":   {`{"secretSeed":"0x12","privateKey":"zz"}`, "", false},
		"phrase with bad check": {`{"secretPhrase":"` + leopard[:len(leopard)-6] + `zebra"}`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := ParseKeyfile([]byte(c.file))
			if c.address == "" {
				if err == nil {
					t.Fatalf("accepted as %s", f.Address)
				}
				for _, secret := range []string{seed(alice)[2:18], "leopard", private(alice)[2:18]} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("error shows the secret: %v", err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if f.Address != c.address || (f.Key == nil) != c.public {
				t.Errorf("got %s (secret %t)", f.Address, f.Key != nil)
			}
		})
	}
}

func FuzzParseKeyfile(f *testing.F) {
	f.Add([]byte(`{"ss58Address":"` + aliceSS58 + `","secretSeed":"0x00","cryptoType":"1"}`))
	f.Add([]byte(leopard))
	f.Add([]byte("0x" + strings.Repeat("ab", 64)))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKeyfile(b)
		if err == nil && (k.Address == "" || EncodeSS58(k.Public) != k.Address || k.Key != nil && k.Key.SS58() != k.Address) {
			t.Errorf("inconsistent keyfile %+v", k)
		}
	})
}
