package copycat

import (
	"fmt"
	"slices"
)

// node is a part of a syntax tree: op says what it is, str its own text, kids
// its parts in a fixed order per op. A part that may be missing is opNone.
type node struct {
	op   string
	str  string
	kids []*node
	line int
}

const opNone = "none"

var none = &node{op: opNone}

func (n *node) is(ops ...string) bool { return slices.Contains(ops, n.op) }

func isKeyword(s string) bool {
	switch s {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else",
		"except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
		"return", "try", "while", "with", "yield":
		return true
	}
	return false
}

type parser struct {
	toks  []token
	pos   int
	depth int
	// where a statement stands
	function, async, nested bool // nested: some function encloses it
	loop                    int
}

// parsePython reads a module.
func parsePython(src string) (mod *node, err error) {
	toks, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*SyntaxError)
			if !ok {
				panic(r)
			}
			mod, err = nil, e
		}
	}()
	mod = &node{op: "module"}
	for p.peek().kind != tEnd {
		mod.kids = append(mod.kids, p.statement()...)
	}
	return mod, nil
}

func (p *parser) fail(format string, a ...any) {
	panic(&SyntaxError{p.peek().line, fmt.Sprintf(format, a...)})
}

// deeper bounds recursion; call the result when done.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxRecursion {
		p.fail("nested too deep")
	}
	return func() { p.depth-- }
}

func (p *parser) peek() token { return p.toks[p.pos] }

func (p *parser) ahead(n int) token { return p.toks[min(p.pos+n, len(p.toks)-1)] }

func (p *parser) next() token {
	t := p.toks[p.pos]
	if t.kind != tEnd {
		p.pos++
	}
	return t
}

// at reports whether the next token is this operator or keyword.
func (p *parser) at(text string) bool {
	t := p.peek()
	return (t.kind == tOp || t.kind == tName) && t.text == text
}

func (p *parser) accept(text string) bool {
	if p.at(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail("expected %q", text)
	}
}

func (p *parser) kind(k tokenKind) bool {
	if p.peek().kind == k {
		p.pos++
		return true
	}
	return false
}

func (p *parser) ident() string {
	t := p.peek()
	if t.kind != tName || isKeyword(t.text) {
		p.fail("expected a name")
	}
	p.pos++
	return t.text
}

func (p *parser) n(op, str string, kids ...*node) *node {
	return &node{op: op, str: str, kids: kids, line: p.peek().line}
}

// try runs f and undoes it if it fails or says no.
func (p *parser) try(f func() bool) (ok bool) {
	saved := *p
	defer func() {
		if r := recover(); r != nil {
			if _, syntax := r.(*SyntaxError); !syntax {
				panic(r)
			}
			ok = false
		}
		if !ok {
			*p = saved
		}
	}()
	return f()
}

func (p *parser) block() *node {
	defer p.deeper()()
	p.expect(":")
	b := p.n("block", "")
	if !p.kind(tNewline) {
		b.kids = p.simple()
		return b
	}
	if !p.kind(tIndent) {
		p.fail("expected an indented block")
	}
	for !p.kind(tDedent) {
		if p.peek().kind == tEnd {
			break
		}
		b.kids = append(b.kids, p.statement()...)
	}
	return b
}

func (p *parser) loopBlock() *node {
	p.loop++
	defer func() { p.loop-- }()
	return p.block()
}

// statement reads one compound statement or one line of simple ones.
func (p *parser) statement() []*node {
	defer p.deeper()()
	t := p.peek()
	if t.kind == tIndent {
		p.fail("unexpected indent")
	}
	if t.kind == tOp && t.text == "@" {
		return []*node{p.decorated()}
	}
	if t.kind == tName {
		switch t.text {
		case "if":
			return []*node{p.ifStmt()}
		case "while":
			p.pos++
			n := p.n("while", "", p.namedExpr())
			n.kids = append(n.kids, p.loopBlock(), p.elseBlock())
			return []*node{n}
		case "for":
			return []*node{p.forStmt("for")}
		case "try":
			return []*node{p.tryStmt()}
		case "with":
			return []*node{p.withStmt("with")}
		case "def":
			return []*node{p.def("def", p.n("decorators", ""))}
		case "class":
			return []*node{p.classDef(p.n("decorators", ""))}
		case "async":
			p.pos++
			switch {
			case p.at("def"):
				return []*node{p.def("asyncdef", p.n("decorators", ""))}
			case !p.async:
				p.fail("async for and async with stand in an async function only")
			case p.at("for"):
				return []*node{p.forStmt("asyncfor")}
			case p.at("with"):
				return []*node{p.withStmt("asyncwith")}
			}
			p.fail("expected def, for or with")
		case "match":
			var m *node
			if p.try(func() bool { m = p.matchStmt(); return m != nil }) {
				return []*node{m}
			}
		}
	}
	return p.simple()
}

// simple reads a line of simple statements.
func (p *parser) simple() []*node {
	var out []*node
	for {
		out = append(out, p.small())
		if p.kind(tNewline) {
			return out
		}
		if !p.accept(";") {
			p.fail("invalid syntax at %.40q", p.peek().text)
		}
		if p.kind(tNewline) {
			return out
		}
	}
}

func (p *parser) small() *node {
	t := p.peek()
	if t.kind == tName {
		switch t.text {
		case "pass":
			p.pos++
			return p.n("pass", "")
		case "break", "continue":
			if p.loop == 0 {
				p.fail("%q outside loop", t.text)
			}
			p.pos++
			return p.n(t.text, "")
		case "return":
			if !p.function {
				p.fail("'return' outside function")
			}
			p.pos++
			return p.n("return", "", p.optional(p.starExprs))
		case "raise":
			p.pos++
			n := p.n("raise", "", p.optional(p.expr), none)
			if n.kids[0] != none && p.accept("from") {
				n.kids[1] = p.expr()
			}
			return n
		case "del":
			p.pos++
			n := p.n("del", "", p.starExprs())
			p.target(n.kids[0], false)
			return n
		case "global", "nonlocal":
			p.pos++
			if t.text == "nonlocal" && !p.function && !p.nested {
				p.fail("nonlocal declaration not allowed at module level")
			}
			n := p.n(t.text, "")
			for {
				n.kids = append(n.kids, p.n("ident", p.ident()))
				if !p.accept(",") {
					return n
				}
			}
		case "assert":
			p.pos++
			n := p.n("assert", "", p.expr(), none)
			if p.accept(",") {
				n.kids[1] = p.expr()
			}
			return n
		case "import":
			return p.importStmt()
		case "from":
			return p.fromStmt()
		}
	}
	return p.exprStmt()
}

// optional reads with f unless the statement ends here.
func (p *parser) optional(f func() *node) *node {
	if t := p.peek(); t.kind == tNewline || t.kind == tOp && (t.text == ";" || t.text == ")" || t.text == "}" || t.text == "]" || t.text == "=" || t.text == ",") {
		return none
	}
	return f()
}

func (p *parser) dotted() string {
	s := p.ident()
	for p.accept(".") {
		s += "." + p.ident()
	}
	return s
}

func (p *parser) alias(name string) *node {
	a := p.n("alias", name, none)
	if p.accept("as") {
		a.kids[0] = p.n("ident", p.ident())
	}
	return a
}

func (p *parser) importStmt() *node {
	p.expect("import")
	n := p.n("import", "")
	for {
		n.kids = append(n.kids, p.alias(p.dotted()))
		if !p.accept(",") {
			return n
		}
	}
}

func (p *parser) fromStmt() *node {
	p.expect("from")
	mod := ""
	for p.at(".") || p.at("...") {
		mod += p.next().text
	}
	if !p.at("import") {
		mod += p.dotted()
	} else if mod == "" {
		p.fail("expected a module")
	}
	p.expect("import")
	n := p.n("from", mod)
	if p.accept("*") {
		if p.function {
			p.fail("import * only allowed at module level")
		}
		n.kids = []*node{p.n("alias", "*", none)}
		return n
	}
	open := p.accept("(")
	for {
		n.kids = append(n.kids, p.alias(p.ident()))
		if !p.accept(",") {
			break
		}
		if open && p.at(")") {
			break
		}
	}
	if open {
		p.expect(")")
	}
	return n
}

var augmented = []string{"+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="}

func (p *parser) exprStmt() *node {
	first := p.starExprs()
	switch t := p.peek(); {
	case t.kind != tOp:
	case t.text == ":":
		if !first.is("name", "attr", "sub") {
			p.fail("only a single target can be annotated")
		}
		p.pos++
		n := p.n("ann", "", first, p.expr(), none)
		if p.accept("=") {
			n.kids[2] = p.rightSide()
		}
		return n
	case slices.Contains(augmented, t.text):
		if !first.is("name", "attr", "sub") {
			p.fail("illegal expression for augmented assignment")
		}
		p.pos++
		return p.n("aug", t.text, first, p.rightSide())
	case t.text == "=":
		n := p.n("assign", "", none, first)
		for p.accept("=") {
			n.kids = append(n.kids, p.rightSide())
		}
		last := len(n.kids) - 1
		n.kids[0] = n.kids[last]
		n.kids = n.kids[:last]
		for _, target := range n.kids[1:] {
			p.target(target, true)
		}
		return n
	}
	return p.n("expr", "", first)
}

func (p *parser) rightSide() *node {
	if p.at("yield") {
		return p.yield()
	}
	return p.starExprs()
}

// target checks that an expression can be assigned to.
func (p *parser) target(n *node, star bool) {
	switch n.op {
	case "name", "attr", "sub":
	case "tuple", "list":
		for _, k := range n.kids {
			p.target(k, star)
		}
	case "star":
		if !star {
			p.fail("cannot delete a starred expression")
		}
		p.target(n.kids[0], star)
	default:
		p.fail("cannot assign to this expression")
	}
}

func (p *parser) elseBlock() *node {
	if p.accept("else") {
		return p.block()
	}
	return none
}

// ifStmt keeps a chain of elif flat: tests and blocks in turn, then the else.
func (p *parser) ifStmt() *node {
	p.expect("if")
	n := p.n("if", "", p.namedExpr())
	n.kids = append(n.kids, p.block())
	for p.accept("elif") {
		n.kids = append(n.kids, p.namedExpr())
		n.kids = append(n.kids, p.block())
	}
	n.kids = append(n.kids, p.elseBlock())
	return n
}

func (p *parser) forStmt(op string) *node {
	p.expect("for")
	target := p.targetList()
	p.expect("in")
	n := p.n(op, "", target, p.starExprs())
	n.kids = append(n.kids, p.loopBlock())
	n.kids = append(n.kids, p.elseBlock())
	return n
}

// targetList reads what stands between for and in.
func (p *parser) targetList() *node {
	var list []*node
	comma := false
	for {
		var e *node
		if p.accept("*") {
			e = p.n("star", "", p.bitOr())
		} else {
			e = p.bitOr()
		}
		p.target(e, true)
		list = append(list, e)
		if !p.accept(",") {
			break
		}
		comma = true
		if p.at("in") {
			break
		}
	}
	if len(list) == 1 && !comma {
		return list[0]
	}
	return p.n("tuple", "", list...)
}

func (p *parser) tryStmt() *node {
	p.expect("try")
	n := p.n("try", "", p.block())
	for p.at("except") {
		p.pos++
		h := p.n("handler", "", none, none, none)
		if p.accept("*") {
			h.op = "handler*"
		}
		if !p.at(":") {
			h.kids[0] = p.expr()
			if p.at(",") {
				p.fail("multiple exception types must be parenthesized")
			}
			if p.accept("as") {
				h.kids[1] = p.n("ident", p.ident())
			}
		}
		h.kids[2] = p.block()
		n.kids = append(n.kids, h)
	}
	handled := len(n.kids) > 1
	els, fin := none, none
	if handled && p.accept("else") {
		els = p.block()
	}
	if p.accept("finally") {
		fin = p.block()
	} else if !handled {
		p.fail("expected 'except' or 'finally' block")
	}
	n.kids = append(n.kids, els, fin)
	return n
}

func (p *parser) withItem() *node {
	n := p.n("withitem", "", p.expr(), none)
	if p.accept("as") {
		n.kids[1] = p.starTarget()
	}
	return n
}

func (p *parser) starTarget() *node {
	t := p.bitOr()
	p.target(t, true)
	return t
}

func (p *parser) withStmt(op string) *node {
	p.expect("with")
	n := p.n(op, "")
	if !p.at("(") || !p.try(func() bool {
		var items []*node
		p.expect("(")
		for !p.accept(")") {
			items = append(items, p.withItem())
			if !p.accept(",") {
				p.expect(")")
				break
			}
		}
		n.kids = items
		return len(items) > 0 && p.at(":")
	}) {
		n.kids = nil
		for {
			n.kids = append(n.kids, p.withItem())
			if !p.accept(",") {
				break
			}
		}
	}
	n.kids = append(n.kids, p.block())
	return n
}
