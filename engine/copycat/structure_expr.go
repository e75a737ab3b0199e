package copycat

import "slices"

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
