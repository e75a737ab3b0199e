package auth

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/nacl/secretbox"
)

// ErrWrongPassword means that a keyfile does not open with the password (or is damaged: the two look alike).
var ErrWrongPassword = errors.New("wrong password, or a damaged keyfile")

const (
	naclPrefix  = "$NACL"
	vaultHeader = "$ANSIBLE_VAULT;1.1;AES256"
)

// naclSalt is the fixed salt of the wallet tools (spec/chain.md 1.3).
var naclSalt = []byte{0x13, 0x71, 0x83, 0xdf, 0xf1, 0x5a, 0x09, 0xbc, 0x9c, 0x90, 0xb5, 0x51, 0x87, 0x39, 0xe9, 0xb1}

// DecryptKeyfile opens an encrypted keyfile of any known form. The NaCl form
// takes 512 MiB and seconds of one core: unlock once per process. The error is
// ErrWrongPassword, or says that the form is not known.
func DecryptKeyfile(b []byte, password string) ([]byte, error) {
	if len(b) > maxKeyfile {
		return nil, fmt.Errorf("keyfile of %d bytes: at most %d", len(b), maxKeyfile)
	}
	switch encryption(b) {
	case "NaCl":
		if len(b) < len(naclPrefix)+24+secretbox.Overhead {
			return nil, ErrWrongPassword // too short to be whole; not worth the derivation
		}
		return openNaCl(naclKey(password), b)
	case "Ansible vault":
		return openVault(b, password)
	case "Fernet":
		key, err := pbkdf2.Key(sha256.New, password, []byte("Iguesscyborgslikemyselfhaveatendencytobeparanoidaboutourorigins"), 10_000_000, 32)
		if err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
		return openFernet(key, b)
	default:
		return nil, errors.New("keyfile is not encrypted in a known form")
	}
}

// EncryptKeyfile writes the NaCl form that the wallet tools write today.
func EncryptKeyfile(plain []byte, password string) ([]byte, error) {
	if password == "" {
		return nil, errors.New("encrypt keyfile: the password is empty")
	}
	var nonce [24]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, fmt.Errorf("read entropy: %w", err)
	}
	return sealNaCl(naclKey(password), nonce, plain), nil
}

func naclKey(password string) *[32]byte {
	return (*[32]byte)(argon2.Key([]byte(password), naclSalt, 8, 512*1024, 1, 32))
}

func sealNaCl(key *[32]byte, nonce [24]byte, plain []byte) []byte {
	out := append([]byte(naclPrefix), nonce[:]...)
	return secretbox.Seal(out, plain, &nonce, key)
}

func openNaCl(key *[32]byte, b []byte) ([]byte, error) {
	b = bytes.TrimPrefix(b, []byte(naclPrefix))
	if len(b) < 24 {
		return nil, ErrWrongPassword
	}
	plain, ok := secretbox.Open(nil, b[24:], (*[24]byte)(b[:24]), key)
	if !ok {
		return nil, ErrWrongPassword
	}
	return plain, nil
}

func openVault(b []byte, password string) ([]byte, error) {
	lines := strings.Fields(string(b))
	if len(lines) < 2 || lines[0] != vaultHeader {
		return nil, errors.New("keyfile is an Ansible vault of another version than 1.1 with AES256")
	}
	outer, err := hex.DecodeString(strings.Join(lines[1:], ""))
	if err != nil {
		return nil, errors.New("keyfile is a damaged Ansible vault: not hex")
	}
	// The body is hex twice: of the text "salt\nhmac\nciphertext", each in hex.
	var parts [3][]byte
	fields := strings.Split(string(outer), "\n")
	if len(fields) != len(parts) {
		return nil, fmt.Errorf("keyfile is a damaged Ansible vault: %d parts, want %d", len(fields), len(parts))
	}
	for i, f := range fields {
		if parts[i], err = hex.DecodeString(f); err != nil {
			return nil, errors.New("keyfile is a damaged Ansible vault: a part is not hex")
		}
	}
	salt, mac, text := parts[0], parts[1], parts[2]
	key, err := pbkdf2.Key(sha256.New, password, salt, 10_000, 80)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	if !validMAC(key[32:64], text, mac) {
		return nil, ErrWrongPassword
	}
	block, err := aes.NewCipher(key[:32])
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	plain := make([]byte, len(text))
	cipher.NewCTR(block, key[64:]).XORKeyStream(plain, text)
	return unpad(plain)
}

// openFernet opens a Fernet token. Its time is not looked at: a keyfile does not age.
func openFernet(key, token []byte) ([]byte, error) {
	text := strings.TrimRight(strings.TrimSpace(string(token)), "=")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	const head, tail = 1 + 8 + aes.BlockSize, sha256.Size // version, time, iv … mac
	if err != nil || len(raw) < head+aes.BlockSize+tail || (len(raw)-head-tail)%aes.BlockSize != 0 || raw[0] != 0x80 {
		return nil, errors.New("keyfile is a damaged Fernet token")
	}
	body, mac := raw[:len(raw)-tail], raw[len(raw)-tail:]
	if !validMAC(key[:16], body, mac) {
		return nil, ErrWrongPassword
	}
	block, err := aes.NewCipher(key[16:])
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	plain := make([]byte, len(body)-head)
	cipher.NewCBCDecrypter(block, body[9:head]).CryptBlocks(plain, body[head:])
	return unpad(plain)
}

func validMAC(key, text, mac []byte) bool {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return hmac.Equal(h.Sum(nil), mac)
}

// unpad removes PKCS#7 padding. The text was authenticated before, so this tells nobody anything.
func unpad(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, ErrWrongPassword
	}
	n := int(b[len(b)-1])
	if n == 0 || n > aes.BlockSize || n > len(b) || !bytes.Equal(b[len(b)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, ErrWrongPassword
	}
	return b[:len(b)-n], nil
}

// LoadEncryptedKeyfile reads an encrypted secret keyfile, but no coldkey (ErrColdkey).
func LoadEncryptedKeyfile(path, password string) (*Key, error) {
	if err := refuseColdkey(path); err != nil {
		return nil, err
	}
	b, err := readKeyfile(path, true)
	if err != nil {
		return nil, err
	}
	if b, err = DecryptKeyfile(b, password); err != nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, err)
	}
	f, err := ParseKeyfile(b)
	if err != nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, err)
	}
	if f.Key == nil {
		return nil, fmt.Errorf("read keyfile %s: %w", path, ErrPublicOnly)
	}
	if err := refuseCopy(path, f.Public); err != nil {
		return nil, err
	}
	return f.Key, nil
}

// CreateEncryptedColdkey writes coldkeypub.txt and the coldkey in the NaCl form.
func (w Wallet) CreateEncryptedColdkey(k *Key, password string) error {
	secret, err := secretJSON(k)
	if err != nil {
		return err
	}
	if secret, err = EncryptKeyfile(secret, password); err != nil {
		return err
	}
	if err := w.CreateColdkeyPub(k.SS58()); err != nil {
		return err
	}
	return createFile(w.ColdkeyPath(), secret)
}

// PasswordFromEnv returns the password that the environment gives for the
// keyfile at path (absolute, ~ expanded): variable PasswordVariable(path),
// base64 of the password XORed with the variable's name. What is not base64 is
// read as bittensor-wallet 2 wrote it: the characters themselves, XORed.
func PasswordFromEnv(getenv func(string) string, path string) (password string, ok bool, err error) {
	name := PasswordVariable(path)
	value := getenv(name)
	if value == "" {
		return "", false, nil
	}
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		if !utf8.ValidString(value) {
			return "", false, fmt.Errorf("environment variable %s is neither base64 nor text", name)
		}
		plain := []rune(value)
		for i := range plain {
			plain[i] ^= rune(name[i%len(name)])
		}
		return string(plain), true, nil
	}
	for i := range raw {
		raw[i] ^= name[i%len(name)]
	}
	return string(raw), true, nil
}

// PasswordVariable names the environment variable of a keyfile's password.
func PasswordVariable(path string) string {
	return "BT_PW_" + strings.NewReplacer("/", "_", ".", "_").Replace(strings.ToUpper(path))
}
