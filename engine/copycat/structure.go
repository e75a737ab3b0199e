// Package copycat tells copies from new work. It is pure.
package copycat

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/calc"
)

// Rule makes the rule by which agon calc computes structure hashes, under the
// name that a kind gives it.
func Rule(name string) calc.Rule {
	type in struct {
		Source string `json:"source"`
	}
	type out struct {
		Hash string `json:"hash"`
	}
	return calc.Func(name, "{source} -> {hash}: what is left of a Python script when names, spelling, order of helpers and padding are taken away",
		func(i in) (out, error) {
			h, err := StructureHash(i.Source)
			return out{h}, err
		})
}

// CheckPython reads src as a Python 3.11 module and returns a *SyntaxError
// where it cannot be one. What only a compiler sees (a nonlocal without a
// variable, a name of a character that does not exist) passes.
func CheckPython(src string) error {
	_, err := parsePython(src)
	return err
}

// StructureHash returns 64 hex digits that two scripts share when they differ
// only in comments, white space, positions, the spelling of literals, names of
// locals, helpers and imports, the order of imports and helpers, unused inert
// helpers, unread module constants, docstrings, pass and constant expressions.
// Every other difference counts: order of statements and keyword arguments,
// dead code, folded constants. The error is a *SyntaxError.
//
// A script that can read itself (reflects) keeps docstrings, constants, helpers
// and the names of its module: what only looks like padding may be its prompt.
//
// It begins with what runs when the module is loaded and numbers helpers in
// the order in which that reaches them, so where they stand does not matter.
func StructureHash(src string) (string, error) {
	mod, err := parsePython(src)
	if err != nil {
		return "", err
	}
	a := analyse(mod)
	e := &emitter{a: a, h: sha256.New(), globals: map[string]int{}, whole: reflects(mod)}
	e.h.Write([]byte("agon-python-structure-v1\n"))
	for _, s := range mod.kids {
		if e.whole || !a.movable(s) {
			e.stmt(s, a.module)
		}
	}
	// Every definition may reach further ones.
	for i := 0; i < len(e.queue); i++ {
		e.word("helper")
		e.stmt(e.queue[i], a.module)
	}
	return hex.EncodeToString(e.h.Sum(nil)), nil
}

type emitter struct {
	a       *analysis
	h       hash.Hash
	globals map[string]int // number by name
	queue   []*node        // movable definitions that were reached, in order
	whole   bool           // nothing is padding, and names of the module count
}

// padding reports whether a statement says nothing here.
func (e *emitter) padding(n *node) bool { return !e.whole && padding(n) }

// mirrors are the names by which Python code reads its own text and names.
var mirrors = map[string]bool{
	"__doc__": true, "__dict__": true, "__code__": true, "__globals__": true, "__import__": true, "__annotations__": true, "__builtins__": true,
	"globals": true, "locals": true, "vars": true, "dir": true, "getattr": true, "eval": true, "exec": true, "compile": true, "inspect": true, "importlib": true,
	"getdoc": true, "getsource": true, "_getframe": true, "get_type_hints": true,
}

// reflects reports whether code may read its own docstrings, constants or names.
func reflects(n *node) bool {
	if n == nil {
		return false
	}
	switch n.op {
	case "name", "ident", "attr", "alias", "from":
		first, _, _ := strings.Cut(n.str, ".")
		if mirrors[n.str] || mirrors[first] {
			return true
		}
	}
	return slices.ContainsFunc(n.kids, reflects)
}

func (e *emitter) word(s string) {
	e.h.Write([]byte(strconv.Itoa(len(s))))
	e.h.Write([]byte{':'})
	e.h.Write([]byte(s))
}

// name writes what a name stands for in s.
func (e *emitter) name(name string, s *scope) {
	switch owner := s.resolve(name); {
	case owner == nil:
		e.word("builtin")
		e.word(name)
	case owner.kind == classScope:
		e.word("field")
		e.word(name)
	case owner != e.a.module:
		e.word("local" + strconv.Itoa(owner.depth))
		e.word(strconv.Itoa(owner.number(name)))
	case e.whole:
		e.word("module")
		e.word(name)
	default:
		if imp := e.a.imported(name); imp != "" {
			e.word("import")
			e.word(imp)
			return
		}
		n, ok := e.globals[name]
		if !ok {
			n = len(e.globals)
			e.globals[name] = n
			if def := e.a.definition(name); def != nil && e.a.movable(def) {
				e.queue = append(e.queue, def)
			}
		}
		e.word("global")
		e.word(strconv.Itoa(n))
	}
}

func (e *emitter) list(kids []*node, s *scope) {
	e.word(strconv.Itoa(len(kids)))
	for _, k := range kids {
		e.node(k, s)
	}
}

// block writes statements without padding.
func (e *emitter) block(b *node, s *scope) {
	if b.op == opNone {
		e.word("(empty)")
		return
	}
	kept := false
	for _, x := range b.kids {
		if !e.padding(x) {
			if !kept {
				e.word("(block)")
			}
			kept = true
			e.stmt(x, s)
		}
	}
	if !kept {
		e.word("(empty)")
		return
	}
	e.word("(end)")
}

func (e *emitter) stmt(n *node, s *scope) {
	if e.padding(n) {
		return
	}
	e.node(n, s)
}

func (e *emitter) params(params *node, inner, outer *scope) {
	e.word(strconv.Itoa(len(params.kids)))
	for _, p := range params.kids {
		e.word(p.op)
		e.word(strconv.Itoa(inner.number(p.str)))
		e.list(p.kids, outer)
	}
}

// node writes a statement or an expression that stands in s.
func (e *emitter) node(n *node, s *scope) {
	if n.op == "block" && !slices.ContainsFunc(n.kids, func(k *node) bool { return !e.padding(k) }) {
		n = none // a block of padding is not a block
	}
	e.word(n.op)
	switch n.op {
	case "name", "ident", "walrus", "pcapture", "pas":
		e.name(n.str, s.forOp(n.op))
		e.list(n.kids, s)
	case "pstar":
		if n.str != "_" {
			e.name(n.str, s)
		}
	case "block":
		e.block(n, s)
	case "def", "asyncdef":
		e.list(n.kids[0].kids, s)
		e.name(n.str, s)
		inner := e.a.scopes[n]
		e.params(n.kids[1], inner, s)
		e.node(n.kids[2], s)
		e.block(n.kids[3], inner)
	case "class":
		e.list(n.kids[0].kids, s)
		e.name(n.str, s)
		e.list(n.kids[1].kids, s)
		e.block(n.kids[2], e.a.scopes[n])
	case "lambda":
		inner := e.a.scopes[n]
		e.params(n.kids[0], inner, s)
		e.node(n.kids[1], inner)
	case "listcomp", "setcomp", "dictcomp", "genexp":
		inner := e.a.scopes[n]
		// The clauses first: they bind what the element reads.
		for _, k := range n.kids[1:] {
			e.node(k, inner)
		}
		e.node(n.kids[0], inner)
	case "import", "from":
		e.imports(n, s)
	case "call":
		e.node(n.kids[0], s)
		e.args(n, s)
	default:
		e.word(n.str)
		e.list(n.kids, s)
	}
}

// args writes arguments; keywords of a function of this script go by place,
// because its parameters have no names any more.
func (e *emitter) args(call *node, s *scope) {
	var def *node
	if f := call.kids[0]; f.op == "name" {
		if owner := s.resolve(f.str); owner != nil {
			def = owner.defs[f.str]
		}
	}
	args := call.kids[1].kids
	e.word(strconv.Itoa(len(args)))
	for _, a := range args {
		if a.op == "kw" && def != nil {
			if i := slices.IndexFunc(def.kids[1].kids, func(p *node) bool { return p.str == a.str && (p.op == "param" || p.op == "kwonly") }); i >= 0 {
				e.word("place")
				e.word(strconv.Itoa(i))
				e.list(a.kids, s)
				continue
			}
		}
		e.node(a, s)
	}
}

// imports writes an import that could not be put in the place of its uses; the
// order of its names does not matter.
func (e *emitter) imports(n *node, s *scope) {
	e.word(n.str)
	aliases := slices.Clone(n.kids)
	slices.SortStableFunc(aliases, func(a, b *node) int { return strings.Compare(a.str, b.str) })
	for _, a := range aliases {
		e.word(a.str)
		if a.str == "*" {
			continue
		}
		e.name(boundBy(n, a), s)
	}
}

// padding reports whether a statement does nothing at all.
func padding(n *node) bool {
	return n.op == "pass" || n.op == "expr" && constant(n.kids[0])
}

// constant reports whether an expression is made of literals and operators only.
func constant(n *node) bool {
	switch n.op {
	case "num", "str", "bytes", "const", opNone:
		return true
	case "tuple", "list", "set", "dict", "pair", "unary", "bin", "bool", "ifexp":
		for _, k := range n.kids {
			if !constant(k) {
				return false
			}
		}
		return true
	}
	return false
}
