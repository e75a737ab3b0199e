package scale

import "strings"

// Form is what a type is made of.
type Form uint8

// Forms, in the order of the portable registry.
const (
	Composite Form = iota
	Variants
	Sequence
	Array
	Tuple
	Primitive
	Compacted
	Bits
)

// Prim is a primitive type, in the order of the portable registry.
type Prim uint8

// Primitive types.
const (
	Bool Prim = iota
	Char
	Str
	U8
	U16
	U32
	U64
	U128
	U256
	I8
	I16
	I32
	I64
	I128
	I256
)

var primNames = []string{"bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "u256", "i8", "i16", "i32", "i64", "i128", "i256"}

// width is the size of a fixed-width number in bytes; 0 = none.
func (p Prim) width() int {
	switch p {
	case U8, I8:
		return 1
	case U16, I16:
		return 2
	case U32, I32:
		return 4
	case U64, I64:
		return 8
	case U128, I128:
		return 16
	case U256, I256:
		return 32
	}
	return 0
}

func (p Prim) signed() bool { return p >= I8 }

// Type is one type. It is immutable once its metadata is read. Types may
// refer to themselves.
type Type struct {
	ID     uint32
	Path   []string // names of modules, and last its own; empty for what has no name
	Params []Param
	Form   Form
	Prim   Prim      // of a Primitive
	Fields []Field   // of a Composite; of a Tuple without names
	Cases  []Variant // of Variants
	Elem   *Type     // of Sequence, Array, Compacted; the store of Bits
	Len    uint32    // of an Array
	order  *Type     // of Bits
	// least is how many bytes a value has at least.
	least int
	empty bool // no value takes any bytes
	// byIndex finds a case.
	byIndex map[uint8]*Variant
}

// Param is a parameter of a generic type; Type may be nil.
type Param struct {
	Name string
	Type *Type
}

// Field is one field; Name is empty in tuples.
type Field struct {
	Name     string
	Type     *Type
	TypeName string // as the source has it
}

// Variant is one case of an enumeration.
type Variant struct {
	Name   string
	Fields []Field
	Index  uint8
}

// Name is the type's own name, without its path.
func (t *Type) Name() string {
	if len(t.Path) == 0 {
		return ""
	}
	return t.Path[len(t.Path)-1]
}

// String is how a person would write the type.
func (t *Type) String() string { return t.text(4) }

func (t *Type) text(depth int) string {
	if t == nil || depth == 0 {
		return "…"
	}
	if len(t.Path) > 0 {
		s := strings.Join(t.Path, "::")
		if len(t.Params) > 0 {
			var ps []string
			for _, p := range t.Params[:min(len(t.Params), 8)] {
				if p.Type != nil {
					ps = append(ps, p.Type.text(depth-1))
				}
			}
			if len(ps) > 0 {
				s += "<" + strings.Join(ps, ", ") + ">"
			}
		}
		return s
	}
	switch t.Form {
	case Sequence:
		return "Vec<" + t.Elem.text(depth-1) + ">"
	case Array:
		return "[" + t.Elem.text(depth-1) + "; " + itoa(uint64(t.Len)) + "]"
	case Compacted:
		return "Compact<" + t.Elem.text(depth-1) + ">"
	case Primitive:
		return primNames[t.Prim]
	case Bits:
		return "BitVec"
	}
	parts := make([]string, min(len(t.Fields), 8))
	for i := range parts {
		parts[i] = t.Fields[i].Type.text(depth - 1)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// Case returns the variant of a name.
func (t *Type) Case(name string) (*Variant, bool) {
	for i := range t.Cases {
		if t.Cases[i].Name == name {
			return &t.Cases[i], true
		}
	}
	return nil, false
}

// ZeroSized reports whether every value of t takes no bytes.
func (t *Type) ZeroSized() bool { return t != nil && t.empty }

func (t *Type) isEmpty() bool {
	switch t.Form {
	case Array:
		return t.Len == 0 || t.Elem.empty
	case Composite, Tuple:
		for _, f := range t.Fields {
			if !f.Type.empty {
				return false
			}
		}
		return true
	}
	return false
}

// isOption reports whether t is Option, and of what.
func (t *Type) isOption() (*Type, bool) {
	if t.Form == Variants && len(t.Path) == 1 && t.Path[0] == "Option" && len(t.Cases) == 2 && t.Cases[0].Name == "None" && len(t.Cases[0].Fields) == 0 &&
		t.Cases[1].Name == "Some" && len(t.Cases[1].Fields) == 1 && t.Cases[0].Index == 0 && t.Cases[1].Index == 1 {
		return t.Cases[1].Fields[0].Type, true
	}
	return nil, false
}

func (t *Type) isAccount() bool {
	return t.Name() == "AccountId32" && t.Form == Composite && len(t.Fields) == 1 && t.Fields[0].Type.Form == Array && t.Fields[0].Type.Len == 32 && t.Fields[0].Type.Elem.isU8()
}

func (t *Type) isU8() bool { return t.Form == Primitive && t.Prim == U8 }

// newtype is what t is a single unnamed field of.
func newtype(fields []Field) (*Type, bool) {
	if len(fields) == 1 && fields[0].Name == "" {
		return fields[0].Type, true
	}
	return nil, false
}

// finish computes what decoding wants to know of all types, once they are linked.
func finish(types []*Type) {
	for _, t := range types {
		if t.Form == Variants {
			t.byIndex = make(map[uint8]*Variant, len(t.Cases))
			for i := range t.Cases {
				t.byIndex[t.Cases[i].Index] = &t.Cases[i]
			}
		}
	}
	// least grows from 0 to its fixed point; a few rounds of it are a lower bound, which is all that
	// is needed. So is a type that is found empty too late: it only keeps us from signing.
	for range 8 {
		for _, t := range types {
			t.least, t.empty = t.atLeast(), t.isEmpty()
		}
	}
}

const leastCap = 1 << 12

func (t *Type) atLeast() int {
	n := 0
	switch t.Form {
	case Variants, Sequence, Compacted, Bits:
		return 1
	case Array:
		if t.Elem.least > 0 {
			n = int(min(uint64(t.Len)*uint64(t.Elem.least), leastCap))
		}
	case Primitive:
		return max(t.Prim.width(), 1)
	default:
		for _, f := range t.Fields {
			n = min(n+f.Type.least, leastCap)
		}
	}
	return n
}
