package surface

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agon-arena/agon/internal/gitdiff"
)

// binaryHunk is one direction of a binary patch.
type binaryHunk struct {
	delta  bool
	size   int // inflated
	packed []byte
}

// readBinary reads "literal N" or "delta N" and its lines, and the reverse
// direction if it is there. Nothing here needs that one, but git trips over a
// broken one, so that both must inflate.
func (p *parser) readBinary(s *section) error {
	var err error
	if s.forward, err = p.binaryHunk(); err != nil {
		return err
	}
	l := trimCR(p.text(p.at))
	if strings.HasPrefix(l, "literal ") || strings.HasPrefix(l, "delta ") {
		back, err := p.binaryHunk()
		if err != nil {
			return err
		}
		if _, err := back.inflate(); err != nil {
			return p.fail("the reverse of a binary change: %v", err)
		}
	}
	return nil
}

func (p *parser) binaryHunk() (binaryHunk, error) {
	var h binaryHunk
	l := trimCR(p.text(p.at))
	word, rest, _ := strings.Cut(l, " ")
	n, rest, ok := gitdiff.Number(rest)
	if !ok || rest != "" || word != "literal" && word != "delta" {
		return h, p.fail("binary data begins with neither literal nor delta and a size")
	}
	if n > MaxFile {
		return h, p.fail("binary data of %d bytes, at most %d are allowed", n, MaxFile)
	}
	h.delta, h.size = word == "delta", n
	for p.at++; ; p.at++ {
		if p.at >= len(p.lines) {
			return h, p.fail("binary data is cut short")
		}
		l := trimCR(p.text(p.at))
		if l == "" {
			p.at++
			return h, nil
		}
		b, err := decodeLine(l)
		if err != nil {
			return h, p.fail("%v", err)
		}
		h.packed = append(h.packed, b...)
	}
}

const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// decodeLine decodes a line of git's base 85: a letter for the length, five
// characters for every four bytes.
func decodeLine(l string) ([]byte, error) {
	var n int
	switch c := l[0]; {
	case c >= 'A' && c <= 'Z':
		n = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		n = int(c-'a') + 27
	default:
		return nil, errors.New("bad length of a line of binary data")
	}
	l = l[1:]
	if len(l) != (n+3)/4*5 {
		return nil, errors.New("a line of binary data has another length than it says")
	}
	out := make([]byte, 0, n+3)
	for ; l != ""; l = l[5:] {
		var v uint64
		for i := range 5 {
			d := strings.IndexByte(base85, l[i])
			if d < 0 {
				return nil, errors.New("a character that base 85 does not have")
			}
			v = v*85 + uint64(d)
		}
		if v > 0xffffffff {
			return nil, errors.New("a group of base 85 that is too large")
		}
		out = append(out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return out[:n], nil
}

// inflate returns exactly the bytes that the hunk promises.
func (h *binaryHunk) inflate() ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(h.packed))
	if err != nil {
		return nil, fmt.Errorf("inflate: %w", err)
	}
	defer func() { _ = z.Close() }()
	b, err := io.ReadAll(io.LimitReader(z, int64(h.size)+1))
	if err != nil {
		return nil, fmt.Errorf("inflate: %w", err)
	}
	if len(b) != h.size {
		return nil, fmt.Errorf("binary data does not inflate to the %d bytes that it says", h.size)
	}
	return b, nil
}

// applyBinary makes the new content of a binary section.
func applyBinary(h *binaryHunk, old []byte) ([]byte, error) {
	b, err := h.inflate()
	if err != nil || !h.delta {
		return b, err
	}
	return applyDelta(old, b)
}

var errDelta = errors.New("binary delta is malformed")

// applyDelta carries out git's delta: sizes of source and result, then copies
// from the source and insertions.
func applyDelta(src, delta []byte) ([]byte, error) {
	from, delta, ok := deltaSize(delta)
	if !ok || from != len(src) {
		return nil, errDelta
	}
	size, delta, ok := deltaSize(delta)
	if !ok || size > MaxFile {
		return nil, errDelta
	}
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		switch {
		case op&0x80 != 0:
			var at, n int
			for i := range 7 {
				if op&(1<<i) == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, errDelta
				}
				if i < 4 {
					at |= int(delta[0]) << (8 * i)
				} else {
					n |= int(delta[0]) << (8 * (i - 4))
				}
				delta = delta[1:]
			}
			if n == 0 {
				n = 0x10000
			}
			if at > len(src) || n > len(src)-at || n > size-len(out) {
				return nil, errDelta
			}
			out = append(out, src[at:at+n]...)
		case op == 0 || int(op) > len(delta) || int(op) > size-len(out):
			return nil, errDelta
		default:
			out = append(out, delta[:op]...)
			delta = delta[op:]
		}
	}
	if len(out) != size {
		return nil, errDelta
	}
	return out, nil
}

// deltaSize reads a size of seven bits a byte, lowest first.
func deltaSize(b []byte) (n int, rest []byte, ok bool) {
	for shift := 0; shift < 35; shift += 7 {
		if len(b) == 0 {
			return 0, nil, false
		}
		c := b[0]
		b = b[1:]
		n |= int(c&0x7f) << shift
		if c&0x80 == 0 {
			return n, b, true
		}
	}
	return 0, nil, false
}
