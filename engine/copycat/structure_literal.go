package copycat

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Numbers, texts and f-strings, however they are spelled.

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
