package translog

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Key signs heads of a log, or cosigns those of others. Its origin is the name
// under which its signatures stand.
type Key struct {
	Origin string
	signer note.Signer
	secret ed25519.PrivateKey
	salts  []byte // what salts of leaves are made of; it stays when the key changes
	vkey   string
}

// Public is the verifier key: NAME+HASH+BASE64, as golang.org/x/mod/sumdb/note reads it.
func (k *Key) Public() string { return k.vkey }

// LoadKey reads the key in the file at path, or makes one (mode 0600). name
// makes the origin of a new key from its public half.
func LoadKey(path string, name func(public ed25519.PublicKey) string) (*Key, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		pub, sec, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make log key: %w", err)
		}
		origin := name(pub)
		b = []byte(skeyOf(origin, sec) + "\n")
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("make log key: %w", err)
		}
		_, err = f.Write(b)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return nil, fmt.Errorf("make log key: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("read log key: %w", err)
	}
	line, rest, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	k, err := ParseKey(line)
	if err != nil {
		return nil, err
	}
	if salts, ok := strings.CutPrefix(rest, saltLine); ok {
		if k.salts, err = hex.DecodeString(salts); err != nil || len(k.salts) != ed25519.SeedSize {
			return nil, errors.New("read log key: the secret of the salts is not 32 bytes in hex")
		}
	}
	return k, nil
}

// saltLine begins the second line of a key's file, once the key was changed.
const saltLine = "salts "

// skeyOf writes a key as golang.org/x/mod/sumdb/note does.
func skeyOf(origin string, sec ed25519.PrivateKey) string {
	pub := sec.Public().(ed25519.PublicKey)
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", origin, keyHash(origin, algEd25519, pub), base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, sec.Seed()...)))
}

// ParseKey reads a private key: PRIVATE+KEY+NAME+HASH+BASE64.
func ParseKey(skey string) (*Key, error) {
	s, err := note.NewSigner(skey)
	if err != nil {
		return nil, fmt.Errorf("read log key: %w", err)
	}
	parts := strings.SplitN(skey, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return nil, errors.New("read log key: it is not a signed note's Ed25519 key")
	}
	k := &Key{Origin: s.Name(), signer: s, secret: ed25519.NewKeyFromSeed(raw[1:]), salts: raw[1:]}
	if k.vkey, err = note.NewEd25519VerifierKey(k.Origin, k.secret.Public().(ed25519.PublicKey)); err != nil {
		return nil, fmt.Errorf("read log key: %w", err)
	}
	return k, nil
}

// salt is that of the leaf at an index.
func (k *Key) salt(index int64) string {
	m := hmac.New(sha256.New, k.salts)
	fmt.Fprintf(m, "agon-log-salt-v1\n%d", index)
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// Types of signatures in a note.
const (
	algEd25519     = 0x01
	algCosignature = 0x04 // tlog-cosignature v1
)

func keyHash(name string, alg byte, pub ed25519.PublicKey) uint32 {
	h := sha256.New()
	h.Write([]byte(name + "\n"))
	h.Write([]byte{alg})
	h.Write(pub)
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// Checkpoint is a signed head of a log.
type Checkpoint struct {
	Origin string
	tlog.Tree
	// Commits and CommitHash are how often the platform's database had been
	// written by then, and the running hash of it; 0 and empty: not said.
	Commits    int64
	CommitHash string
	Text       string // the note: what was signed, and the signatures
	// Witnesses are the cosignatures that were checked, by name of the witness.
	Witnesses map[string]time.Time
}

// body is what is signed.
func (c *Checkpoint) body() string {
	s := fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.N, base64.StdEncoding.EncodeToString(c.Hash[:]))
	if c.Commits > 0 {
		s += fmt.Sprintf("commits %d %s\n", c.Commits, c.CommitHash)
	}
	return s
}

// Sign signs a head.
func (k *Key) Sign(c Checkpoint) (Checkpoint, error) {
	c.Origin = k.Origin
	b, err := note.Sign(&note.Note{Text: c.body()}, k.signer)
	if err != nil {
		return c, fmt.Errorf("sign head of log: %w", err)
	}
	c.Text = string(b)
	return c, nil
}

// maxCheckpoint bounds a checkpoint with its signatures, in bytes.
const maxCheckpoint = 64 << 10

// OpenCheckpoint reads a head that the log with key vkey signed, and checks the
// cosignatures of the witnesses named.
func OpenCheckpoint(text, vkey string, witnesses ...string) (Checkpoint, error) {
	var c Checkpoint
	if len(text) > maxCheckpoint {
		return c, fmt.Errorf("read checkpoint: %d bytes, at most %d", len(text), maxCheckpoint)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return c, fmt.Errorf("read key of log: %w", err)
	}
	list := []note.Verifier{v}
	for _, w := range witnesses {
		x, err := witnessVerifier(w)
		if err != nil {
			return c, err
		}
		list = append(list, x)
	}
	n, err := note.Open([]byte(text), note.VerifierList(list...))
	if err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	signed := false
	for _, s := range n.Sigs {
		if s.Name == v.Name() && s.Hash == v.KeyHash() {
			signed = true
			continue
		}
		if at, ok := cosignedAt(s); ok {
			if c.Witnesses == nil {
				c.Witnesses = map[string]time.Time{}
			}
			c.Witnesses[s.Name] = at
		}
	}
	if !signed {
		return c, errors.New("read checkpoint: the log's own signature is missing")
	}
	if err := c.parse(n.Text); err != nil {
		return c, err
	}
	if c.Origin != v.Name() {
		return c, fmt.Errorf("read checkpoint: it is of %q, the key of %q", c.Origin, v.Name())
	}
	c.Text = text
	return c, nil
}

func (c *Checkpoint) parse(body string) error {
	lines := strings.Split(body, "\n")
	if len(lines) < 4 || lines[len(lines)-1] != "" || lines[0] == "" {
		return errors.New("read checkpoint: it needs an origin, a size and a root hash, a line each")
	}
	c.Origin = lines[0]
	n, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != lines[1] {
		return fmt.Errorf("read checkpoint: size %.40q is not a number from 0", lines[1])
	}
	h, err := tlog.ParseHash(lines[2])
	if err != nil {
		return errors.New("read checkpoint: the root is not a hash in base64")
	}
	c.N, c.Hash = n, h
	for _, l := range lines[3 : len(lines)-1] {
		f := strings.Fields(l)
		if len(f) == 3 && f[0] == "commits" {
			if c.Commits, err = strconv.ParseInt(f[1], 10, 64); err != nil || c.Commits < 0 {
				return fmt.Errorf("read checkpoint: commits %.40q is not a number from 0", f[1])
			}
			c.CommitHash = f[2]
		}
	}
	return nil
}

// Cosign adds k's cosignature (tlog-cosignature v1) to a head that was checked.
func (k *Key) Cosign(c Checkpoint, at time.Time) (string, error) {
	s := cosigner{k, at}
	b, err := note.Sign(&note.Note{Text: bodyOf(c.Text)}, s)
	if err != nil {
		return "", fmt.Errorf("cosign checkpoint: %w", err)
	}
	_, sig, _ := strings.Cut(string(b), "\n\n")
	return strings.TrimRight(c.Text, "\n") + "\n" + sig, nil
}

func bodyOf(text string) string {
	body, _, _ := strings.Cut(text, "\n\n")
	return body + "\n"
}

// WitnessKey is the public key under which a witness cosigns.
func (k *Key) WitnessKey() string {
	pub := k.secret.Public().(ed25519.PublicKey)
	return fmt.Sprintf("%s+%08x+%s", k.Origin, keyHash(k.Origin, algCosignature, pub), base64.StdEncoding.EncodeToString(append([]byte{algCosignature}, pub...)))
}

type cosigner struct {
	key *Key
	at  time.Time
}

func (s cosigner) Name() string { return s.key.Origin }
func (s cosigner) KeyHash() uint32 {
	return keyHash(s.key.Origin, algCosignature, s.key.secret.Public().(ed25519.PublicKey))
}

func cosigned(at int64, body []byte) []byte {
	return append([]byte(fmt.Sprintf("cosignature/v1\ntime %d\n", at)), body...)
}

func (s cosigner) Sign(msg []byte) ([]byte, error) {
	at := s.at.Unix()
	b := binary.BigEndian.AppendUint64(nil, uint64(at))
	return append(b, ed25519.Sign(s.key.secret, cosigned(at, msg))...), nil
}

// witness verifies cosignatures.
type witness struct {
	name string
	hash uint32
	pub  ed25519.PublicKey
}

func (w witness) Name() string    { return w.name }
func (w witness) KeyHash() uint32 { return w.hash }
func (w witness) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	at := binary.BigEndian.Uint64(sig)
	return at < 1<<62 && ed25519.Verify(w.pub, cosigned(int64(at), msg), sig[8:])
}

func witnessVerifier(vkey string) (note.Verifier, error) {
	bad := fmt.Errorf("read key of witness %.60q: want NAME+HASH+BASE64 of a cosignature key", vkey)
	name, rest, ok := strings.Cut(vkey, "+")
	hash, key, ok2 := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(key)
	if !ok || !ok2 || err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != algCosignature {
		return nil, bad
	}
	w := witness{name: name, pub: raw[1:]}
	w.hash = keyHash(name, algCosignature, w.pub)
	if b, err := hex.DecodeString(hash); err != nil || len(b) != 4 || binary.BigEndian.Uint32(b) != w.hash {
		return nil, bad
	}
	return w, nil
}

// cosignedAt reads the time of a cosignature.
func cosignedAt(s note.Signature) (time.Time, bool) {
	b, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(b) != 4+8+ed25519.SignatureSize {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(b[4:])), 0).UTC(), true
}
