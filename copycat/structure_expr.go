package copycat

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// starExprs reads expressions with commas: a tuple, or one expression.
func (p *parser) starExprs() *node {
	if p.at("yield") {
		return p.yield()
	}
	first := p.starExpr()
	if !p.at(",") {
		return first
	}
	t := p.n("tuple", "", first)
	for p.accept(",") {
		if !p.startsExpr() {
			break
		}
		t.kids = append(t.kids, p.starExpr())
	}
	return t
}

// startsExpr reports whether an expression can begin here.
func (p *parser) startsExpr() bool {
	t := p.peek()
	switch t.kind {
	case tNumber, tString:
		return true
	case tName:
		if !isKeyword(t.text) {
			return true
		}
		return slices.Contains([]string{"None", "True", "False", "not", "lambda", "await", "yield"}, t.text)
	case tOp:
		return slices.Contains([]string{"(", "[", "{", "-", "+", "~", "...", "*"}, t.text)
	}
	return false
}

func (p *parser) starExpr() *node {
	if p.accept("*") {
		return p.n("star", "", p.bitOr())
	}
	return p.namedExpr()
}

func (p *parser) yield() *node {
	if !p.function {
		p.fail("'yield' outside function")
	}
	p.expect("yield")
	if p.accept("from") {
		return p.n("yieldfrom", "", p.expr())
	}
	return p.n("yield", "", p.optional(p.starExprs))
}

func (p *parser) namedExpr() *node {
	if t := p.peek(); t.kind == tName && !isKeyword(t.text) {
		if a := p.ahead(1); a.kind == tOp && a.text == ":=" {
			p.pos += 2
			return p.n("walrus", t.text, p.expr())
		}
	}
	return p.expr()
}

// expr reads a conditional expression or a lambda.
func (p *parser) expr() *node {
	defer p.deeper()()
	if p.accept("lambda") {
		params := p.params(":", false)
		p.expect(":")
		f, a := p.function, p.async
		p.function, p.async = true, false
		n := p.n("lambda", "", params, p.expr())
		p.function, p.async = f, a
		return n
	}
	e := p.or()
	if !p.accept("if") {
		return e
	}
	test := p.or()
	p.expect("else")
	return p.n("ifexp", "", test, e, p.expr())
}

func (p *parser) or() *node {
	e := p.and()
	if !p.at("or") {
		return e
	}
	n := p.n("bool", "or", e)
	for p.accept("or") {
		n.kids = append(n.kids, p.and())
	}
	return n
}

func (p *parser) and() *node {
	e := p.not()
	if !p.at("and") {
		return e
	}
	n := p.n("bool", "and", e)
	for p.accept("and") {
		n.kids = append(n.kids, p.not())
	}
	return n
}

func (p *parser) not() *node {
	if p.at("not") {
		defer p.deeper()()
		p.pos++
		return p.n("unary", "not", p.not())
	}
	return p.comparison()
}

func (p *parser) comparison() *node {
	e := p.bitOr()
	var n *node
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == tOp && slices.Contains([]string{"<", ">", "==", ">=", "<=", "!="}, t.text):
			op = t.text
			p.pos++
		case p.at("in"):
			op = "in"
			p.pos++
		case p.at("not") && p.ahead(1).text == "in":
			op = "not in"
			p.pos += 2
		case p.at("is"):
			op = "is"
			p.pos++
			if p.accept("not") {
				op = "is not"
			}
		default:
			if n != nil {
				return n
			}
			return e
		}
		if n == nil {
			n = p.n("cmp", "", e)
		}
		n.kids = append(n.kids, p.n("op", op), p.bitOr())
	}
}

// binary operators by precedence, loosest first.
var binary = [][]string{{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%", "@"}}

func (p *parser) bitOr() *node { return p.binary(0) }

func (p *parser) arith() *node { return p.binary(4) }

func (p *parser) binary(level int) *node {
	if level == len(binary) {
		return p.factor()
	}
	e := p.binary(level + 1)
	for {
		t := p.peek()
		if t.kind != tOp || !slices.Contains(binary[level], t.text) {
			return e
		}
		p.pos++
		e = p.n("bin", t.text, e, p.binary(level+1))
	}
}

func (p *parser) factor() *node {
	if t := p.peek(); t.kind == tOp && (t.text == "-" || t.text == "+" || t.text == "~") {
		defer p.deeper()()
		p.pos++
		return p.n("unary", t.text, p.factor())
	}
	e := p.awaited()
	if p.accept("**") {
		defer p.deeper()()
		return p.n("bin", "**", e, p.factor())
	}
	return e
}

func (p *parser) awaited() *node {
	if p.at("await") {
		if !p.function {
			p.fail("'await' outside function")
		}
		p.pos++
		return p.n("await", "", p.primary())
	}
	return p.primary()
}

func (p *parser) primary() *node {
	e := p.atom()
	for {
		switch {
		case p.accept("."):
			e = p.n("attr", p.ident(), e)
		case p.at("("):
			p.pos++
			e = p.n("call", "", e, p.args())
		case p.accept("["):
			e = p.n("sub", "", e, p.index())
			p.expect("]")
		default:
			return e
		}
	}
}

func (p *parser) index() *node {
	one := func() *node {
		if p.accept("*") {
			return p.n("star", "", p.bitOr())
		}
		part := func() *node {
			if p.at(":") || p.at("]") || p.at(",") {
				return none
			}
			return p.namedExpr()
		}
		e := part()
		if !p.at(":") {
			if e == none {
				p.fail("expected an index")
			}
			return e
		}
		s := p.n("slice", "", e, none, none)
		for i := 1; i < 3 && p.accept(":"); i++ {
			s.kids[i] = part()
		}
		return s
	}
	first := one()
	if !p.at(",") {
		if first.op == "star" {
			return p.n("tuple", "", first)
		}
		return first
	}
	t := p.n("tuple", "", first)
	for p.accept(",") {
		if p.at("]") {
			break
		}
		t.kids = append(t.kids, one())
	}
	return t
}

// args reads the arguments of a call up to and with the closing bracket.
func (p *parser) args() *node {
	out := p.n("args", "")
	seen := map[string]bool{}
	keyword, unpacked := false, false
	for !p.at(")") {
		switch a := p.ahead(1); {
		case p.accept("**"):
			unpacked = true
			out.kids = append(out.kids, p.n("dstar", "", p.expr()))
		case p.accept("*"):
			if unpacked {
				p.fail("iterable argument unpacking follows keyword argument unpacking")
			}
			out.kids = append(out.kids, p.n("star", "", p.expr()))
		case p.peek().kind == tName && a.kind == tOp && a.text == "=":
			name := p.ident()
			p.expect("=")
			if seen[name] {
				p.fail("keyword argument repeated: %.60s", name)
			}
			seen[name], keyword = true, true
			out.kids = append(out.kids, p.n("kw", name, p.expr()))
		default:
			if keyword || unpacked {
				p.fail("positional argument follows keyword argument")
			}
			e := p.namedExpr()
			if p.at("for") || p.at("async") {
				if len(out.kids) > 0 {
					p.fail("generator expression must be parenthesized")
				}
				e = p.n("genexp", "", append([]*node{e}, p.comps()...)...)
				out.kids = append(out.kids, e)
				p.accept(",")
				p.expect(")")
				return out
			}
			out.kids = append(out.kids, e)
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	return out
}

func (p *parser) comps() []*node {
	var out []*node
	for p.at("for") || p.at("async") {
		op := "comp"
		if p.accept("async") {
			op = "asynccomp"
		}
		p.expect("for")
		target := p.targetList()
		p.expect("in")
		c := p.n(op, "", target, p.or())
		for p.accept("if") {
			if t := p.peek(); t.kind == tName && !isKeyword(t.text) && p.ahead(1).text == ":=" {
				c.kids = append(c.kids, p.namedExpr())
			} else {
				c.kids = append(c.kids, p.or())
			}
		}
		out = append(out, c)
	}
	return out
}

func (p *parser) atom() *node {
	defer p.deeper()()
	t := p.peek()
	switch t.kind {
	case tNumber:
		p.pos++
		return p.n("num", canonicalNumber(t.text))
	case tString:
		return p.strings()
	case tName:
		switch t.text {
		case "None", "True", "False":
			p.pos++
			return p.n("const", t.text)
		}
		return p.n("name", p.ident())
	case tOp:
		switch t.text {
		case "...":
			p.pos++
			return p.n("const", "...")
		case "(":
			p.pos++
			return p.paren()
		case "[":
			p.pos++
			return p.display("list", "listcomp", "]")
		case "{":
			p.pos++
			return p.braces()
		}
	}
	if t.kind == tNewline || t.kind == tEnd {
		p.fail("invalid syntax: the line ends too early")
	}
	p.fail("invalid syntax at %.40q", t.text)
	return nil
}

func (p *parser) paren() *node {
	if p.accept(")") {
		return p.n("tuple", "")
	}
	if p.at("yield") {
		e := p.yield()
		p.expect(")")
		return e
	}
	first := p.starExpr()
	if p.at("for") || p.at("async") {
		e := p.n("genexp", "", append([]*node{first}, p.comps()...)...)
		p.expect(")")
		return e
	}
	if !p.at(",") {
		if first.op == "star" {
			p.fail("cannot use starred expression here")
		}
		p.expect(")")
		return first
	}
	t := p.n("tuple", "", first)
	for p.accept(",") {
		if p.at(")") {
			break
		}
		t.kids = append(t.kids, p.starExpr())
	}
	p.expect(")")
	return t
}

func (p *parser) display(op, comp, end string) *node {
	n := p.n(op, "")
	for !p.at(end) {
		e := p.starExpr()
		if len(n.kids) == 0 && (p.at("for") || p.at("async")) {
			c := p.n(comp, "", append([]*node{e}, p.comps()...)...)
			p.expect(end)
			return c
		}
		n.kids = append(n.kids, e)
		if !p.accept(",") {
			break
		}
	}
	p.expect(end)
	return n
}

func (p *parser) braces() *node {
	if p.accept("}") {
		return p.n("dict", "")
	}
	if !p.at("**") {
		saved := p.pos
		first := p.starExpr()
		if !p.at(":") {
			p.pos = saved
			return p.display("set", "setcomp", "}")
		}
		p.pos++
		pair := p.n("pair", "", first, p.expr())
		if p.at("for") || p.at("async") {
			c := p.n("dictcomp", "", append([]*node{pair}, p.comps()...)...)
			p.expect("}")
			return c
		}
		return p.dict(p.n("dict", "", pair))
	}
	return p.dict(p.n("dict", ""))
}

func (p *parser) dict(n *node) *node {
	if len(n.kids) > 0 && !p.accept(",") {
		p.expect("}")
		return n
	}
	for !p.at("}") {
		if p.accept("**") {
			n.kids = append(n.kids, p.n("dstar", "", p.bitOr()))
		} else {
			k := p.expr()
			p.expect(":")
			n.kids = append(n.kids, p.n("pair", "", k, p.expr()))
		}
		if !p.accept(",") {
			break
		}
	}
	p.expect("}")
	return n
}

// canonicalNumber spells equal numbers of one type equally.
func canonicalNumber(s string) string {
	s = strings.ToLower(strings.ReplaceAll(s, "_", ""))
	imag := strings.HasSuffix(s, "j") && !strings.HasPrefix(s, "0x")
	if imag {
		s = s[:len(s)-1]
	}
	out := s
	if isInt := strings.HasPrefix(s, "0x") || !strings.ContainsAny(s, ".e"); isInt && !imag {
		if len(s) < 5000 {
			if len(s) > 1 && s[0] == '0' && strings.Trim(s, "0") == "" {
				s = "0"
			}
			if n, ok := new(big.Int).SetString(s, 0); ok {
				return "i" + n.String()
			}
		}
		return "i" + s
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil || f != 0 {
		out = strconv.FormatFloat(f, 'g', -1, 64)
	}
	if imag {
		return "j" + out
	}
	return "f" + out
}

// strings reads adjacent literals as the one value that they are.
func (p *parser) strings() *node {
	var parts []*node
	isBytes, isText := false, false
	line := p.peek().line
	for p.peek().kind == tString {
		t := p.next()
		n := strings.IndexAny(t.text, `"'`)
		prefix := strings.ToLower(t.text[:n])
		body := t.text[n:]
		q := 1
		if len(body) >= 6 && (strings.HasPrefix(body, `"""`) || strings.HasPrefix(body, "'''")) {
			q = 3
		}
		body = body[q : len(body)-q]
		raw := strings.Contains(prefix, "r")
		switch {
		case strings.Contains(prefix, "b"):
			isBytes = true
			for _, r := range body {
				if r > 127 {
					p.fail("bytes can only contain ASCII literal characters")
				}
			}
			parts = append(parts, &node{op: "bytes", str: unescape(body, raw, true), line: t.line})
		case strings.Contains(prefix, "f"):
			isText = true
			parts = append(parts, p.fstring(body, raw, t.line, 0)...)
		default:
			isText = true
			parts = append(parts, &node{op: "str", str: unescape(body, raw, false), line: t.line})
		}
	}
	if isBytes && isText {
		p.fail("cannot mix bytes and nonbytes literals")
	}
	merged := parts[:0:0]
	for _, x := range parts {
		if last := len(merged) - 1; x.op != "fval" && last >= 0 && merged[last].op == x.op {
			merged[last] = &node{op: x.op, str: merged[last].str + x.str, line: line}
			continue
		}
		merged = append(merged, x)
	}
	if slices.ContainsFunc(merged, func(x *node) bool { return x.op == "fval" }) {
		merged = slices.DeleteFunc(merged, func(x *node) bool { return x.op == "str" && x.str == "" })
		return &node{op: "fstr", kids: merged, line: line}
	}
	if len(merged) == 0 { // f"" alone
		return &node{op: "str", line: line}
	}
	return merged[0]
}

// fstring splits the body of a formatted literal into texts and values.
func (p *parser) fstring(body string, raw bool, line, level int) []*node {
	if level > 2 {
		p.fail("f-string: expressions nested too deeply")
	}
	var out []*node
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			out = append(out, &node{op: "str", str: unescape(lit.String(), raw, false), line: line})
			lit.Reset()
		}
	}
	for i := 0; i < len(body); {
		c := body[i]
		switch {
		case c == '\\' && !raw && strings.HasPrefix(body[i:], `\N{`):
			end := strings.IndexByte(body[i:], '}')
			if end < 0 {
				p.fail("f-string: malformed \\N escape")
			}
			lit.WriteString(body[i : i+end+1])
			i += end + 1
		case c == '\\' && i+1 < len(body) && body[i+1] != '{' && body[i+1] != '}':
			_, n := utf8.DecodeRuneInString(body[i+1:])
			lit.WriteString(body[i : i+1+n])
			i += 1 + n
		case (c == '{' || c == '}') && level == 0 && i+1 < len(body) && body[i+1] == c:
			lit.WriteByte(c)
			i += 2
		case c == '}':
			p.fail("f-string: single '}' is not allowed")
		case c == '{':
			flush()
			v, n := p.fvalue(body[i+1:], raw, line, level)
			out = append(out, v...)
			i += 1 + n
		default:
			lit.WriteByte(c)
			i++
		}
	}
	flush()
	return out
}

// fvalue reads a replacement field behind its brace; n is its length with the closing one.
func (p *parser) fvalue(s string, raw bool, line, level int) (out []*node, n int) {
	end := fieldEnd(s)
	if end < 0 || end == len(s) {
		p.fail("f-string: expecting '}'")
	}
	src := s[:end]
	if strings.Contains(src, "\\") {
		p.fail("f-string expression part cannot include a backslash")
	}
	i := end
	shown := false
	if trimmed := strings.TrimRight(src, " "); strings.HasSuffix(trimmed, "=") && !strings.HasSuffix(trimmed, "==") && !strings.HasSuffix(trimmed, "!=") && !strings.HasSuffix(trimmed, "<=") && !strings.HasSuffix(trimmed, ">=") {
		shown = true
		out = append(out, &node{op: "str", str: src, line: line})
		src = strings.TrimSuffix(trimmed, "=")
	}
	v := &node{op: "fval", kids: []*node{p.sub(src, line), none}, line: line}
	if s[i] == '!' {
		if i+2 >= len(s) || !strings.ContainsRune("sra", rune(s[i+1])) {
			p.fail("f-string: invalid conversion character")
		}
		v.str = s[i+1 : i+2]
		i += 2
	}
	if i < len(s) && s[i] == ':' {
		i++
		depth, start := 0, i
		for i < len(s) && (depth > 0 || s[i] != '}') {
			switch s[i] {
			case '{':
				depth++
			case '}':
				depth--
			}
			i++
		}
		if i < len(s) {
			v.kids[1] = &node{op: "spec", kids: p.fstring(s[start:i], raw, line, level+1), line: line}
		}
	} else if shown && v.str == "" {
		v.str = "r"
	}
	if i >= len(s) || s[i] != '}' {
		p.fail("f-string: expecting '}'")
	}
	return append(out, v), i + 1
}

// fieldEnd finds where the expression of a field ends: at ! : or } outside of
// brackets and strings. != is an operator.
func fieldEnd(s string) int {
	depth := 0
	quote := ""
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote != "" {
			if strings.HasPrefix(s[i:], quote) {
				i += len(quote) - 1
				quote = ""
			}
			continue
		}
		switch c {
		case '"', '\'':
			quote = s[i : i+1]
			if strings.HasPrefix(s[i:], strings.Repeat(quote, 3)) {
				quote = strings.Repeat(quote, 3)
				i += 2
			}
		case '(', '[', '{':
			depth++
		case ')', ']':
			depth--
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '!':
			if depth == 0 && (i+1 >= len(s) || s[i+1] != '=') {
				return i
			}
			if i+1 < len(s) && s[i+1] == '=' {
				i++
			}
		case ':':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// sub parses an expression of a formatted literal, where it stands.
func (p *parser) sub(src string, line int) *node {
	toks, err := tokenize("(" + src + "\n)")
	if err != nil {
		p.fail("f-string: invalid expression")
	}
	for i := range toks {
		toks[i].line = line
	}
	q := &parser{toks: toks, depth: p.depth + 1, function: p.function, async: p.async}
	if q.depth > maxRecursion {
		p.fail("nested too deep")
	}
	if strings.TrimSpace(src) == "" {
		p.fail("f-string: empty expression not allowed")
	}
	e := q.atom()
	if !q.kind(tNewline) || q.peek().kind != tEnd {
		q.fail("f-string: invalid expression")
	}
	return e
}

// unescape spells equal texts equally. What cannot be decoded here (names of
// characters) stays as it is written.
func unescape(s string, raw, isBytes bool) string {
	if raw || !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	put := func(v uint64) {
		switch {
		case isBytes:
			b.WriteByte(byte(v))
		case v >= 0xd800 && v < 0xe000 || v > utf8.MaxRune:
			b.WriteString("\\u{" + strconv.FormatUint(v, 16) + "}")
		default:
			b.WriteRune(rune(v))
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		hex := func(n int) bool {
			if i+n >= len(s) {
				return false
			}
			v, err := strconv.ParseUint(s[i+1:i+1+n], 16, 64)
			if err != nil {
				return false
			}
			put(v)
			i += n
			return true
		}
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'x':
			if !hex(2) {
				b.WriteString(`\x`)
			}
		case 'u', 'U':
			n := 4
			if c == 'U' {
				n = 8
			}
			if isBytes || !hex(n) {
				b.WriteByte('\\')
				b.WriteByte(c)
			}
		case '0', '1', '2', '3', '4', '5', '6', '7':
			j := i
			for j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7' {
				j++
			}
			v, _ := strconv.ParseUint(s[i:j], 8, 64)
			put(v)
			i = j - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}
