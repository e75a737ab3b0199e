package search

import (
	"bytes"
	"unicode/utf8"
)

// stem is Porter's stemmer (M. F. Porter, An algorithm for suffix stripping,
// 1980) with the two later departures of its author, bli -> ble and
// logi -> log. It works in place on lower-case bytes; what is not ASCII counts
// as a consonant.
func stem(w []byte) []byte {
	if len(w) <= 2 || utf8.RuneCount(w) <= 2 {
		return w
	}
	w = step1(w)
	w = replace(w, step2, 0)
	w = replace(w, step3, 0)
	w = step4(w)
	return step5(w)
}

type rule struct{ suffix, to string }

// Longer suffixes stand before those that end them.
var step2 = []rule{
	{"ational", "ate"},
	{"tional", "tion"},
	{"enci", "ence"},
	{"anci", "ance"},
	{"izer", "ize"},
	{"bli", "ble"},
	{"alli", "al"},
	{"entli", "ent"},
	{"eli", "e"},
	{"ousli", "ous"},
	{"ization", "ize"},
	{"ation", "ate"},
	{"ator", "ate"},
	{"alism", "al"},
	{"iveness", "ive"},
	{"fulness", "ful"},
	{"ousness", "ous"},
	{"aliti", "al"},
	{"iviti", "ive"},
	{"biliti", "ble"},
	{"logi", "log"},
}

var step3 = []rule{{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""}}

var step4Suffixes = []string{
	"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize",
}

func consonant(w []byte, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !consonant(w, i-1)
	}
	return true
}

// measure counts the vowel-consonant sequences of w.
func measure(w []byte) int {
	n, vowel := 0, false
	for i := range w {
		if consonant(w, i) {
			if vowel {
				n++
			}
			vowel = false
		} else {
			vowel = true
		}
	}
	return n
}

func hasVowel(w []byte) bool {
	for i := range w {
		if !consonant(w, i) {
			return true
		}
	}
	return false
}

func doubled(w []byte) bool {
	n := len(w)
	return n >= 2 && w[n-1] == w[n-2] && consonant(w, n-1)
}

// cvc reports consonant, vowel, consonant at the end, the last not w, x or y.
func cvc(w []byte) bool {
	n := len(w)
	if n < 3 || !consonant(w, n-1) || consonant(w, n-2) || !consonant(w, n-3) {
		return false
	}
	return w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}

func ends(w []byte, s string) bool { return bytes.HasSuffix(w, []byte(s)) }

func step1(w []byte) []byte {
	switch {
	case ends(w, "sses"), ends(w, "ies"):
		w = w[:len(w)-2]
	case ends(w, "ss"):
	case ends(w, "s"):
		w = w[:len(w)-1]
	}
	cut := 0
	switch {
	case ends(w, "eed"):
		if measure(w[:len(w)-3]) > 0 {
			w = w[:len(w)-1]
		}
	case ends(w, "ed") && hasVowel(w[:len(w)-2]):
		cut = 2
	case ends(w, "ing") && hasVowel(w[:len(w)-3]):
		cut = 3
	}
	if cut > 0 {
		w = w[:len(w)-cut]
		switch {
		case bytes.HasSuffix(w, []byte("at")), bytes.HasSuffix(w, []byte("bl")), bytes.HasSuffix(w, []byte("iz")):
			w = append(w, 'e')
		case doubled(w):
			if c := w[len(w)-1]; c != 'l' && c != 's' && c != 'z' {
				w = w[:len(w)-1]
			}
		case measure(w) == 1 && cvc(w):
			w = append(w, 'e')
		}
	}
	if ends(w, "y") && hasVowel(w[:len(w)-1]) {
		w[len(w)-1] = 'i'
	}
	return w
}

// replace applies the first rule whose suffix w has, if the stem before it has a measure above m.
func replace(w []byte, rules []rule, m int) []byte {
	for _, r := range rules {
		if ends(w, r.suffix) {
			if n := len(w) - len(r.suffix); measure(w[:n]) > m {
				return append(w[:n], r.to...)
			}
			return w
		}
	}
	return w
}

func step4(w []byte) []byte {
	for _, s := range step4Suffixes {
		if !ends(w, s) {
			continue
		}
		n := len(w) - len(s)
		if s == "ion" && n > 0 && w[n-1] != 's' && w[n-1] != 't' {
			continue
		}
		if measure(w[:n]) > 1 {
			return w[:n]
		}
		return w
	}
	return w
}

func step5(w []byte) []byte {
	if n := len(w) - 1; n > 0 && w[n] == 'e' {
		if m := measure(w[:n]); m > 1 || (m == 1 && !cvc(w[:n])) {
			w = w[:n]
		}
	}
	if n := len(w); n > 1 && w[n-1] == 'l' && doubled(w) && measure(w) > 1 {
		w = w[:n-1]
	}
	return w
}
