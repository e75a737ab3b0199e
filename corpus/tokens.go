package corpus

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

// encoding is made once: its tables are large.
var encoding = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) })

// maxUnbroken is the longest run of letters, of blanks or of signs that is
// given to the tokenizer whole, in bytes: its time grows with the square of a
// run. A longer run is counted in pieces, which is at most a few tokens off.
const maxUnbroken = 1024

// Tokens counts s in tokens of o200k_base, in time that grows with its length.
//
// The tokenizer's expression joins no two bytes across some places, whatever stands
// around them (cuts): s is cut there, and what a piece counts is remembered, for texts
// are made of the same pieces.
func Tokens(s string) int {
	enc, err := encoding()
	if err != nil {
		return len(s) // never less than the truth
	}
	known := pieces.Get().(map[string]uint8)
	defer func() { pieces.Put(known) }()
	total, from := 0, 0
	for i := 1; i <= len(s); i++ {
		if i < len(s) && !cuts(kinds[s[i-1]], kinds[s[i]]) {
			continue
		}
		piece := s[from:i]
		from = i
		if kinds[piece[0]] == byteDigit && strings.Trim(piece, "0123456789") == "" { // one token for three
			total += (len(piece) + 2) / 3
			continue
		}
		if len(piece) > maxPiece {
			total += whole(enc, piece)
			continue
		}
		n, ok := known[piece]
		if !ok {
			n = uint8(whole(enc, piece)) //nolint:gosec // at most a token a byte, and maxPiece bytes
			if len(known) >= maxPieces {
				clear(known)
			}
			known[strings.Clone(piece)] = n
		}
		total += int(n)
	}
	return total
}

// Bounds of what is remembered of pieces, for each goroutine that counts.
const (
	maxPiece  = 48 // bytes
	maxPieces = 1 << 15
)

// pieces remembers the tokens of pieces; what it gives belongs to one caller.
var pieces = sync.Pool{New: func() any { return map[string]uint8{} }}

// Bytes, as far as cuts tells them apart.
const (
	byteOther  = iota // not ASCII, or a sign
	byteSign          // ASCII, neither of the following
	byteQuote         // ', which may begin what belongs to the letters before it
	byteBlank         // ASCII white space
	byteLetter        // ASCII
	byteDigit         // ASCII
)

var kinds = func() (k [256]uint8) {
	for i := range k {
		switch c := byte(i); {
		case c >= utf8.RuneSelf:
			k[i] = byteOther
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			k[i] = byteLetter
		case c >= '0' && c <= '9':
			k[i] = byteDigit
		case c == ' ', c >= '\t' && c <= '\r':
			k[i] = byteBlank
		case c == '\'':
			k[i] = byteQuote
		default:
			k[i] = byteSign
		}
	}
	return k
}()

// cuts reports that no token goes over from a byte of the kind x to one of the kind y:
// digits stand with digits only, and letters end what they stand in but for 's and
// the like. White space is left with what follows: how much of it is one token depends
// on that.
func cuts(x, y uint8) bool {
	switch x {
	case byteDigit:
		return y != byteDigit && y != byteOther
	case byteLetter:
		return y != byteLetter && y != byteOther && y != byteQuote
	case byteSign, byteQuote:
		return y == byteDigit
	}
	return false
}

// whole is Tokens by the tokenizer, whose time grows with the square of a run.
func whole(enc tokenizer.Codec, s string) int {
	total, from := 0, 0
	count := func(to int) {
		n, err := enc.Count(s[from:to])
		if err != nil {
			n = to - from
		}
		total += n
		from = to
	}
	start, last := 0, 0
	for i := 0; i < len(s); {
		c, n := class(s[i:])
		if c != last || c == 'd' {
			start, last = i, c
		} else if i-start >= maxUnbroken {
			count(i)
			start = i
		}
		i += n
	}
	if from < len(s) {
		count(len(s))
	}
	return total
}

// class is what the tokenizer's runs are made of: letters, digits, blanks, signs.
func class(s string) (c, n int) {
	b := s[0]
	if b < utf8.RuneSelf {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z':
			return 'l', 1
		case b >= '0' && b <= '9':
			return 'd', 1 // the tokenizer takes at most three of them together
		case b == ' ', b >= '\t' && b <= '\r':
			return 's', 1
		}
		return 'p', 1
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case unicode.IsLetter(r), unicode.IsMark(r):
		return 'l', n
	case unicode.IsNumber(r):
		return 'd', n
	case unicode.IsSpace(r):
		return 's', n
	}
	return 'p', n
}

// overLimit decides the token limit by bytes where they can: no token is longer
// than maxTokenBytes, and none is shorter than one byte. exact is false where
// the bytes decided.
func overLimit(s string) (over bool, tokens int, exact bool) {
	if len(s) <= MaxTokens {
		return false, 0, false
	}
	if len(s) > MaxTokens*maxTokenBytes {
		return true, 0, false
	}
	tokens = Tokens(s)
	return tokens > MaxTokens, tokens, true
}

// maxTokenBytes is the length of the longest token of o200k_base, in bytes.
const maxTokenBytes = 128
