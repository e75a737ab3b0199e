package copycat

import (
	"fmt"
	"slices"
	"strings"
)

// Opaque is a place at which a script could look at itself, or make code or
// names at run time, so that neither a reader nor StructureHash sees what it does.
type Opaque struct {
	Line int    // from 1
	What string // a sentence's subject: "a call of eval"
}

// maxOpaque bounds what is listed of one script.
const maxOpaque = 20

var (
	// guarded may be called by nobody, nor given another name.
	guarded = map[string]bool{
		"eval": true, "exec": true, "compile": true, "globals": true, "locals": true, "vars": true, "dir": true, "type": true, "help": true,
		"__import__": true, "__builtins__": true, "__loader__": true, "__spec__": true, "setattr": true, "delattr": true,
	}
	// byName may be called with a literal name only.
	byName = map[string]bool{"getattr": true, "hasattr": true}
	// mirrorModules are those by which a script reads or makes code.
	mirrorModules = map[string]bool{"importlib": true, "inspect": true, "builtins": true}
	// mirrorMembers are functions of other modules that do so.
	mirrorMembers = map[string][]string{
		"typing": {"get_type_hints"}, "dataclasses": {"fields", "asdict"},
		"sys": {"modules", "_getframe"}, "operator": {"attrgetter", "methodcaller"},
	}
	// statements that move names about.
	opaqueStatements = map[string]bool{"match": true, "del": true, "global": true, "nonlocal": true}
)

// Opacities lists, in order of the text, what keeps a script from being
// transparent:
//   - names of what makes or reads code (eval, exec, compile, globals, type, …),
//     called or passed on; getattr and hasattr with names that are made;
//   - importlib, inspect, builtins; get_type_hints, fields, asdict; of sys modules and
//     _getframe, of operator attrgetter and methodcaller;
//   - attributes between double underscores;
//   - the statements match, del, global and nonlocal;
//   - more than fields and methods in the body of a class.
//
// The rules are those that Harnyx describes for its uploads. At most 20 places
// are listed; the error is a *SyntaxError.
func Opacities(src string) ([]Opaque, error) {
	mod, err := parsePython(src)
	if err != nil {
		return nil, err
	}
	o := opacities{modules: map[string]string{}}
	o.imports(mod)
	o.see(mod)
	slices.SortStableFunc(o.found, func(a, b Opaque) int { return a.Line - b.Line })
	if len(o.found) > maxOpaque {
		o.found = o.found[:maxOpaque]
	}
	return o.found, nil
}

type opacities struct {
	found   []Opaque
	modules map[string]string // by the names that imports give them
}

// imports notes which modules stand under other names.
func (o *opacities) imports(n *node) {
	if n.op == "import" {
		for _, a := range n.kids {
			if as := a.kids[0]; as.op == "ident" {
				o.modules[as.str] = a.str
			}
		}
	}
	for _, k := range n.kids {
		if k != nil {
			o.imports(k)
		}
	}
}

// members are those of a module, by any name of it, that read or make code.
func (o *opacities) members(name string) (module string, members []string) {
	if m, ok := o.modules[name]; ok {
		name = m
	}
	return name, mirrorMembers[name]
}

func (o *opacities) add(n *node, format string, args ...any) {
	o.found = append(o.found, Opaque{n.line, fmt.Sprintf(format, args...)})
}

func (o *opacities) see(n *node) {
	switch {
	case n == nil:
		return
	case opaqueStatements[n.op]:
		o.add(n, "the statement %s", n.op)
	case n.is("name", "ident", "pcapture") && (guarded[n.str] || byName[n.str]):
		o.add(n, "%s, called or passed on", n.str)
	case n.is("alias", "from") && mirrorModules[first(n.str)]:
		o.add(n, "the module %s", first(n.str))
	case n.op == "attr" && strings.HasPrefix(n.str, "__") && strings.HasSuffix(n.str, "__"):
		o.add(n, "the attribute %s", n.str)
	}
	switch n.op {
	case "call":
		if f := n.kids[0]; f.op == "name" && byName[f.str] {
			if args := n.kids[1].kids; len(args) < 2 || args[1].op != "str" {
				o.add(n, "%s with a name that is made at run time", f.str)
			} else if name := args[1].str; strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
				o.add(n, "the attribute %s", name)
			}
			o.see(n.kids[1])
			return
		}
	case "from":
		for _, a := range n.kids {
			if slices.Contains(mirrorMembers[n.str], a.str) {
				o.add(a, "%s.%s", n.str, a.str)
			}
			if guarded[a.str] || byName[a.str] {
				o.add(a, "%s, by another name", a.str)
			}
		}
	case "attr":
		if m := n.kids[0]; m.op == "name" {
			if module, members := o.members(m.str); slices.Contains(members, n.str) {
				o.add(n, "%s.%s", module, n.str)
			}
		}
	case "class":
		o.body(n.kids[2])
	}
	for _, k := range n.kids {
		o.see(k)
	}
}

// body wants a docstring, pass, fields and methods.
func (o *opacities) body(block *node) {
	for i, s := range block.kids {
		switch {
		case s.is("pass", "ann", "def", "asyncdef"):
		case s.op == "assign" && s.kids[1].op == "name":
		case s.op == "expr" && (i == 0 && s.kids[0].op == "str" || s.kids[0].op == "const"):
		default:
			o.add(s, "more than fields and methods in a class")
		}
	}
}

// first is the part of a dotted name before its first dot.
func first(dotted string) string {
	s, _, _ := strings.Cut(dotted, ".")
	return s
}
