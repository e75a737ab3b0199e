package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/nacl/secretbox"
	"golang.org/x/crypto/scrypt"
)

// Bounds on the scrypt parameters of an export: they come from the file.
// polkadot.js writes N 32768 or 131072, p 1, r 8.
const (
	maxScryptN      = 1 << 18
	maxScryptR      = 16
	maxScryptP      = 16
	maxScryptMemory = 256 << 20 // bytes: 128·N·r
	maxScryptWork   = 1 << 22   // N·r·p
)

// pkcs8Head and pkcs8Divider frame the keys in an export.
var (
	pkcs8Head    = []byte{48, 83, 2, 1, 1, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32}
	pkcs8Divider = []byte{161, 35, 3, 33, 0}
)

// ParsePolkadotExport opens the JSON that polkadot.js and browser wallets
// export an account as, version 3 and the older one without scrypt. The errors
// are ErrWrongPassword, or say what is wrong with the file.
func ParsePolkadotExport(b []byte, password string) (*Key, error) {
	if len(b) > maxKeyfile {
		return nil, fmt.Errorf("export of %d bytes: at most %d", len(b), maxKeyfile)
	}
	var f struct {
		Address  string `json:"address"`
		Encoded  string `json:"encoded"`
		Encoding struct {
			Content words  `json:"content"`
			Type    words  `json:"type"`
			Version string `json:"version"`
		} `json:"encoding"`
	}
	if err := json.Unmarshal(b, &f); err != nil || f.Encoded == "" {
		return nil, errors.New("file is not a polkadot.js export")
	}
	if !slices.Contains(f.Encoding.Content, "sr25519") {
		return nil, fmt.Errorf("export holds %.40q: only sr25519 keys can be read", strings.Join(f.Encoding.Content, ","))
	}
	raw, err := base64.StdEncoding.DecodeString(f.Encoded)
	if h, ok := strings.CutPrefix(f.Encoded, "0x"); ok {
		raw, err = hex.DecodeString(h)
	}
	if err != nil {
		return nil, errors.New("export is damaged: neither base64 nor hex")
	}
	plain, err := openExport(raw, f.Encoding.Type, password)
	if err != nil {
		return nil, err
	}
	key, err := keyFromPKCS8(plain)
	if err != nil {
		return nil, err
	}
	if f.Address != "" {
		// The address may be of any network, or the key in hex.
		pub, _, err := DecodeSS58(f.Address)
		if h, herr := hex.DecodeString(strings.TrimPrefix(f.Address, "0x")); herr == nil && len(h) == 32 {
			pub, err = [32]byte(h), nil
		}
		if err != nil || pub != key.Public() {
			return nil, errors.New("export is not of the address that it names")
		}
	}
	return key, nil
}

// words is a list of strings that older exports give as one string.
type words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

func openExport(raw []byte, types words, password string) ([]byte, error) {
	if !slices.Contains(types, "xsalsa20-poly1305") {
		if slices.Contains(types, "none") {
			return raw, nil
		}
		return nil, errors.New("export is encrypted in an unknown way")
	}
	var key [32]byte
	if slices.Contains(types, "scrypt") {
		const head = 32 + 3*4
		if len(raw) < head {
			return nil, errors.New("export is damaged: too short")
		}
		n, p, r := binary.LittleEndian.Uint32(raw[32:]), binary.LittleEndian.Uint32(raw[36:]), binary.LittleEndian.Uint32(raw[40:])
		if n < 2 || n&(n-1) != 0 || n > maxScryptN || r < 1 || r > maxScryptR || p < 1 || p > maxScryptP ||
			128*uint64(n)*uint64(r) > maxScryptMemory || uint64(n)*uint64(r)*uint64(p) > maxScryptWork {
			return nil, fmt.Errorf("export asks for scrypt with N %d, r %d, p %d: too much, or not a power of two", n, r, p)
		}
		k, err := scrypt.Key([]byte(password), raw[:32], int(n), int(r), int(p), 32)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		copy(key[:], k)
		raw = raw[head:]
	} else {
		copy(key[:], password) // padded with zeros, and cut, to 32 bytes
	}
	if len(raw) < 24 {
		return nil, errors.New("export is damaged: too short")
	}
	plain, ok := secretbox.Open(nil, raw[24:], (*[24]byte)(raw[:24]), &key)
	if !ok {
		return nil, ErrWrongPassword
	}
	return plain, nil
}

func keyFromPKCS8(b []byte) (*Key, error) {
	const secret = 64
	want := len(pkcs8Head) + secret + len(pkcs8Divider) + 32
	if len(b) != want || !bytes.HasPrefix(b, pkcs8Head) || !bytes.Equal(b[len(pkcs8Head)+secret:want-32], pkcs8Divider) {
		return nil, errors.New("export holds no sr25519 key pair")
	}
	key, err := KeyFromPolkadotPrivate(b[len(pkcs8Head) : len(pkcs8Head)+secret])
	if err != nil {
		return nil, errors.New("export holds no sr25519 secret")
	}
	if key.Public() != [32]byte(b[want-32:]) {
		return nil, errors.New("export is damaged: its secret is not that of its public key")
	}
	return key, nil
}
