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
	hebrew     // a letter that quotation marks may follow
	attachment // combining marks and format characters: part of what stands before
	mark       // of a script without blanks: an attachment, or the start of a run
)

// alsoLetters are letters to the rules of word boundaries that are none to
// Unicode's categories.
var alsoLetters = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x2c2, 0x2c5, 1},
		{0x2d2, 0x2d7, 1},
		{0x2de, 0x2df, 1},
		{0x2ed, 0x2ed, 1},
		{0x2ef, 0x2ff, 1},
		{0x55b, 0x55c, 1},
		{0x55e, 0x55e, 1},
		{0x5f3, 0x5f3, 1},
		{0x24b6, 0x24e9, 1},
		{0xa720, 0xa721, 1},
		{0xa789, 0xa78a, 1},
		{0xab5b, 0xab5b, 1},
	},
	R32: []unicode.Range32{{0x1f130, 0x1f149, 1}, {0x1f150, 0x1f169, 1}, {0x1f170, 0x1f189, 1}},
}

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
	case r == 0x3005, r == 0x303b:
		return letter
	case r == 0x202f:
		return joiner
	case r == 0x3006, unicode.In(r, unicode.Tangut, unicode.Nushu):
		return other
	case unicode.Is(unicode.Han, r), unicode.Is(unicode.Hiragana, r):
		return single
	case unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.New_Tai_Lue, unicode.Tai_Le, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom):
		switch {
		case unicode.IsMark(r):
			return mark
		case unicode.IsLetter(r), r == 0x109e, r == 0x109f, r >= 0x19da && r <= 0x19df, r >= 0x1aa0 && r <= 0x1aad, r == 0xaade, r == 0xaadf:
			return southeast
		case unicode.IsDigit(r):
			return digit
		}
		return other
	case unicode.Is(unicode.Katakana, r), r >= 0x3031 && r <= 0x3035, r == 0x30fc, r == 0xff70, r == 0x309b, r == 0x309c, r == 0x30a0:
		return katakana
	case unicode.IsMark(r), unicode.Is(unicode.Cf, r) && r != 0x200b, r == 0xff9e, r == 0xff9f, isSkin(r):
		return attachment
	case unicode.Is(unicode.Hebrew, r) && unicode.IsLetter(r):
		return hebrew
	case unicode.IsLetter(r), unicode.Is(unicode.Nl, r), unicode.Is(alsoLetters, r):
		return letter
	case unicode.IsDigit(r), r == 0x66b:
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
		w = stem(w)
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
		s = s[to:] // joiners alone are not a word
	}
}

// wordAt finds the first run of s that boundaries enclose, or the first emoji;
// real says that it holds more than joiners.
func wordAt(s string) (from, to int, real bool) {
	i, size, emoji := 0, 0, 0
	var last class
	for ; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		if r == '#' || r == '*' || r >= utf8.RuneSelf {
			emoji = emojiAt(s[i:])
		}
		if last = classOf(r); last == mark {
			last = southeast
		}
		if last != other && last != midLetter && last != midNumber && last != midBoth && last != attachment {
			break
		}
		if emoji > 0 {
			return i, i + emoji, true
		}
	}
	if i == len(s) {
		return i, i, false
	}
	if emoji > 0 { // a few are letters too: the longer one counts
		if to, real := runAt(s, i, size, last); to > i+emoji {
			return i, to, real
		}
		return i, i + emoji, true
	}
	to, real = runAt(s, i, size, last)
	return i, to, real
}

// runAt finds the end of the run that begins at from with a character of size
// bytes and class last.
func runAt(s string, from, size int, last class) (i int, real bool) {
	i, real = from, last != joiner
	i += size
	for chars := 1; i < len(s) && chars < maxToken; chars++ {
		r, size := utf8.DecodeRuneInString(s[i:])
		next := classOf(r)
		switch {
		case next == attachment, next == mark:
			// stays with what stands before
		case last == single, last == southeast && next != southeast:
			return i, true
		case last == southeast:
		case last == katakana:
			if next != last && next != joiner {
				return i, true
			}
			last = next
		case next == letter, next == digit, next == hebrew, next == katakana && last == joiner:
			last, real = next, true
		case next == joiner:
			last = next
		case last == hebrew && (r == '\'' || r == '"'):
			// one quotation mark belongs to it, two are one if letters follow
			after, _ := utf8.DecodeRuneInString(s[i+size:])
			if c := classOf(after); r == '"' && c != hebrew || r == '\'' && c != hebrew && c != letter {
				if r == '\'' {
					i += size
				}
				return i, real
			}
		case (next == midBoth || next == midLetter) && (last == letter || last == hebrew), (next == midBoth || next == midNumber) && last == digit:
			at := attached(s, i+size)
			after, n := utf8.DecodeRuneInString(s[at:])
			c := classOf(after)
			if letters := c == letter || c == hebrew; n == 0 || (last == digit) != (c == digit) || last != digit && !letters {
				return i, real
			}
		default:
			return i, real
		}
		i += size
	}
	return i, real
}
