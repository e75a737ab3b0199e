package corpus

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// spoolRow appends a row to the spool.
func (b *builder) spoolRow(r *Row) error {
	x, err := spoolOf(r)
	if err != nil {
		return err
	}
	return b.spoolBytes(x)
}

func (b *builder) spoolBytes(x []byte) error {
	if _, err := b.w.Write(x); err != nil {
		return fmt.Errorf("spool row: %w", err)
	}
	b.at += int64(len(x))
	return nil
}

// spoolOf is what a row is in the spool: the signature of what it says, its length and itself.
func spoolOf(r *Row) ([]byte, error) {
	var out bytes.Buffer
	var head [spoolHead]byte
	for i, v := range signature(shingles(r.text(), shingleWords)) {
		binary.BigEndian.PutUint64(head[i*8:], v)
	}
	out.Write(head[:])
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // it would reach into the tools
	if err := e.Encode(spooled{Row: r, Harness: harnessOf(r.Messages)}); err != nil {
		return nil, fmt.Errorf("spool row: %w", err)
	}
	b := out.Bytes()
	binary.BigEndian.PutUint32(b[minima*8:], uint32(len(b)-spoolHead)) //nolint:gosec // a row is far below 4 GiB
	return b, nil
}

// spoolHead is what stands before a row in the spool, in bytes: its signature and length.
const spoolHead = minima*8 + 4

// signatureAt reads the signature of a row back from the spool.
func (b *builder) signatureAt(k *kept) (s Signature, err error) {
	var head [spoolHead]byte
	if _, err := b.spool.ReadAt(head[:], k.offset); err != nil {
		return s, fmt.Errorf("read spool: %w", err)
	}
	for i := range s {
		s[i] = binary.BigEndian.Uint64(head[i*8:])
	}
	return s, nil
}

// spooled is a row on disk, with what its JSON does not carry.
type spooled struct {
	Row     *Row   `json:"row"`
	Harness []bool `json:"harness"`
}

func harnessOf(list []Message) []bool {
	out := make([]bool, len(list))
	for i, m := range list {
		out[i] = m.harness
	}
	return out
}

// load reads a row back from the spool.
func (b *builder) load(k *kept) (*Row, error) {
	var n [4]byte
	if _, err := b.spool.ReadAt(n[:], k.offset+spoolHead-4); err != nil {
		return nil, fmt.Errorf("read spool: %w", err)
	}
	line := make([]byte, binary.BigEndian.Uint32(n[:]))
	if _, err := b.spool.ReadAt(line, k.offset+spoolHead); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read spool: %w", err)
	}
	var s spooled
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, fmt.Errorf("read spool: %w", err)
	}
	for i := range s.Row.Messages {
		s.Row.Messages[i].harness = s.Harness[i]
	}
	s.Row.Cluster, s.Row.Split = k.cluster, k.split
	if s.Row.Tokens == 0 {
		s.Row.Tokens = Tokens(chatText(s.Row.Messages, s.Row.Tools))
	}
	return s.Row, nil
}

// loaded is a row that was read back, or why not.
type loaded struct {
	k   *kept
	r   *Row
	err error
}

// loads reads the rows of a split back, in their order.
func (b *builder) loads(split string) iter.Seq[loaded] {
	return ahead(func(yield func(*kept) bool) {
		for i := range b.rows {
			if b.rows[i].split == split && !yield(&b.rows[i]) {
				return
			}
		}
	}, func(k *kept) loaded {
		r, err := b.load(k)
		return loaded{k, r, err}
	})
}
