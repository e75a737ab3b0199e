// Package scale reads and writes SCALE, the codec of Substrate chains, by the
// types that a runtime's metadata (V14, V15, V16) describes: calls, storage,
// constants, errors and runtime APIs by name. Everything that it reads is
// foreign: sizes, depth and the number of values are bounded, and no input panics.
package scale

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"unicode/utf8"
)

// Errors that callers branch on.
var (
	// ErrShort is wrapped where the input ends too early.
	ErrShort = errors.New("input is too short")
	// ErrLimit is wrapped where a limit of this package is passed.
	ErrLimit = errors.New("limit passed")
	// ErrUnknown is wrapped where the metadata has no such name.
	ErrUnknown = errors.New("not in the metadata")
)

// Limits.
const (
	MaxMetadata = 16 << 20 // bytes of metadata
	MaxDepth    = 128      // nesting of values and of types
	maxValues   = 4 << 20  // values of one decoding
	maxEmpty    = 1 << 16  // elements that take no bytes
	maxTypes    = 1 << 16
	maxNames    = 1 << 12 // length of a list in metadata other than types and documentation
	maxText     = 1 << 20 // bytes of one text in metadata
)

// Reader takes SCALE from bytes. After the first error nothing more is read.
type Reader struct {
	b      []byte
	at     int
	err    error
	values int
}

// NewReader reads b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err is the first error.
func (r *Reader) Err() error { return r.err }

// Left is how many bytes were not read yet.
func (r *Reader) Left() int { return len(r.b) - r.at }

// End is the first error, or one that says that bytes are left over.
func (r *Reader) End() error {
	if r.err == nil && r.Left() > 0 {
		r.err = fmt.Errorf("read SCALE: %d bytes are left over at byte %d", r.Left(), r.at)
	}
	return r.err
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("read SCALE at byte %d: %w", r.at, err)
	}
}

// Bytes takes n bytes. They are a part of the input.
func (r *Reader) Bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > r.Left() {
		r.fail(fmt.Errorf("%w: %d bytes wanted, %d left", ErrShort, n, r.Left()))
		return nil
	}
	b := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

// U8 takes one byte.
func (r *Reader) U8() uint8 {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 takes a little-endian number.
func (r *Reader) U16() uint16 { return uint16(r.uint(2)) }

// U32 takes a little-endian number.
func (r *Reader) U32() uint32 { return uint32(r.uint(4)) }

// U64 takes a little-endian number.
func (r *Reader) U64() uint64 { return r.uint(8) }

func (r *Reader) uint(n int) uint64 {
	var x [8]byte
	copy(x[:], r.Bytes(n))
	return binary.LittleEndian.Uint64(x[:])
}

// Bool takes a byte that is 0 or 1.
func (r *Reader) Bool() bool {
	switch b := r.U8(); b {
	case 0:
		return false
	case 1:
		return true
	default:
		r.fail(fmt.Errorf("%d is not a bool", b))
		return false
	}
}

// Compact takes a compact number of at most 64 bits.
func (r *Reader) Compact() uint64 {
	n := r.CompactBig()
	if n == nil || r.err != nil {
		return 0
	}
	if !n.IsUint64() {
		r.fail(errors.New("compact number of more than 64 bits"))
		return 0
	}
	return n.Uint64()
}

// compactSmall takes a compact number of one of the three short forms.
func (r *Reader) compactSmall() (n uint64, ok bool) {
	if r.err != nil || r.Left() == 0 {
		r.Bytes(1)
		return 0, true
	}
	size := 1 << (r.b[r.at] & 3)
	if size == 8 {
		return 0, false
	}
	n = r.uint(size) >> 2
	if r.err == nil && (size == 4 && n < 1<<14 || size == 2 && n < 1<<6) {
		r.fail(errors.New("compact number is not in its shortest form"))
	}
	return n, true
}

// CompactBig takes a compact number. Only the shortest form of each is taken.
func (r *Reader) CompactBig() *big.Int {
	if n, ok := r.compactSmall(); ok {
		return new(big.Int).SetUint64(n)
	}
	size := int(r.U8()>>2) + 4
	b := r.Bytes(size)
	if b == nil {
		return new(big.Int)
	}
	if b[size-1] == 0 || size == 4 && b[3] < 1<<6 {
		r.fail(errors.New("compact number is not in its shortest form"))
		return new(big.Int)
	}
	return fromLittle(b)
}

// Length takes the length of a list whose elements have at least size bytes each.
func (r *Reader) Length(size int) int {
	n := r.Compact()
	switch {
	case r.err != nil:
		return 0
	case size > 0 && n > uint64(r.Left()/size):
		r.fail(fmt.Errorf("%w: a list of %d, %d bytes left", ErrShort, n, r.Left()))
		return 0
	case size == 0 && n > maxEmpty:
		r.fail(fmt.Errorf("%w: a list of %d empty values, at most %d", ErrLimit, n, maxEmpty))
		return 0
	}
	return int(n)
}

// Blob takes a Vec<u8>. It is a part of the input.
func (r *Reader) Blob() []byte { return r.Bytes(r.Length(1)) }

// Text takes a string.
func (r *Reader) Text() string {
	b := r.Blob()
	if !utf8.Valid(b) {
		r.fail(errors.New("text is not UTF-8"))
		return ""
	}
	return string(b)
}

func fromLittle(b []byte) *big.Int {
	x := make([]byte, len(b))
	for i := range b {
		x[len(b)-1-i] = b[i]
	}
	return new(big.Int).SetBytes(x)
}

// AppendCompact appends n in compact form.
func AppendCompact(b []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(b, byte(n<<2))
	case n < 1<<14:
		return binary.LittleEndian.AppendUint16(b, uint16(n<<2|1))
	case n < 1<<30:
		return binary.LittleEndian.AppendUint32(b, uint32(n<<2|2))
	}
	size := max(4, (bits.Len64(n)+7)/8)
	b = append(b, byte((size-4)<<2|3))
	for range size {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}

// appendCompactBig appends n, which is not negative and has at most 536 bits.
func appendCompactBig(b []byte, n *big.Int) []byte {
	if n.IsUint64() {
		return AppendCompact(b, n.Uint64())
	}
	raw := n.Bytes()
	b = append(b, byte((len(raw)-4)<<2|3))
	for i := len(raw) - 1; i >= 0; i-- {
		b = append(b, raw[i])
	}
	return b
}

// AppendBlob appends v as Vec<u8> or string.
func AppendBlob[T ~string | ~[]byte](b []byte, v T) []byte {
	return append(AppendCompact(b, uint64(len(v))), v...)
}
