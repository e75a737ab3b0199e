package copycat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A reader of Python 3.11 source, far enough to compare structure and to tell
// most syntax errors. It runs nothing.

// Bounds of a source: more is refused, not cut.
const (
	MaxSource    = 1 << 20 // bytes
	maxNesting   = 200     // brackets, as in CPython
	maxIndent    = 100     // blocks, as in CPython
	maxRecursion = 1000    // of the parser
)

// SyntaxError is a place where a text cannot be Python 3.11.
type SyntaxError struct {
	Line int
	Msg  string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

type tokenKind uint8

const (
	tEnd tokenKind = iota
	tName
	tOp
	tNumber
	tString
	tNewline
	tIndent
	tDedent
)

type token struct {
	kind tokenKind
	text string // as written; of strings with prefix and quotes
	line int
}

// operators by length, longest first.
var operators = [3][]string{
	{"**=", "//=", ">>=", "<<=", "..."},
	{"**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", ":="},
	{"+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "="},
}

type lexer struct {
	src      string
	pos      int
	line     int
	indents  []int
	alt      []int // the same with tabs as one column: a mix that depends on tabs is refused
	brackets []byte
	out      []token
}

func tokenize(src string) ([]token, error) {
	if len(src) > MaxSource {
		return nil, &SyntaxError{1, fmt.Sprintf("longer than %d bytes", MaxSource)}
	}
	if !utf8.ValidString(src) {
		return nil, &SyntaxError{1, "not UTF-8"}
	}
	src = strings.TrimPrefix(src, "\ufeff")
	if i := strings.IndexByte(src, 0); i >= 0 {
		return nil, &SyntaxError{1 + strings.Count(src[:i], "\n"), "a NUL byte"}
	}
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: src, line: 1, indents: []int{0}, alt: []int{0}}
	if err := l.run(); err != nil {
		return nil, err
	}
	return l.out, nil
}

func (l *lexer) bad(format string, a ...any) error {
	return &SyntaxError{l.line, fmt.Sprintf(format, a...)}
}

func (l *lexer) add(k tokenKind, text string) { l.out = append(l.out, token{k, text, l.line}) }

func (l *lexer) run() error {
	for l.pos < len(l.src) {
		if err := l.indent(); err != nil {
			return err
		}
		if err := l.logical(); err != nil {
			return err
		}
	}
	if len(l.brackets) > 0 {
		return l.bad("%q is never closed", l.brackets[len(l.brackets)-1])
	}
	for range len(l.indents) - 1 {
		l.add(tDedent, "")
	}
	l.add(tEnd, "")
	return nil
}

// indent reads the white space of a new logical line. Blank lines and lines of
// comments only have no indentation.
func (l *lexer) indent() error {
	for l.pos < len(l.src) {
		col, alt, i := 0, 0, l.pos
	space:
		for ; i < len(l.src); i++ {
			switch l.src[i] {
			case ' ':
				col, alt = col+1, alt+1
			case '\t':
				col, alt = col/8*8+8, alt+1
			case '\f':
				col, alt = 0, 0
			default:
				break space
			}
		}
		if i < len(l.src) && l.src[i] == '#' {
			for i < len(l.src) && l.src[i] != '\n' {
				i++
			}
		}
		if i == len(l.src) {
			l.pos = i
			return nil
		}
		if l.src[i] == '\n' {
			l.pos, l.line = i+1, l.line+1
			continue
		}
		l.pos = i
		top := l.indents[len(l.indents)-1]
		altTop := l.alt[len(l.alt)-1]
		switch {
		case col > top:
			if alt <= altTop {
				return l.bad("inconsistent use of tabs and spaces in indentation")
			}
			if len(l.indents) > maxIndent {
				return l.bad("too many levels of indentation")
			}
			l.indents, l.alt = append(l.indents, col), append(l.alt, alt)
			l.add(tIndent, "")
		default:
			for col < l.indents[len(l.indents)-1] {
				l.indents, l.alt = l.indents[:len(l.indents)-1], l.alt[:len(l.alt)-1]
				l.add(tDedent, "")
			}
			if col != l.indents[len(l.indents)-1] {
				return l.bad("unindent does not match any outer indentation level")
			}
			if alt != l.alt[len(l.alt)-1] {
				return l.bad("inconsistent use of tabs and spaces in indentation")
			}
		}
		return nil
	}
	return nil
}

// logical reads tokens up to the end of the logical line.
func (l *lexer) logical() error {
	any := false
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case c == '\n':
			l.pos++
			if len(l.brackets) == 0 {
				if any {
					l.add(tNewline, "")
				}
				l.line++
				return nil
			}
			l.line++
		case c == ' ' || c == '\t' || c == '\f':
			l.pos++
		case c == '#':
			for l.pos < len(l.src) && l.src[l.pos] != '\n' {
				l.pos++
			}
		case c == '\\':
			if l.pos+1 >= len(l.src) || l.src[l.pos+1] != '\n' {
				return l.bad("unexpected character after line continuation character")
			}
			l.pos, l.line = l.pos+2, l.line+1
		default:
			any = true
			if err := l.one(c); err != nil {
				return err
			}
		}
	}
	if any && len(l.brackets) == 0 {
		l.add(tNewline, "")
	}
	return nil
}

func (l *lexer) one(c byte) error {
	rest := l.src[l.pos:]
	if n := stringPrefix(rest); n >= 0 {
		return l.str(n)
	}
	if c >= '0' && c <= '9' || c == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9' {
		return l.number()
	}
	if r, _ := utf8.DecodeRuneInString(rest); r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Other_ID_Start, r) {
		n := 0
		for i, r := range rest {
			if !(r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r) || unicode.Is(unicode.Pc, r) || unicode.Is(unicode.Other_ID_Start, r) || unicode.Is(unicode.Other_ID_Continue, r)) {
				break
			}
			n = i + utf8.RuneLen(r)
		}
		l.add(tName, rest[:n])
		l.pos += n
		return nil
	}
	for i, list := range operators {
		n := 3 - i
		if len(rest) < n {
			continue
		}
		for _, op := range list {
			if rest[:n] == op {
				return l.op(op)
			}
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return l.bad("invalid character %q", r)
}

func (l *lexer) op(op string) error {
	switch op {
	case "(", "[", "{":
		if len(l.brackets) >= maxNesting {
			return l.bad("too many nested parentheses")
		}
		l.brackets = append(l.brackets, op[0])
	case ")", "]", "}":
		open := map[string]byte{")": '(', "]": '[', "}": '{'}[op]
		if len(l.brackets) == 0 {
			return l.bad("unmatched %q", op)
		}
		if last := l.brackets[len(l.brackets)-1]; last != open {
			return l.bad("closing %q does not match opening %q", op, last)
		}
		l.brackets = l.brackets[:len(l.brackets)-1]
	}
	l.add(tOp, op)
	l.pos += len(op)
	return nil
}

// stringPrefix returns the length of a string's prefix, -1 if no string begins here.
func stringPrefix(s string) int {
	n := 0
	for n < len(s) && n < 3 {
		switch s[n] {
		case '"', '\'':
			switch strings.ToLower(s[:n]) {
			case "", "r", "u", "b", "f", "br", "rb", "fr", "rf":
				return n
			}
			return -1
		case 'r', 'R', 'u', 'U', 'b', 'B', 'f', 'F':
			n++
		default:
			return -1
		}
	}
	return -1
}

func (l *lexer) str(prefix int) error {
	rest := l.src[l.pos:]
	q := rest[prefix : prefix+1]
	if strings.HasPrefix(rest[prefix:], q+q+q) {
		q += q + q
	}
	start := l.line
	i := prefix + len(q)
	for {
		switch {
		case i >= len(rest):
			l.line = start
			return l.bad("unterminated string literal")
		case strings.HasPrefix(rest[i:], q):
			i += len(q)
			l.out = append(l.out, token{tString, rest[:i], start})
			l.pos += i
			return nil
		case rest[i] == '\\' && i+1 < len(rest):
			if rest[i+1] == '\n' {
				l.line++
			}
			_, n := utf8.DecodeRuneInString(rest[i+1:])
			i += 1 + n
		case rest[i] == '\n':
			if len(q) == 1 {
				return l.bad("unterminated string literal")
			}
			l.line++
			i++
		default:
			i++
		}
	}
}

func (l *lexer) number() error {
	rest := l.src[l.pos:]
	n := numberLength(rest)
	if n < len(rest) {
		if r, _ := utf8.DecodeRuneInString(rest[n:]); r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			// "1if x" is allowed (with a warning), "1abc" is not.
			word := strings.TrimLeft(rest[n:], "_")
			ok := false
			for _, kw := range []string{"and", "else", "for", "if", "in", "is", "or", "not"} {
				ok = ok || strings.HasPrefix(word, kw)
			}
			if !ok {
				return l.bad("invalid number literal")
			}
		}
	}
	text := rest[:n]
	if strings.HasSuffix(text, "_") || strings.Contains(text, "__") {
		return l.bad("invalid number literal")
	}
	if len(text) > 1 && text[0] == '0' && !strings.ContainsAny(text, ".eEjJxXoObB") && strings.Trim(text, "0_") != "" {
		return l.bad("leading zeros in decimal integer literals are not permitted")
	}
	l.add(tNumber, text)
	l.pos += n
	return nil
}

func numberLength(s string) int {
	digits := func(i int, ok string) int {
		for i < len(s) && (strings.IndexByte(ok, s[i]) >= 0 || s[i] == '_') {
			i++
		}
		return i
	}
	const dec = "0123456789"
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'x', 'X':
			return digits(2, dec+"abcdefABCDEF")
		case 'o', 'O':
			return digits(2, "01234567")
		case 'b', 'B':
			return digits(2, "01")
		}
	}
	i := digits(0, dec)
	if i < len(s) && s[i] == '.' {
		i = digits(i+1, dec)
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if j < len(s) && s[j] >= '0' && s[j] <= '9' {
			i = digits(j, dec)
		}
	}
	if i < len(s) && (s[i] == 'j' || s[i] == 'J') {
		i++
	}
	return i
}
