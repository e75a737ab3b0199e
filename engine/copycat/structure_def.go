package copycat

import "slices"

// Functions, classes and match statements.

func (p *parser) decorated() *node {
	d := p.n("decorators", "")
	for p.accept("@") {
		d.kids = append(d.kids, p.namedExpr())
		if !p.kind(tNewline) {
			p.fail("expected a new line after a decorator")
		}
	}
	switch {
	case p.at("def"):
		return p.def("def", d)
	case p.at("class"):
		return p.classDef(d)
	case p.accept("async"):
		if p.at("def") {
			return p.def("asyncdef", d)
		}
	}
	p.fail("expected a function or class after decorators")
	return nil
}

func (p *parser) def(op string, decorators *node) *node {
	p.expect("def")
	line := p.peek().line
	n := &node{op: op, str: p.ident(), line: line}
	p.expect("(")
	params := p.params(")", true)
	p.expect(")")
	returns := none
	if p.accept("->") {
		returns = p.expr()
	}
	saved := *p
	p.function, p.async, p.nested, p.loop = true, op == "asyncdef", true, 0
	body := p.block()
	p.function, p.async, p.nested, p.loop = saved.function, saved.async, saved.nested, saved.loop
	n.kids = []*node{decorators, params, returns, body}
	return n
}

// params reads parameters up to end, which is not consumed.
func (p *parser) params(end string, annotated bool) *node {
	out := p.n("params", "")
	seen := map[string]bool{}
	op, defaulted, closed := "param", false, false
	for !p.at(end) {
		if closed {
			p.fail("arguments cannot follow var-keyword argument")
		}
		switch {
		case p.accept("/"):
			if len(out.kids) == 0 || op != "param" || slices.ContainsFunc(out.kids, func(k *node) bool { return k.op == "posonly" }) {
				p.fail("/ must come once, after a parameter and ahead of *")
			}
			for _, k := range out.kids {
				k.op = "posonly"
			}
		case p.at("*") && p.ahead(1).kind == tOp && p.ahead(1).text == ",":
			if op == "kwonly" {
				p.fail("* argument may appear only once")
			}
			p.pos++
			if t := p.ahead(1); t.kind == tOp && (t.text == end || t.text == "**") {
				p.fail("named arguments must follow bare *")
			}
			op = "kwonly"
		default:
			k := op
			switch {
			case p.accept("**"):
				k, closed = "kwarg", true
			case p.accept("*"):
				if op == "kwonly" {
					p.fail("* argument may appear only once")
				}
				k, op = "vararg", "kwonly"
			}
			one := p.n(k, p.ident(), none, none)
			if seen[one.str] {
				p.fail("duplicate argument %.60q in function definition", one.str)
			}
			seen[one.str] = true
			if annotated && p.accept(":") {
				if one.op == "vararg" && p.accept("*") {
					one.kids[0] = p.n("star", "", p.bitOr())
				} else {
					one.kids[0] = p.expr()
				}
			}
			if p.accept("=") {
				if one.is("vararg", "kwarg") {
					p.fail("var-arguments cannot have a default value")
				}
				one.kids[1] = p.expr()
				defaulted = defaulted || one.op == "param"
			} else if defaulted && one.op == "param" {
				p.fail("non-default argument follows default argument")
			}
			out.kids = append(out.kids, one)
		}
		if !p.accept(",") {
			break
		}
	}
	if !p.at(end) {
		p.fail("invalid parameter list")
	}
	return out
}

func (p *parser) classDef(decorators *node) *node {
	p.expect("class")
	line := p.peek().line
	n := &node{op: "class", str: p.ident(), line: line}
	args := p.n("args", "")
	if p.accept("(") {
		args = p.args()
	}
	saved := *p
	p.function, p.async, p.loop = false, false, 0
	body := p.block()
	p.function, p.async, p.loop = saved.function, saved.async, saved.loop
	n.kids = []*node{decorators, args, body}
	return n
}

// matchStmt reads a match statement, nil if the word is only a name here.
func (p *parser) matchStmt() *node {
	line := p.peek().line
	p.pos++
	subject := p.starExprs()
	if !p.at(":") || p.ahead(1).kind != tNewline || p.ahead(2).kind != tIndent || p.ahead(3).text != "case" {
		return nil
	}
	p.pos += 3
	n := p.n("match", "", subject)
	n.line = line
	for !p.kind(tDedent) {
		if p.peek().kind == tEnd {
			break
		}
		p.expect("case")
		c := p.n("case", "", p.patterns(), none, none)
		if p.accept("if") {
			c.kids[1] = p.namedExpr()
		}
		c.kids[2] = p.block()
		n.kids = append(n.kids, c)
	}
	return n
}

// patterns reads a pattern, or several without brackets.
func (p *parser) patterns() *node {
	list := []*node{p.pattern()}
	comma := false
	for p.accept(",") {
		comma = true
		if p.at(":") || p.at("if") {
			break
		}
		list = append(list, p.pattern())
	}
	if !comma && list[0].op != "pstar" {
		return list[0]
	}
	return p.n("pseq", "", list...)
}

func (p *parser) pattern() *node {
	defer p.deeper()()
	if p.accept("*") {
		return p.n("pstar", p.ident())
	}
	n := p.closedPattern()
	if p.at("|") {
		n = p.n("por", "", n)
		for p.accept("|") {
			n.kids = append(n.kids, p.closedPattern())
		}
	}
	if p.accept("as") {
		n = p.n("pas", p.ident(), n)
	}
	return n
}

func (p *parser) patternList(end string) []*node {
	var list []*node
	for !p.at(end) {
		list = append(list, p.pattern())
		if !p.accept(",") {
			break
		}
	}
	p.expect(end)
	return list
}

func (p *parser) closedPattern() *node {
	t := p.peek()
	switch {
	case t.kind == tNumber || t.kind == tString || t.kind == tOp && t.text == "-" || p.at("None") || p.at("True") || p.at("False"):
		return p.n("pvalue", "", p.arith())
	case p.accept("["):
		return p.n("pseq", "", p.patternList("]")...)
	case p.accept("("):
		before := p.pos
		list := p.patternList(")")
		if len(list) == 1 && p.toks[p.pos-2].text != "," && before < p.pos && list[0].op != "pstar" {
			return list[0]
		}
		return p.n("pseq", "", list...)
	case p.accept("{"):
		n := p.n("pmap", "")
		for !p.at("}") {
			if p.accept("**") {
				n.kids = append(n.kids, p.n("pstar", p.ident()))
			} else {
				key := p.closedPattern()
				p.expect(":")
				n.kids = append(n.kids, p.n("pair", "", key, p.pattern()))
			}
			if !p.accept(",") {
				break
			}
		}
		p.expect("}")
		return n
	case t.kind == tName && !isKeyword(t.text):
		p.pos++
		name := p.n("name", t.text)
		if !p.at(".") && !p.at("(") {
			return p.n("pcapture", t.text)
		}
		value := name
		for p.accept(".") {
			value = p.n("attr", p.ident(), value)
		}
		if !p.accept("(") {
			return p.n("pvalue", "", value)
		}
		n := p.n("pclass", "", value)
		for !p.at(")") {
			if a := p.ahead(1); p.peek().kind == tName && a.kind == tOp && a.text == "=" {
				key := p.ident()
				p.expect("=")
				n.kids = append(n.kids, p.n("kw", key, p.pattern()))
			} else {
				n.kids = append(n.kids, p.pattern())
			}
			if !p.accept(",") {
				break
			}
		}
		p.expect(")")
		return n
	}
	p.fail("invalid pattern")
	return nil
}
