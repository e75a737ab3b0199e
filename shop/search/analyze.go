package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxToken is the longest word, in characters; a longer run is cut into several.
const maxToken = 255

// stopWords are the 33 words that Lucene's English analyzer leaves out.
var stopWords = map[string]bool{
	"a": true, "an": true, "and": true, "are": true, "as": true, "at": true, "be": true, "but": true, "by": true, "for": true, "if": true,
	"in": true, "into": true, "is": true, "it": true, "no": true, "not": true, "of": true, "on": true, "or": true, "such": true, "that": true,
	"the": true, "their": true, "then": true, "there": true, "these": true, "they": true, "this": true, "to": true, "was": true, "will": true, "with": true,
}

// class is what the rules of word boundaries (UAX #29) know of a character.
type class uint8

const (
	other class = iota
	letter
	digit
	joiner     // "_" and other connectors: joins both
	midLetter  // between letters only
	midNumber  // between digits only
	midBoth    // between two letters or two digits
	single     // a word of its own: Han, Hiragana
	katakana   // runs of it
	southeast  // runs of scripts without blanks: Thai, Lao, Khmer, Myanmar
	attachment // combining marks and format characters: part of what stands before
)

func classOf(r rune) class {
	if r < utf8.RuneSelf {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			return letter
		case r >= '0' && r <= '9':
			return digit
		}
		switch r {
		case '_':
			return joiner
		case ':':
			return midLetter
		case ',', ';':
			return midNumber
		case '.', '\'':
			return midBoth
		}
		return other
	}
	switch r {
	case 0xb7, 0x387, 0x5f4, 0x2027, 0xfe13, 0xfe55, 0xff1a:
		return midLetter
	case 0x37e, 0x589, 0x60c, 0x60d, 0x66c, 0x7f8, 0x2044, 0xfe10, 0xfe14, 0xfe50, 0xfe54, 0xff0c, 0xff1b:
		return midNumber
	case 0x2018, 0x2019, 0x2024, 0xfe52, 0xff07, 0xff0e:
		return midBoth
	}
	switch {
	case unicode.Is(unicode.Han, r), unicode.Is(unicode.Hiragana, r):
		return single
	case unicode.Is(unicode.Thai, r), unicode.Is(unicode.Lao, r), unicode.Is(unicode.Khmer, r), unicode.Is(unicode.Myanmar, r):
		if unicode.IsLetter(r) || unicode.IsMark(r) {
			return southeast
		}
		if unicode.IsDigit(r) {
			return digit
		}
		return other
	case unicode.Is(unicode.Katakana, r), r >= 0x3031 && r <= 0x3035, r == 0x30fc, r == 0xff70:
		return katakana
	case unicode.IsMark(r), unicode.Is(unicode.Cf, r) && r != 0x200b:
		return attachment
	case unicode.IsLetter(r):
		return letter
	case unicode.IsDigit(r):
		return digit
	case unicode.Is(unicode.Pc, r):
		return joiner
	}
	return other
}

// analyzer turns text into terms as Lucene's English analyzer does: words of
// UAX #29, without possessive 's, in lower case, without stop words, stemmed
// by Porter. It caches stems and is for one goroutine.
type analyzer struct {
	stems map[string]string
	low   []byte
}

// maxStems bounds the cache of one analyzer.
const maxStems = 200_000

// terms calls yield for every term of s until it returns false.
func (a *analyzer) terms(s string, yield func(string) bool) {
	for len(s) > 0 {
		word, rest := nextWord(s)
		if word == "" {
			return
		}
		s = rest
		if t := a.term(word); t != "" && !yield(t) {
			return
		}
	}
}

// term is the term of a word, or "" for a stop word.
func (a *analyzer) term(word string) string {
	if t, ok := a.stems[word]; ok {
		return t
	}
	w := word
	if n := len(w); n >= 2 && (w[n-1] == 's' || w[n-1] == 'S') {
		for _, apostrophe := range []string{"'", "’", "＇"} {
			if strings.HasSuffix(w[:n-1], apostrophe) {
				w = w[:n-1-len(apostrophe)]
				break
			}
		}
	}
	w = strings.ToLower(w)
	if stopWords[w] {
		w = ""
	} else if w != "" {
		a.low = append(a.low[:0], w...)
		w = string(stem(a.low))
	}
	if a.stems == nil || len(a.stems) >= maxStems {
		a.stems = map[string]string{}
	}
	a.stems[strings.Clone(word)] = w
	return w
}

// nextWord cuts the first word off s; "" where there is none.
func nextWord(s string) (word, rest string) {
	for {
		from, to, real := wordAt(s)
		if from == to || real {
			return s[from:to], s[to:]
		}
		s = s[to:] // joiners alone are no word
	}
}

// wordAt finds the first run of s that boundaries enclose; real says that it
// holds more than joiners.
func wordAt(s string) (from, to int, real bool) {
	i, size := 0, 0
	var last class
	for ; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		if last = classOf(r); last == letter || last == digit || last == joiner || last == single || last == katakana || last == southeast {
			break
		}
	}
	if i == len(s) {
		return i, i, false
	}
	from, real = i, last != joiner
	i += size
	for chars := 1; i < len(s) && chars < maxToken; chars++ {
		r, size := utf8.DecodeRuneInString(s[i:])
		next := classOf(r)
		switch {
		case next == attachment:
			// stays with what stands before
		case last == single:
			return from, i, true
		case last == southeast, last == katakana:
			if next != last && next != joiner {
				return from, i, true
			}
			last = next
		case next == letter, next == digit, next == katakana && last == joiner:
			last, real = next, true
		case next == joiner:
			last = next
		case (next == midBoth || next == midLetter) && last == letter, (next == midBoth || next == midNumber) && last == digit:
			after, n := utf8.DecodeRuneInString(s[i+size:])
			if n == 0 || classOf(after) != last {
				return from, i, real
			}
		default:
			return from, i, real
		}
		i += size
	}
	return from, i, real
}
