package play

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The scanner below finds top-level function definitions of a Python file
// without a Python: it knows strings, comments, brackets, line joining and
// indentation, and nothing else of the grammar. What it cannot see (a syntax
// error inside a statement) shows up when the file is loaded in the box, where
// it is the agent's failure.

// maxBrackets bounds nesting; CPython's own tokenizer stops at 200.
const maxBrackets = 200

// pyDef is a top-level "def" or "async def".
type pyDef struct {
	Name      string
	Async     bool
	Decorated bool
	Line      int
	Params    []pyParam
}

// pyParam is one parameter of a definition.
type pyParam struct {
	Name    string
	Star    int // 1 for *args or a bare *, 2 for **kwargs
	Default bool
}

// pyModule is what a scan found at the top level.
type pyModule struct {
	Defs []pyDef
	// Bound lists, in order, names that a plain top-level assignment or import binds.
	Bound []string
}

// pyError is a place where the text cannot be Python.
type pyError struct {
	Line int
	Msg  string
}

func (e *pyError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }

type tokKind int

const (
	tokName tokKind = iota
	tokOp
	tokString
	tokNumber
	tokNewline // end of a logical line
)

type pyTok struct {
	kind tokKind
	text string // names and operators only
	line int
	col  int // of the first token of a logical line: its indentation; else -1
	// from and to are where a string's text lies, with its quotes.
	from, to int
}

// scanPython reads src, which must be valid UTF-8.
func scanPython(src string) (*pyModule, error) {
	toks, err := pyTokens(src)
	if err != nil {
		return nil, err
	}
	m := &pyModule{}
	decorated := false
	for i := 0; i < len(toks); {
		end := i
		for end < len(toks) && toks[end].kind != tokNewline {
			end++
		}
		line := toks[i:end]
		i = end + 1
		if len(line) == 0 || line[0].col != 0 {
			continue
		}
		if line[0].text == "@" {
			decorated = true
			continue
		}
		if err := m.statement(line, decorated); err != nil {
			return nil, err
		}
		decorated = false
	}
	return m, nil
}

// Imports lists the modules that a file imports anywhere, by the full names that
// stand there; "" is a relative import of nothing but dots.
func Imports(src string) ([]string, error) {
	toks, err := pyTokens(strings.TrimPrefix(src, "\ufeff"))
	if err != nil {
		return nil, err
	}
	var out []string
	dotted := func(l []pyTok) (name string, n int) {
		for n < len(l) && (l[n].kind == tokName && l[n].text != "import" && l[n].text != "as" || l[n].text == "." || l[n].text == "...") {
			name += l[n].text
			n++
		}
		return name, n
	}
	begins := true // of a statement
	for i := 0; i < len(toks); i++ {
		t := toks[i]
		switch {
		case begins && t.kind == tokName && t.text == "import":
			for {
				name, n := dotted(toks[i+1:])
				out = append(out, name)
				i += 1 + n
				for i < len(toks) && toks[i].kind == tokName { // as NAME
					i++
				}
				if i >= len(toks) || toks[i].text != "," {
					i--
					break
				}
			}
		case begins && t.kind == tokName && t.text == "from":
			name, n := dotted(toks[i+1:])
			if i += n; strings.HasPrefix(name, ".") {
				name = ""
			}
			out = append(out, name)
		}
		begins = t.kind == tokNewline || t.kind == tokOp && (t.text == ";" || t.text == ":")
	}
	return out, nil
}

// statement looks at one top-level logical line.
func (m *pyModule) statement(l []pyTok, decorated bool) error {
	async := l[0].text == "async" && len(l) > 1 && l[1].text == "def"
	if async {
		l = l[1:]
	}
	if l[0].kind == tokName && l[0].text == "def" {
		d := pyDef{Async: async, Decorated: decorated, Line: l[0].line}
		if len(l) < 3 || l[1].kind != tokName || l[2].text != "(" {
			return &pyError{l[0].line, "malformed def"}
		}
		d.Name = l[1].text
		params, err := pyParams(l[2:])
		if err != nil {
			return err
		}
		d.Params = params
		m.Defs = append(m.Defs, d)
		return nil
	}
	// Simple statements may share a line: a = 1; b = 2
	for len(l) > 0 {
		n := 0
		for n < len(l) && l[n].text != ";" {
			n++
		}
		m.bind(l[:n])
		l = l[min(n+1, len(l)):]
	}
	return nil
}

// bind notes the names that a simple statement binds.
func (m *pyModule) bind(l []pyTok) {
	if len(l) < 2 || l[0].kind != tokName {
		return
	}
	if l[0].text == "from" || l[0].text == "import" {
		// "import a.b as c, d": the last name before a comma or the end is bound.
		for i := 1; i < len(l); i++ {
			if l[i].kind == tokName && (i+1 == len(l) || l[i+1].text == "," || l[i+1].text == ")") {
				m.Bound = append(m.Bound, l[i].text)
			}
		}
		return
	}
	// "a = b = value" and "a: T = value".
	for i := 0; i+1 < len(l) && l[i].kind == tokName && (l[i+1].text == "=" || l[i+1].text == ":"); i += 2 {
		m.Bound = append(m.Bound, l[i].text)
		if l[i+1].text == ":" {
			return
		}
	}
}

// pyParams reads a parameter list; l begins with its "(".
func pyParams(l []pyTok) ([]pyParam, error) {
	var (
		out   []pyParam
		cur   []pyTok
		depth int
	)
	flush := func() error {
		if len(cur) == 0 {
			return nil
		}
		p := pyParam{}
		rest := cur
		switch rest[0].text {
		case "*":
			p.Star, rest = 1, rest[1:]
		case "**":
			p.Star, rest = 2, rest[1:]
		case "/":
			cur = nil
			if len(rest) != 1 {
				return &pyError{rest[0].line, "malformed parameter list"}
			}
			return nil
		}
		if len(rest) > 0 {
			if rest[0].kind != tokName {
				return &pyError{rest[0].line, "malformed parameter list"}
			}
			p.Name = rest[0].text
		}
		d := 0
		for _, t := range rest {
			switch t.text {
			case "(", "[", "{":
				d++
			case ")", "]", "}":
				d--
			case "=":
				p.Default = p.Default || d == 0
			}
		}
		out, cur = append(out, p), nil
		return nil
	}
	for _, t := range l {
		switch t.text {
		case "(", "[", "{":
			if depth++; depth == 1 {
				continue
			}
		case ")", "]", "}":
			if depth--; depth == 0 {
				return out, flush()
			}
		case ",":
			if depth == 1 {
				if err := flush(); err != nil {
					return nil, err
				}
				continue
			}
		}
		cur = append(cur, t)
	}
	return nil, &pyError{l[0].line, "malformed parameter list"}
}

// takesOneArgument reports whether a function with these parameters can be
// called with exactly one positional argument.
func takesOneArgument(ps []pyParam) bool {
	positional, required, star := 0, 0, false
	for _, p := range ps {
		switch {
		case p.Star == 2:
		case p.Star == 1:
			// After a star parameters are keyword-only.
			star = true
			if p.Name != "" {
				positional++
			}
		case star:
			if !p.Default {
				return false
			}
		default:
			positional++
			if !p.Default {
				required++
			}
		}
	}
	return positional >= 1 && required <= 1
}

// pyTokens splits src. Every logical line ends with a tokNewline.
func pyTokens(src string) ([]pyTok, error) {
	s := &pyLexer{src: src, line: 1}
	if err := s.run(); err != nil {
		return nil, err
	}
	return s.toks, nil
}

type pyLexer struct {
	src      string
	at, line int
	brackets []byte
	toks     []pyTok
	fresh    bool // at the start of a logical line
	col      int
}

func (s *pyLexer) emit(k tokKind, text string) {
	col := -1
	if s.fresh {
		col, s.fresh = s.col, false
	}
	s.toks = append(s.toks, pyTok{kind: k, text: text, line: s.line, col: col})
}

// indent measures the indentation at the start of a physical line.
func (s *pyLexer) indent() {
	s.fresh, s.col = true, 0
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ':
			s.col++
		case '\t':
			s.col = (s.col/8 + 1) * 8
		case '\f':
			s.col = 0
		default:
			return
		}
		s.at++
	}
}

func (s *pyLexer) run() error {
	s.indent()
	for s.at < len(s.src) {
		c := s.src[s.at]
		switch {
		case c == '\n' || c == '\r':
			s.newline()
			if len(s.brackets) > 0 {
				continue
			}
			if !s.fresh {
				s.toks = append(s.toks, pyTok{kind: tokNewline, line: s.line, col: -1})
			}
			s.indent()
		case c == ' ' || c == '\t' || c == '\f':
			s.at++
		case c == '#':
			for s.at < len(s.src) && s.src[s.at] != '\n' && s.src[s.at] != '\r' {
				s.at++
			}
		case c == '\\':
			s.at++
			if s.at >= len(s.src) || s.src[s.at] != '\n' && s.src[s.at] != '\r' {
				return &pyError{s.line, "stray backslash"}
			}
			s.newline()
		case c == '"' || c == '\'':
			if err := s.str(); err != nil {
				return err
			}
		case c >= '0' && c <= '9' || c == '.' && s.at+1 < len(s.src) && isDigit(s.src[s.at+1]):
			s.number()
		case isNameByte(c):
			if err := s.name(); err != nil {
				return err
			}
		case strings.IndexByte("([{", c) >= 0:
			if len(s.brackets) == maxBrackets {
				return &pyError{s.line, "too many nested brackets"}
			}
			s.brackets = append(s.brackets, c)
			s.emit(tokOp, string(c))
			s.at++
		case strings.IndexByte(")]}", c) >= 0:
			n := len(s.brackets)
			if n == 0 || strings.IndexByte("([{", s.brackets[n-1]) != strings.IndexByte(")]}", c) {
				return &pyError{s.line, "unmatched " + string(c)}
			}
			s.brackets = s.brackets[:n-1]
			s.emit(tokOp, string(c))
			s.at++
		case strings.IndexByte("+-*/%@&|^~<>=!,:.;", c) >= 0:
			s.op()
		default:
			return &pyError{s.line, fmt.Sprintf("character %q cannot stand here", c)}
		}
	}
	if len(s.brackets) > 0 {
		return &pyError{s.line, "a bracket is never closed"}
	}
	if !s.fresh {
		s.toks = append(s.toks, pyTok{kind: tokNewline, line: s.line, col: -1})
	}
	return nil
}

// newline steps over \n, \r or \r\n.
func (s *pyLexer) newline() {
	if s.src[s.at] == '\r' && s.at+1 < len(s.src) && s.src[s.at+1] == '\n' {
		s.at++
	}
	s.at++
	s.line++
}

// op takes the longest operator that matters here.
func (s *pyLexer) op() {
	for _, o := range []string{"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "==", "!=", "<=", ">=", "->", ":=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@="} {
		if strings.HasPrefix(s.src[s.at:], o) {
			s.emit(tokOp, o)
			s.at += len(o)
			return
		}
	}
	s.emit(tokOp, s.src[s.at:s.at+1])
	s.at++
}

func (s *pyLexer) number() {
	start := s.at
	for s.at < len(s.src) {
		c := s.src[s.at]
		exp := s.at > start && (s.src[s.at-1]|0x20) == 'e' && (c == '+' || c == '-') && !strings.HasPrefix(strings.ToLower(s.src[start:]), "0x")
		if !isNameByte(c) && !isDigit(c) && c != '.' && !exp {
			break
		}
		s.at++
	}
	s.emit(tokNumber, "")
}

// name reads an identifier, keyword or the prefix of a string.
func (s *pyLexer) name() error {
	start := s.at
	for s.at < len(s.src) && (isNameByte(s.src[s.at]) || isDigit(s.src[s.at])) {
		s.at++
	}
	word := s.src[start:s.at]
	if s.at < len(s.src) && (s.src[s.at] == '"' || s.src[s.at] == '\'') && isStringPrefix(word) {
		return s.str()
	}
	s.emit(tokName, word)
	return nil
}

// str reads a string; s.at stands on its quote.
func (s *pyLexer) str() error {
	q, start := s.src[s.at], s.line
	triple := strings.HasPrefix(s.src[s.at:], strings.Repeat(string(q), 3))
	s.emit(tokString, "")
	n := len(s.toks) - 1
	s.toks[n].from = s.at
	defer func() { s.toks[n].to = s.at }()
	if triple {
		s.at += 3
	} else {
		s.at++
	}
	for s.at < len(s.src) {
		c := s.src[s.at]
		switch {
		case c == '\\' && s.at+1 < len(s.src):
			s.at++
			if s.src[s.at] == '\n' || s.src[s.at] == '\r' {
				s.newline()
			} else {
				s.at++
			}
		case c == '\n' || c == '\r':
			if !triple {
				return &pyError{start, "a string is not closed"}
			}
			s.newline()
		case c == q && !triple:
			s.at++
			return nil
		case c == q && strings.HasPrefix(s.src[s.at:], strings.Repeat(string(q), 3)):
			s.at += 3
			return nil
		default:
			s.at++
		}
	}
	return &pyError{start, "a string is not closed"}
}

func isStringPrefix(w string) bool {
	switch strings.ToLower(w) {
	case "r", "u", "b", "f", "br", "rb", "fr", "rf":
		return true
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isNameByte takes every byte of a non-ASCII rune for part of a name.
func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}
