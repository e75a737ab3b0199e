package translog

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/mod/sumdb/note"
)

// A log's key can change: the old key signs that the new one follows it. Who
// knows any earlier key can follow the statements to the one of today.

// Succession says that a key follows another: a note that the old key signed.
type Succession struct {
	Old  string `json:"old"`  // public key
	New  string `json:"new"`  // public key
	Note string `json:"note"` // signed by the old key
}

// pathKeys is where the successions stand, oldest first, as JSON.
const pathKeys = "keys"

// maxSuccessions bounds how many successions are followed.
const maxSuccessions = 1000

const successionHead = "agon-log-key-v1"

// Succeed makes a new key that follows k, under the same origin and with the
// same salts, and what its file holds.
func (k *Key) Succeed() (file []byte, s Succession, err error) {
	pub, sec, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, s, fmt.Errorf("make log key: %w", err)
	}
	s.Old = k.vkey
	if s.New, err = note.NewEd25519VerifierKey(k.Origin, pub); err != nil {
		return nil, s, fmt.Errorf("make log key: %w", err)
	}
	b, err := note.Sign(&note.Note{Text: successionText(s)}, k.signer)
	if err != nil {
		return nil, s, fmt.Errorf("sign for the next log key: %w", err)
	}
	s.Note = string(b)
	return fmt.Appendf(nil, "%s\n%s%s\n", skeyOf(k.Origin, sec), saltLine, hex.EncodeToString(k.salts)), s, nil
}

func successionText(s Succession) string {
	return successionHead + "\n" + s.Old + "\n" + s.New + "\n"
}

// Check verifies that the old key has named the new one.
func (s Succession) Check() error {
	v, err := note.NewVerifier(s.Old)
	if err != nil {
		return fmt.Errorf("read key of log: %w", err)
	}
	n, err := note.Open([]byte(s.Note), note.VerifierList(v))
	if err != nil {
		return fmt.Errorf("read the statement on the next key: %w", err)
	}
	if n.Text != successionText(s) {
		return errors.New("read the statement on the next key: it names others")
	}
	return nil
}

// ReadKeys returns the successions of a log.
func ReadKeys(st Storage) ([]Succession, error) {
	b, err := st.Read(pathKeys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read keys of log: %w", err)
	}
	return ParseKeys(b)
}

// ParseKeys reads the file of successions, each checked.
func ParseKeys(b []byte) ([]Succession, error) {
	var list []Succession
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("read keys of log: %w", err)
	}
	if len(list) > maxSuccessions {
		return nil, fmt.Errorf("read keys of log: %d, at most %d", len(list), maxSuccessions)
	}
	for i, s := range list {
		if err := s.Check(); err != nil {
			return nil, err
		}
		if i > 0 && list[i-1].New != s.Old {
			return nil, errors.New("read keys of log: one does not follow the one before")
		}
	}
	return list, nil
}

// AddKey writes one more succession.
func AddKey(st Storage, s Succession) error {
	list, err := ReadKeys(st)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(append(list, s), "", "  ")
	if err != nil {
		return fmt.Errorf("write keys of log: %w", err)
	}
	return st.Write(pathKeys, append(b, '\n'), true)
}

// Current follows successions from a key to the newest; it is the key itself
// where none begins at it.
func Current(key string, list []Succession) string {
	for _, s := range list {
		if s.Old == key {
			key = s.New
		}
	}
	return key
}
