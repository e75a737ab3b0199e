package copycat

import "strings"

type scopeKind uint8

const (
	moduleScope scopeKind = iota
	functionScope
	classScope
	compScope
)

// scope is where names are bound. Python's rules: a name that is bound
// anywhere in a function is the function's own; class bodies are not seen by
// the functions in them.
type scope struct {
	kind     scopeKind
	parent   *scope
	depth    int
	bound    map[string]int // how often
	global   map[string]bool
	nonlocal map[string]bool
	defs     map[string]*node // functions bound exactly once
	numbers  map[string]int
}

func newScope(k scopeKind, parent *scope) *scope {
	s := &scope{kind: k, parent: parent, bound: map[string]int{}, defs: map[string]*node{}, numbers: map[string]int{}, global: map[string]bool{}, nonlocal: map[string]bool{}}
	if parent != nil {
		s.depth = parent.depth + 1
	}
	return s
}

// number counts names in the order in which they are met.
func (s *scope) number(name string) int {
	n, ok := s.numbers[name]
	if !ok {
		n = len(s.numbers)
		s.numbers[name] = n
	}
	return n
}

// resolve finds the scope that a name belongs to, nil for builtins.
func (s *scope) resolve(name string) *scope {
	for at := s; at != nil; at = at.parent {
		switch {
		case at.kind == classScope && at != s:
		case at.global[name]:
			return at.root()
		case at.nonlocal[name]:
		case at.bound[name] > 0:
			return at
		}
	}
	return nil
}

func (s *scope) root() *scope {
	for s.parent != nil {
		s = s.parent
	}
	return s
}

// forOp is where an op binds: an assignment expression binds outside of comprehensions.
func (s *scope) forOp(op string) *scope {
	if op == "walrus" {
		for s.kind == compScope {
			s = s.parent
		}
	}
	return s
}

func (s *scope) bind(name string) {
	if s.global[name] {
		s.root().bound[name]++
		s.root().bound[name]++ // from within a function: never simple
		return
	}
	if s.nonlocal[name] {
		return
	}
	s.bound[name]++
}

type analysis struct {
	module *scope
	scopes map[*node]*scope
	// top maps a module's name to the statement that binds it, nil if it is bound elsewhere too.
	top     map[string]*node
	imports map[string]string // what a name imports, where every binding says the same
	moves   map[*node]bool
}

func analyse(mod *node) *analysis {
	a := &analysis{module: newScope(moduleScope, nil), scopes: map[*node]*scope{}, top: map[string]*node{}, imports: map[string]string{}, moves: map[*node]bool{}}
	for _, s := range mod.kids {
		a.collect(s, a.module)
	}
	counts := map[string]int{} // imports by name
	for _, s := range mod.kids {
		switch s.op {
		case "import", "from":
			for _, al := range s.kids {
				name, what := boundBy(s, al), target(s, al)
				if name == "" {
					continue
				}
				if old, ok := a.imports[name]; ok && old != what {
					a.imports[name] = ""
				} else if !ok {
					a.imports[name] = what
				}
				counts[name]++
			}
		case "def", "asyncdef", "class":
			a.top[s.str] = s
		case "assign":
			if len(s.kids) == 2 && s.kids[1].op == "name" {
				a.top[s.kids[1].str] = s
			}
		case "ann":
			if s.kids[0].op == "name" && s.kids[2] != none {
				a.top[s.kids[0].str] = s
			}
		}
	}
	for name := range a.top {
		if a.module.bound[name] != 1 {
			delete(a.top, name)
		}
	}
	for name, n := range counts {
		if a.module.bound[name] != n {
			a.imports[name] = ""
		}
	}
	for _, s := range mod.kids {
		a.moves[s] = a.canMove(s)
	}
	return a
}

// imported returns what a module's name imports, "" if it is more than an import.
func (a *analysis) imported(name string) string { return a.imports[name] }

func (a *analysis) definition(name string) *node { return a.top[name] }

// movable reports whether a statement of the module only matters to who reads what it binds.
func (a *analysis) movable(n *node) bool { return a.moves[n] }

func (a *analysis) canMove(n *node) bool {
	switch n.op {
	case "import", "from":
		for _, al := range n.kids {
			name := boundBy(n, al)
			if name == "" || a.imports[name] == "" {
				return false
			}
		}
		return true
	case "def", "asyncdef", "class":
		return a.top[n.str] == n && a.inert(n)
	case "assign":
		return n.kids[1].op == "name" && len(n.kids) == 2 && a.top[n.kids[1].str] == n && a.inert(n.kids[0])
	case "ann":
		return n.kids[0].op == "name" && n.kids[2] != none && a.top[n.kids[0].str] == n && a.inert(n.kids[1]) && a.inert(n.kids[2])
	}
	return false
}

// inert reports whether a definition or an expression of the module does
// nothing when it is reached.
func (a *analysis) inert(n *node) bool {
	all := func(kids []*node) bool {
		for _, k := range kids {
			if !a.inert(k) {
				return false
			}
		}
		return true
	}
	switch n.op {
	case "num", "str", "bytes", "const", "name", "lambda", opNone, "pass":
		return true
	case "tuple", "list", "set", "dict", "pair", "unary", "bin", "bool", "cmp", "op", "ifexp", "attr", "sub", "slice", "expr":
		return all(n.kids)
	case "def", "asyncdef":
		if len(n.kids[0].kids) > 0 || !a.inert(n.kids[2]) {
			return false
		}
		for _, p := range n.kids[1].kids {
			if !all(p.kids) {
				return false
			}
		}
		return true
	case "class":
		return len(n.kids[0].kids) == 0 && all(n.kids[1].kids) && all(n.kids[2].kids)
	case "assign":
		for _, t := range n.kids[1:] {
			if t.op != "name" {
				return false
			}
		}
		return a.inert(n.kids[0])
	case "ann":
		return n.kids[0].op == "name" && a.inert(n.kids[1]) && a.inert(n.kids[2])
	}
	return false
}

// boundBy is the name that an alias of an import binds; "" for *.
func boundBy(imp, alias *node) string {
	switch {
	case alias.str == "*":
		return ""
	case alias.kids[0] != none:
		return alias.kids[0].str
	case imp.op == "import":
		first, _, _ := strings.Cut(alias.str, ".")
		return first
	}
	return alias.str
}

// target says what an alias imports.
func target(imp, alias *node) string {
	switch {
	case imp.op == "from":
		return "from " + imp.str + " " + alias.str
	case alias.kids[0] != none:
		return "import " + alias.str
	}
	first, _, _ := strings.Cut(alias.str, ".")
	return "import " + first
}

// collect finds what is bound where.
func (a *analysis) collect(n *node, s *scope) {
	switch n.op {
	case "global", "nonlocal":
		for _, k := range n.kids {
			if n.op == "global" {
				s.global[k.str] = true
				if s.kind != moduleScope {
					s.root().bound[k.str] += 2 // another place may bind it
				}
			} else {
				s.nonlocal[k.str] = true
			}
		}
	case "def", "asyncdef":
		s.bind(n.str)
		if owner := s; owner.bound[n.str] == 1 {
			owner.defs[n.str] = n
		} else {
			delete(owner.defs, n.str)
		}
		for _, k := range n.kids[0].kids {
			a.collect(k, s)
		}
		a.function(n, n.kids[1], s)
		a.collect(n.kids[2], s)
		a.collect(n.kids[3], a.scopes[n])
	case "lambda":
		a.function(n, n.kids[0], s)
		a.collect(n.kids[1], a.scopes[n])
	case "class":
		s.bind(n.str)
		for _, k := range append(append([]*node{}, n.kids[0].kids...), n.kids[1].kids...) {
			a.collect(k, s)
		}
		inner := newScope(classScope, s)
		a.scopes[n] = inner
		a.collect(n.kids[2], inner)
	case "listcomp", "setcomp", "dictcomp", "genexp":
		inner := newScope(compScope, s)
		a.scopes[n] = inner
		for _, k := range n.kids {
			a.collect(k, inner)
		}
	case "comp", "asynccomp":
		a.bindTarget(n.kids[0], s)
		for _, k := range n.kids[1:] {
			a.collect(k, s)
		}
	case "walrus":
		s.forOp("walrus").bind(n.str)
		a.collect(n.kids[0], s)
	case "pcapture", "pas", "pstar":
		if n.str != "_" {
			s.bind(n.str)
		}
		a.all(n.kids, s)
	case "assign":
		a.collect(n.kids[0], s)
		for _, t := range n.kids[1:] {
			a.bindTarget(t, s)
		}
	case "aug", "ann", "for", "asyncfor":
		a.bindTarget(n.kids[0], s)
		a.all(n.kids[1:], s)
	case "del":
		a.bindTarget(n.kids[0], s)
	case "withitem":
		a.collect(n.kids[0], s)
		a.bindTarget(n.kids[1], s)
	case "handler", "handler*":
		a.collect(n.kids[0], s)
		if n.kids[1] != none {
			s.bind(n.kids[1].str)
		}
		a.collect(n.kids[2], s)
	case "import", "from":
		for _, al := range n.kids {
			if name := boundBy(n, al); name != "" {
				s.bind(name)
			}
		}
	default:
		a.all(n.kids, s)
	}
	// A function that is bound again by other means has no parameters to speak of.
	if n.op == "assign" || n.op == "for" || n.op == "import" || n.op == "from" {
		for name := range s.defs {
			if s.bound[name] > 1 {
				delete(s.defs, name)
			}
		}
	}
}

func (a *analysis) all(kids []*node, s *scope) {
	for _, k := range kids {
		a.collect(k, s)
	}
}

func (a *analysis) function(n, params *node, s *scope) {
	inner := newScope(functionScope, s)
	a.scopes[n] = inner
	for _, p := range params.kids {
		a.all(p.kids, s)
		inner.bind(p.str)
		inner.number(p.str) // parameters come first
	}
}

func (a *analysis) bindTarget(n *node, s *scope) {
	switch n.op {
	case "name":
		s.bind(n.str)
	case "tuple", "list", "star":
		for _, k := range n.kids {
			a.bindTarget(k, s)
		}
	default:
		a.collect(n, s)
	}
}
