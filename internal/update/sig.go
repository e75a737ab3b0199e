package update

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Namespace is for what release keys sign, as ssh-keygen -Y sign -n takes it.
const Namespace = "agon-release"

// ParseKeys reads public keys in the form of OpenSSH, one a line; blank lines and
// comments are passed over. Any of them may have signed.
func ParseKeys(text string) ([]ssh.PublicKey, error) {
	var out []ssh.PublicKey
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("a release key: %.60q: %w", line, err)
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, errors.New("no release key: want lines such as ssh-ed25519 AAAA…")
	}
	return out, nil
}

// sealed is a signature as OpenSSH's PROTOCOL.sshsig spells it, after the six magic bytes.
type sealed struct {
	Version   uint32
	Key       []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// Verify checks an armoured signature of a file by one of keys.
func Verify(keys []ssh.PublicKey, file, armoured []byte) error {
	block, _ := pem.Decode(armoured)
	if block == nil || block.Type != "SSH SIGNATURE" {
		return errors.New("the signature is not one of ssh-keygen -Y sign")
	}
	const magic = "SSHSIG"
	rest, ok := strings.CutPrefix(string(block.Bytes), magic)
	var s sealed
	if !ok || ssh.Unmarshal([]byte(rest), &s) != nil || s.Version != 1 {
		return errors.New("the signature is not one of ssh-keygen -Y sign")
	}
	if s.Namespace != Namespace {
		return fmt.Errorf("the signature is for %.40q, not for %s", s.Namespace, Namespace)
	}
	var h hash.Hash
	switch s.Hash {
	case "sha256":
		h = sha256.New()
	case "sha512":
		h = sha512.New()
	default:
		return fmt.Errorf("the signature's hash %.20q is not known", s.Hash)
	}
	h.Write(file)
	signed := append([]byte(magic), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{s.Namespace, s.Reserved, s.Hash, string(h.Sum(nil))})...)
	var sig ssh.Signature
	if err := ssh.Unmarshal(s.Signature, &sig); err != nil {
		return fmt.Errorf("read the signature: %w", err)
	}
	for _, k := range keys {
		if string(k.Marshal()) == string(s.Key) {
			if err := k.Verify(signed, &sig); err != nil {
				return fmt.Errorf("the signature does not hold: %w", err)
			}
			return nil
		}
	}
	return errors.New("the signature is by none of the release keys")
}
