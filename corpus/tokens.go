package corpus

import (
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
func Tokens(s string) int {
	enc, err := encoding()
	if err != nil {
		return len(s) // never less than the truth
	}
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
