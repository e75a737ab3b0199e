package play

import (
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Code under test may read what a test expects, and must not be able to tell a
// falsified value by its looks: a word is exchanged for one that the same test, or
// else its file, has, and a number keeps its form (twins.py does the same for Python).

var plainWord = lazyregexp.New(`[A-Za-z]{3,}`)

// vocabulary are words of texts, lower case: those of one test, and of its file.
type vocabulary struct{ near, far []string }

// words are those of literals, each once and in order.
func words(literals ...string) []string {
	var out []string
	for _, l := range literals {
		for _, w := range plainWord().FindAllString(escape().ReplaceAllString(l, " "), -1) {
			if w = strings.ToLower(w); !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// escape is one escape of a literal in double quotes.
var escape = lazyregexp.New(`\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]+\}|U[0-9a-fA-F]{8}|[0-7]{3}|.)`)

// text is a string literal with another word, two words in the other order, another
// digit, or else another letter.
func (v vocabulary) text(lit string, r *mathrand.Rand) string {
	free := lit // with its escapes blotted out
	if lit[0] == '"' {
		free = escape().ReplaceAllStringFunc(lit, func(s string) string { return strings.Repeat("\x00", len(s)) })
	}
	changes := []func(lit, free string, r *mathrand.Rand) string{v.otherWord, v.otherWord, turnedWords}
	r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	for _, f := range append(changes, otherDigit, otherLetter) { // a number that stands nowhere else is seen
		if x := f(lit, free, r); x != lit {
			return x
		}
	}
	return lit[:len(lit)-1] + string(rune('a'+r.IntN(26))) + lit[len(lit)-1:]
}

func (v vocabulary) otherWord(lit, free string, r *mathrand.Rand) string {
	found := plainWord().FindAllStringIndex(free, -1)
	if len(found) == 0 {
		return lit
	}
	at := found[r.IntN(len(found))]
	old := lit[at[0]:at[1]]
	for _, list := range [][]string{v.near, v.far} {
		list = slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == strings.ToLower(old) })
		if len(list) == 0 {
			continue
		}
		w := list[r.IntN(len(list))]
		switch {
		case old == strings.ToUpper(old):
			w = strings.ToUpper(w)
		case old[0] >= 'A' && old[0] <= 'Z':
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		return lit[:at[0]] + w + lit[at[1]:]
	}
	return lit
}

func turnedWords(lit, free string, r *mathrand.Rand) string {
	found := plainWord().FindAllStringIndex(free, -1)
	if len(found) < 2 {
		return lit
	}
	i := r.IntN(len(found) - 1)
	a, b := found[i], found[i+1]
	return lit[:a[0]] + lit[b[0]:b[1]] + lit[a[1]:b[0]] + lit[a[0]:a[1]] + lit[b[1]:]
}

func otherDigit(lit, free string, r *mathrand.Rand) string {
	return otherOf(lit, free, r, isDigit)
}

func otherLetter(lit, free string, r *mathrand.Rand) string {
	return otherOf(lit, free, r, func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' })
}

func otherOf(lit, free string, r *mathrand.Rand, of func(byte) bool) string {
	var at []int
	for i := 1; i < len(free)-1; i++ {
		if of(free[i]) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return lit
	}
	i := at[r.IntN(len(at))]
	return lit[:i] + string(another(lit[i], r)) + lit[i+1:]
}

// another returns a letter or digit like c that is not c.
func another(c byte, r *mathrand.Rand) byte {
	first, n := byte('a'), 26
	switch {
	case isDigit(c):
		first, n = '0', 10
	case c >= 'A' && c <= 'Z':
		first = 'A'
	}
	return first + byte((int(c-first)+1+r.IntN(n-1))%n)
}

// said is the literal of a message in which now stands where old stood as a word: what is
// expected is often said again there, and would tell that the other place is falsified.
func said(message, old, now string) (string, bool) {
	if old[0] == '"' || old[0] == '\'' || old[0] == '`' {
		if message[0] != old[0] || now[0] != old[0] {
			return "", false
		}
		old, now = old[1:len(old)-1], now[1:len(now)-1]
	}
	var out strings.Builder
	in, found := message[1:len(message)-1], false
	for i := 0; i < len(in); {
		if old != "" && strings.HasPrefix(in[i:], old) && !inWord(in[:i], old, true) && !inWord(in[i+len(old):], old, false) {
			out.WriteString(now)
			i, found = i+len(old), true
			continue
		}
		out.WriteByte(in[i])
		i++
	}
	return message[:1] + out.String() + message[len(message)-1:], found
}

// inWord reports whether a word goes on into the text before or after it.
func inWord(text, word string, before bool) bool {
	letter := func(c byte) bool {
		return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
	}
	if text == "" {
		return false
	}
	if before {
		return letter(text[len(text)-1]) && letter(word[0])
	}
	return letter(text[0]) && letter(word[len(word)-1])
}

// number is a literal of a whole number from 0 that is another one; ok is false where
// it is none of a form that is known.
func number(lit string, r *mathrand.Rand) (string, bool) {
	v, err := strconv.ParseInt(lit, 0, 64)
	if err != nil || v >= 1<<30 || strings.Contains(lit, "_") {
		return "", false
	}
	zeros := int64(1)
	for v >= 100 && v%(zeros*10) == 0 {
		zeros *= 10
	}
	by := (1 + r.Int64N(5)) * zeros
	if v > by && r.IntN(2) == 0 {
		by = -by
	}
	if x, ok := strings.CutPrefix(lit, "0x"); ok {
		x2 := strconv.FormatInt(v+by, 16)
		if x == strings.ToUpper(x) {
			x2 = strings.ToUpper(x2)
		}
		return "0x" + strings.Repeat("0", max(0, len(x)-len(x2))) + x2, true
	}
	return strconv.FormatInt(v+by, 10), len(lit) == 1 || lit[0] != '0'
}

// literals are changes of the constants in a row of pieces, no more than four.
func (s *source) literals(from, to int, r *mathrand.Rand) []edit {
	var out []edit
	for i := from; i <= to; i++ {
		p, t := s.p[i], s.text(i)
		if next := s.text(i + 1); next == ":" || i > from && s.text(i-1) == "." { // keys and fields stay
			continue
		}
		switch {
		case p.kind == 'w' && t == "true":
			out = append(out, edit{p.start, p.end, "false"})
		case p.kind == 'w' && t == "false":
			out = append(out, edit{p.start, p.end, "true"})
		case p.kind == 'n':
			digits := len(t)
			for n, c := range t {
				if c < '0' || c > '9' {
					digits = n
					break
				}
			}
			if v, ok := number(t[:digits], r); ok && !strings.HasPrefix(t, "0x") {
				out = append(out, edit{p.start, p.end, v + t[digits:]})
			}
		case p.kind == 's':
			in := strings.ReplaceAll(t, "'", `"`) // one rule of escapes for both quotes
			if len(in) == len(t) && len(t) >= 2 && t[len(t)-1] == t[0] {
				x := s.words.text(in, r)
				if t[0] == '\'' {
					x = strings.ReplaceAll(x, `"`, "'")
				}
				if strings.Count(t, `"`) == strings.Count(x, `"`) && strings.Count(t, "'") == strings.Count(x, "'") {
					out = append(out, edit{p.start, p.end, x})
				}
			}
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(len(out), 4)]
}

// withMessages adds to a change of what is expected that of messages which say it.
func (s *source) withMessages(e edit, args [][2]int) []edit {
	out := []edit{e}
	for _, a := range args {
		p := s.p[a[0]]
		if a[0] != a[1] || p.kind != 's' || p.end-p.start < 2 || e.End == e.Start || e.Text == "" {
			continue
		}
		if x, ok := said(s.text(a[0]), string(s.b[e.Start:e.End]), e.Text); ok {
			out = append(out, edit{p.start, p.end, x})
		}
	}
	return out
}

// wordsOf are the words of the texts in a row of pieces.
func (s *source) wordsOf(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		if s.p[i].kind == 's' {
			out = append(out, s.text(i))
		}
	}
	return words(out...)
}
