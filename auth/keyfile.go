package auth

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxKeyfile bounds a keyfile before it is read, in bytes.
const maxKeyfile = 64 << 10

// Keyfile is what a keyfile says. Secrets are only in the key made from it.
type Keyfile struct {
	Address string // SS58, prefix 42
	Public  [32]byte
	Scheme  Scheme
	Key     *Key // nil when the file holds no secret
}

// ParseKeyfile reads the bytes of a keyfile in any form found in the field:
// the wallet JSON (old and new writers), a bare hex seed or private key, or a
// bare mnemonic. Sources are tried as btwallet does (secretPhrase, secretSeed,
// privateKey); one that does not give the stored address is passed over.
func ParseKeyfile(b []byte) (*Keyfile, error) {
	if len(b) > maxKeyfile {
		return nil, fmt.Errorf("keyfile of %d bytes: at most %d", len(b), maxKeyfile)
	}
	if name := encryption(b); name != "" {
		return nil, fmt.Errorf("%w (%s)", ErrKeyfileEncrypted, name)
	}
	text := strings.TrimSpace(string(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))))
	switch {
	case text == "":
		return nil, errors.New("keyfile is empty")
	case text[0] == '{':
		return parseKeyJSON([]byte(text))
	}
	key, err := parseBare(text)
	if err != nil {
		return nil, err
	}
	return &Keyfile{Address: key.SS58(), Public: key.Public(), Scheme: key.Scheme(), Key: key}, nil
}

// encryption names the way in which b is encrypted, by its first bytes.
func encryption(b []byte) string {
	for _, e := range []struct{ prefix, name string }{
		{"$NACL", "NaCl"}, {"$ANSIBLE_VAULT", "Ansible vault"}, {"gAAAAA", "Fernet"},
	} {
		if bytes.HasPrefix(b, []byte(e.prefix)) {
			return e.name
		}
	}
	return ""
}

func parseBare(text string) (*Key, error) {
	if raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x")); err == nil {
		switch len(raw) {
		case 32:
			return KeyFromSeed(Sr25519, raw)
		case 64:
			return KeyFromPrivate(raw)
		default:
			return nil, fmt.Errorf("keyfile is %d hex digits: want 64 (seed) or 128 (private key)", 2*len(raw))
		}
	}
	words := strings.Fields(text)
	if !slices.Contains([]int{12, 15, 18, 21, 24}, len(words)) {
		return nil, errors.New("keyfile is neither JSON, nor hex, nor a mnemonic")
	}
	return KeyFromMnemonic(Sr25519, strings.Join(words, " "), "")
}

func parseKeyJSON(b []byte) (*Keyfile, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		// The decoder's error may quote the content.
		return nil, errors.New("keyfile is not a JSON object")
	}
	if raw["encoded"] != nil && raw["encoding"] != nil {
		return nil, errors.New("keyfile is a polkadot.js export: import it with its password first")
	}
	fields := map[string]string{}
	for _, name := range []string{"accountId", "publicKey", "privateKey", "secretPhrase", "secretSeed", "ss58Address", " ss58Address"} {
		var s *string
		if v, ok := raw[name]; ok {
			if err := json.Unmarshal(v, &s); err != nil {
				return nil, fmt.Errorf("keyfile field %q is not a string", name)
			}
			if s != nil {
				fields[name] = *s
			}
		}
	}
	if fields["ss58Address"] == "" {
		fields["ss58Address"] = fields[" ss58Address"] // an old writer's key
	}
	scheme, err := parseCryptoType(raw["cryptoType"])
	if err != nil {
		return nil, err
	}
	f := &Keyfile{Scheme: scheme}
	if err := f.readPublic(fields); err != nil {
		return nil, err
	}
	return f, f.readSecret(fields)
}

// parseCryptoType accepts a number or a numeric string; absent means sr25519.
func parseCryptoType(v json.RawMessage) (Scheme, error) {
	if v == nil || string(v) == "null" {
		return Sr25519, nil
	}
	n, err := strconv.Atoi(strings.Trim(string(v), `"`))
	if err != nil || n != int(Ed25519) && n != int(Sr25519) {
		return 0, errors.New("keyfile field \"cryptoType\": want 0 (ed25519) or 1 (sr25519)")
	}
	return Scheme(n), nil
}

// readPublic takes address and public key from whichever fields are there and
// refuses a file whose fields disagree.
func (f *Keyfile) readPublic(fields map[string]string) error {
	if s := fields["ss58Address"]; s != "" {
		pub, err := ParseSS58(s)
		if err != nil {
			return fmt.Errorf("keyfile field \"ss58Address\": %w", err)
		}
		f.Public, f.Address = pub, s
	}
	for _, name := range []string{"publicKey", "accountId"} {
		s := fields[name]
		if s == "" {
			continue
		}
		raw, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
		if err != nil || len(raw) != 32 {
			return fmt.Errorf("keyfile field %q: want 32 bytes of hex", name)
		}
		pub := [32]byte(raw)
		if f.Address != "" && pub != f.Public {
			return fmt.Errorf("keyfile field %q is not the key of its address", name)
		}
		f.Public, f.Address = pub, EncodeSS58(pub)
	}
	return nil
}

// readSecret finds the first source that gives the stored address; with no
// stored address the first well-formed source stands.
func (f *Keyfile) readSecret(fields map[string]string) error {
	found := false
	for _, name := range []string{"secretPhrase", "secretSeed", "privateKey"} {
		if fields[name] == "" {
			continue
		}
		found = true
		other := Sr25519 + Ed25519 - f.Scheme
		for _, scheme := range []Scheme{f.Scheme, other} {
			key, err := keyFromField(scheme, name, fields[name])
			if err != nil || f.Address != "" && key.Public() != f.Public {
				continue
			}
			f.Key, f.Scheme, f.Address, f.Public = key, scheme, key.SS58(), key.Public()
			return nil
		}
	}
	switch {
	case found && f.Address != "":
		return fmt.Errorf("no secret in the keyfile gives its address %s", f.Address)
	case found:
		return errors.New("no secret in the keyfile is well-formed")
	case f.Address == "":
		return errors.New("keyfile holds neither secret nor address")
	}
	return nil
}

func keyFromField(scheme Scheme, name, value string) (*Key, error) {
	if name == "secretPhrase" {
		return KeyFromMnemonic(scheme, value, "")
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(value, "0x"))
	if err != nil {
		// btwallet writes a seed that happens to be UTF-8 as raw text; another field has the secret then.
		return nil, errors.New("not hex")
	}
	switch {
	case name == "secretSeed":
		return KeyFromSeed(scheme, raw)
	case scheme == Ed25519 && len(raw) == 64:
		return KeyFromSeed(Ed25519, raw[:32])
	default:
		return KeyFromPrivate(raw)
	}
}

// secretJSON is the keyfile of k. Every value is a string and cryptoType is
// left out for sr25519: btwallet 2025 rejects a file with anything else.
func secretJSON(k *Key) ([]byte, error) {
	private, err := k.Private()
	if err != nil {
		return nil, err
	}
	f := keyJSON{
		AccountID: "0x" + k.PublicHex(), PublicKey: "0x" + k.PublicHex(),
		PrivateKey: "0x" + hex.EncodeToString(private), SecretPhrase: k.phrase, Address: k.SS58(),
	}
	if k.seed != nil {
		f.SecretSeed = "0x" + hex.EncodeToString(k.seed)
	}
	if k.scheme == Ed25519 {
		f.CryptoType = "0"
	}
	return json.Marshal(f)
}

// publicJSON is the public file of an address.
func publicJSON(pub [32]byte) ([]byte, error) {
	h := "0x" + hex.EncodeToString(pub[:])
	return json.Marshal(keyJSON{AccountID: h, PublicKey: h, Address: EncodeSS58(pub)})
}

type keyJSON struct {
	AccountID    string `json:"accountId"`
	PublicKey    string `json:"publicKey"`
	PrivateKey   string `json:"privateKey,omitempty"`
	SecretPhrase string `json:"secretPhrase,omitempty"`
	SecretSeed   string `json:"secretSeed,omitempty"`
	Address      string `json:"ss58Address"`
	CryptoType   string `json:"cryptoType,omitempty"`
}
