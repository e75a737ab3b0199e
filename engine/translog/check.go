package translog

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agon-arena/agon/client"
)

// CheckProof verifies a proof with the public key of the log (not the proof's
// own word for it) and returns the entry and the head.
func CheckProof(p *client.LogProof, vkey string, witnesses ...string) (Entry, Checkpoint, error) {
	c, err := OpenCheckpoint(p.Checkpoint, vkey, witnesses...)
	if err != nil {
		return Entry{}, c, err
	}
	if p.Index < 0 || p.Index >= c.N {
		return Entry{}, c, fmt.Errorf("check proof: leaf %d is not in a log of %d", p.Index, c.N)
	}
	hashes, err := ParseHashes(p.Hashes)
	if err != nil {
		return Entry{}, c, fmt.Errorf("check proof: %w", err)
	}
	if err := tlog.CheckRecord(hashes, c.N, c.Hash, p.Index, tlog.RecordHash(p.Entry)); err != nil {
		return Entry{}, c, fmt.Errorf("check proof: %w", err)
	}
	e, err := ParseEntry(p.Entry)
	return e, c, err
}

// maxProof bounds the hashes of a proof: twice what a tree of 2^63 leaves needs.
const maxProof = 128

// ParseHashes reads the hashes of a proof, base64.
func ParseHashes(list []string) ([]tlog.Hash, error) {
	if len(list) > maxProof {
		return nil, fmt.Errorf("%d hashes, at most %d", len(list), maxProof)
	}
	out := make([]tlog.Hash, len(list))
	for i, s := range list {
		var err error
		if out[i], err = tlog.ParseHash(s); err != nil {
			return nil, fmt.Errorf("hash %d: not 32 bytes in base64", i)
		}
	}
	return out, nil
}

// HashTexts writes hashes for a proof.
func HashTexts(list []tlog.Hash) []string {
	out := make([]string, len(list))
	for i, h := range list {
		out[i] = h.String()
	}
	return out
}

// Opens reports whether v is what the entry commits to.
func (e Entry) Opens(salt string, v any) error {
	if e.Commitment == "" {
		return errors.New("the entry commits to nothing")
	}
	d, err := Commit(salt, v)
	if err != nil {
		return err
	}
	if d != e.Commitment {
		return errors.New("it is not what the log has committed to")
	}
	return nil
}

// EquivocationError is two signed heads of one log that exclude each other: it
// proves, with the log's key alone, that the log was rewritten or forked.
type EquivocationError struct {
	Old, New string // the notes
	Why      string
}

func (e *EquivocationError) Error() string { return "the log contradicts itself: " + e.Why }

// Advance checks that a head follows one that was seen before. prove gives the
// consistency proof from the old size to the new.
func Advance(old, c Checkpoint, prove func(oldSize int64, c Checkpoint) (tlog.TreeProof, error)) error {
	bad := func(format string, args ...any) error {
		return &EquivocationError{Old: old.Text, New: c.Text, Why: fmt.Sprintf(format, args...)}
	}
	switch {
	case old.N == 0:
		return nil
	case old.Origin != c.Origin:
		return fmt.Errorf("the head is of %q, the one before of %q", c.Origin, old.Origin)
	case c.N == old.N && c.Hash != old.Hash:
		return bad("two heads of %d leaves have different roots", c.N)
	case c.N == old.N:
		return nil
	case c.N < old.N:
		return &StaleError{Seen: old.N}
	}
	p, err := prove(old.N, c)
	if err != nil {
		return fmt.Errorf("prove that the log of %d leaves follows that of %d: %w", c.N, old.N, err)
	}
	if err := tlog.CheckTree(p, c.N, c.Hash, old.N, old.Hash); err != nil {
		return bad("the log of %d leaves does not begin with the %d that were seen before", c.N, old.N)
	}
	return nil
}

// StaleError says that a log shows less than it has shown before.
type StaleError struct{ Seen int64 }

func (e *StaleError) Error() string {
	return fmt.Sprintf("the log shows fewer leaves than the %d that it has shown before", e.Seen)
}

// CheckConsistency checks that the head of a proof follows old, and returns it.
func CheckConsistency(p *client.LogConsistency, old Checkpoint, vkey string) (Checkpoint, error) {
	c, err := OpenCheckpoint(p.Checkpoint, vkey)
	if err != nil {
		return old, err
	}
	hashes, err := ParseHashes(p.Hashes)
	if err != nil {
		return old, fmt.Errorf("check consistency: %w", err)
	}
	return c, Advance(old, c, func(int64, Checkpoint) (tlog.TreeProof, error) { return hashes, nil })
}

// Known is what somebody remembers of a log: its key, and the newest head that
// was seen. It is how a stranger notices that history has changed.
type Known struct {
	Key        string `json:"key"`
	Checkpoint string `json:"checkpoint,omitempty"`
}

// Memory keeps what is known of logs, by the name under which they are reached,
// in one file.
type Memory struct{ Path string }

// maxMemory bounds the file in bytes.
const maxMemory = 8 << 20

// Get returns what is known of a log; ok is false where it is new.
func (m Memory) Get(name string) (k Known, ok bool, err error) {
	all, err := m.read()
	if err != nil {
		return k, false, err
	}
	k, ok = all[name]
	return k, ok, nil
}

// Put remembers k.
func (m Memory) Put(name string, k Known) error {
	all, err := m.read()
	if err != nil {
		return err
	}
	if all[name] == k {
		return nil
	}
	all[name] = k
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("remember log: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(m.Path), 0o700); err != nil {
		return fmt.Errorf("remember log: %w", err)
	}
	return Dir(filepath.Dir(m.Path)).Write(filepath.Base(m.Path), append(b, '\n'), true)
}

func (m Memory) read() (map[string]Known, error) {
	all := map[string]Known{}
	f, err := os.Open(m.Path)
	if errors.Is(err, os.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read known logs: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() > maxMemory {
		return nil, fmt.Errorf("read known logs: %s is larger than %d bytes, or cannot be read", m.Path, maxMemory)
	}
	if err := json.NewDecoder(f).Decode(&all); err != nil {
		return nil, fmt.Errorf("read known logs %s: %w", m.Path, err)
	}
	return all, nil
}
