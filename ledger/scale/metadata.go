package scale

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// Metadata is what a runtime says of itself. It is immutable and safe for
// concurrent use.
type Metadata struct {
	Version int // 14, 15 or 16
	Types   []*Type
	Pallets []*Pallet
	// Extrinsic versions and transaction extensions, in the order in which they are encoded.
	ExtrinsicVersions []uint8
	Extensions        []Extension
	APIs              []API // none before V15
	// Types of the whole runtime; nil where the metadata does not say.
	CallType, EventType, ErrorType *Type
	// Parts of a signed extrinsic; nil in V14, whose type of extrinsics holds them.
	AddressType, SignatureType *Type

	pallets map[string]*Pallet
	index   map[uint8]*Pallet
	names   map[string][]*Type
}

// Pallet is one module of a runtime.
type Pallet struct {
	Name      string
	Index     uint8
	Prefix    string // of its storage keys; empty without storage
	Storage   []Storage
	Calls     *Type // nil = none
	Events    *Type
	Errors    *Type
	Constants []Constant
}

// Hasher is how a storage key is hashed.
type Hasher uint8

// Hashers, in the order of the metadata.
const (
	Blake2_128 Hasher = iota
	Blake2_256
	Blake2_128Concat
	Twox128
	Twox256
	Twox64Concat
	Identity
)

// Storage is one storage item. Keys and Hashers have the same length, 0 for a
// plain value.
type Storage struct {
	Name     string
	Optional bool // an absent value is none, not Default
	Hashers  []Hasher
	Keys     []*Type
	Value    *Type
	Default  []byte
	// Docs is what the metadata says of the item, at most 4 KiB.
	Docs string
	key  *Type // Keys as one type, as the metadata has them
}

// Constant is a named value of a pallet.
type Constant struct {
	Name  string
	Type  *Type
	Value []byte
}

// Extension is a transaction extension: what it adds to an extrinsic, and what
// to the signed bytes only.
type Extension struct {
	Name       string
	Type       *Type
	Additional *Type
}

// API is a runtime API.
type API struct {
	Name    string
	Methods []Method
}

// Method is a method of a runtime API.
type Method struct {
	Name   string
	Inputs []Field
	Output *Type
}

type parser struct {
	*Reader
	types []*Type
	refs  []ref // to be linked when all types are known
}

type ref struct {
	to *(*Type)
	id uint32
}

// Decode reads metadata: `meta`, the version, and its content, as a node's
// state_getMetadata gives it or wrapped as Option<Vec<u8>> or Vec<u8>.
func Decode(b []byte) (*Metadata, error) {
	if len(b) > MaxMetadata {
		return nil, fmt.Errorf("read metadata: %w: %d bytes, at most %d", ErrLimit, len(b), MaxMetadata)
	}
	b, err := unwrap(b)
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	p := &parser{Reader: NewReader(b[4:])}
	m := &Metadata{Version: int(p.U8())}
	if p.err == nil && (m.Version < 14 || m.Version > 16) {
		return nil, fmt.Errorf("read metadata: version %d: want 14, 15 or 16", m.Version)
	}
	p.readTypes()
	m.Types = p.types
	p.readPallets(m)
	p.readRest(m)
	if err := p.End(); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	if err := p.link(); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	finish(m.Types)
	if err := m.complete(); err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	return m, nil
}

var magic = []byte("meta")

// unwrap strips Option and Vec from around metadata.
func unwrap(b []byte) ([]byte, error) {
	for _, skip := range []int{0, 1} { // bare or Vec; Option of Vec
		if len(b) < skip {
			break
		}
		if bytes.HasPrefix(b, magic) {
			return b, nil
		}
		if skip == 1 && b[0] != 1 {
			break
		}
		r := NewReader(b[skip:])
		if inner := r.Blob(); r.End() == nil && bytes.HasPrefix(inner, magic) {
			return inner, nil
		}
	}
	return nil, errors.New("it does not begin with `meta`")
}

// list takes a list in metadata.
func list[T any](p *parser, least, limit int, one func(*T)) []T {
	n := p.Length(least)
	if n > limit {
		p.fail(fmt.Errorf("%w: a list of %d, at most %d", ErrLimit, n, limit))
	}
	if p.err != nil {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		if one(&out[i]); p.err != nil {
			return nil
		}
	}
	return out
}

func (p *parser) name() string {
	s := p.Text()
	if len(s) > maxText {
		p.fail(fmt.Errorf("%w: a name of %d bytes", ErrLimit, len(s)))
	}
	return s
}

func (p *parser) optName() string {
	if p.Bool() {
		return p.name()
	}
	return ""
}

func (p *parser) docs() {
	for range p.Length(1) {
		if p.Blob(); p.err != nil {
			return
		}
	}
}

// maxDocs bounds the docs of one item that are kept, in bytes.
const maxDocs = 4 << 10

// text is docs for docs that are kept, cut where they are too long.
func (p *parser) text() string {
	var b strings.Builder
	for i := range p.Length(1) {
		line := p.Blob()
		if p.err != nil {
			return ""
		}
		if b.Len()+len(line) < maxDocs && utf8.Valid(line) {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.Write(line)
		}
	}
	return b.String()
}

// typ takes the number of a type, to be linked into *to.
func (p *parser) typ(to **Type) {
	n := p.Compact()
	if n > maxTypes {
		p.fail(fmt.Errorf("%w: type %d, at most %d", ErrLimit, n, maxTypes))
		return
	}
	p.refs = append(p.refs, ref{to, uint32(n)})
}

func (p *parser) readTypes() {
	n := p.Length(4)
	if n > maxTypes {
		p.fail(fmt.Errorf("%w: %d types, at most %d", ErrLimit, n, maxTypes))
	}
	if p.err != nil {
		return
	}
	p.types = make([]*Type, n)
	for i := range p.types {
		t := &Type{ID: uint32(i)}
		if id := p.Compact(); p.err == nil && id != uint64(i) {
			p.fail(fmt.Errorf("type %d has the number %d", i, id))
		}
		t.Path = list(p, 1, maxNames, func(s *string) { *s = p.name() })
		t.Params = list(p, 2, maxNames, func(x *Param) {
			x.Name = p.name()
			if p.Bool() {
				p.typ(&x.Type)
			}
		})
		p.readDef(t)
		p.docs()
		if p.err != nil {
			return
		}
		p.types[i] = t
	}
}

func (p *parser) readDef(t *Type) {
	t.Form = Form(p.U8())
	switch t.Form {
	case Composite:
		t.Fields = p.fields()
	case Variants:
		t.Cases = list(p, 4, 256, func(v *Variant) {
			v.Name = p.name()
			v.Fields = p.fields()
			v.Index = p.U8()
			p.docs()
		})
	case Sequence, Compacted:
		p.typ(&t.Elem)
	case Array:
		t.Len = p.U32()
		p.typ(&t.Elem)
	case Tuple:
		t.Fields = list(p, 1, maxNames, func(f *Field) { p.typ(&f.Type) })
	case Primitive:
		if t.Prim = Prim(p.U8()); t.Prim > I256 {
			p.fail(fmt.Errorf("primitive type %d is unknown", t.Prim))
		}
	case Bits:
		p.typ(&t.Elem)
		p.typ(&t.order)
	default:
		p.fail(fmt.Errorf("form %d of a type is unknown", t.Form))
	}
}

func (p *parser) fields() []Field {
	return list(p, 4, maxNames, func(f *Field) {
		f.Name = p.optName()
		p.typ(&f.Type)
		f.TypeName = p.optName()
		p.docs()
	})
}

// deprecated skips what V16 says of a deprecated item.
func (p *parser) deprecated() {
	switch k := p.U8(); k {
	case 0, 1:
	case 2:
		p.name()
		p.optName()
	default:
		p.fail(fmt.Errorf("deprecation %d is unknown", k))
	}
}

// deprecatedCases skips what V16 says of deprecated cases.
func (p *parser) deprecatedCases() {
	for range p.Length(2) {
		p.U8()
		if p.deprecated(); p.err != nil {
			return
		}
	}
}

func (p *parser) readPallets(m *Metadata) {
	v16 := m.Version >= 16
	optType := func(to **Type) {
		if p.Bool() {
			p.typ(to)
			if v16 {
				p.deprecatedCases()
			}
		}
	}
	m.Pallets = list(p, 8, 256, func(to **Pallet) {
		x := &Pallet{Name: p.name()}
		*to = x
		if p.Bool() {
			x.Prefix = p.name()
			x.Storage = list(p, 6, maxNames, func(s *Storage) { p.storage(s, v16) })
		}
		optType(&x.Calls)
		optType(&x.Events)
		x.Constants = list(p, 4, maxNames, func(c *Constant) {
			c.Name = p.name()
			p.typ(&c.Type)
			c.Value = p.Blob()
			p.docs()
			if v16 {
				p.deprecated()
			}
		})
		optType(&x.Errors)
		if v16 {
			p.associated()
		}
		x.Index = p.U8()
		if m.Version >= 15 {
			p.docs()
		}
		if v16 {
			p.deprecated()
		}
	})
}

// associated skips associated types and view functions.
func (p *parser) associated() {
	var unused *Type
	for range p.Length(3) {
		p.name()
		p.typ(&unused)
		if p.docs(); p.err != nil {
			return
		}
	}
	for range p.Length(32) {
		p.Bytes(32)
		var method Method
		if p.method(&method, true); p.err != nil {
			return
		}
	}
}

func (p *parser) storage(s *Storage, v16 bool) {
	s.Name = p.name()
	s.Optional = p.U8() == 0
	switch k := p.U8(); k {
	case 0:
		p.typ(&s.Value)
	case 1:
		s.Hashers = list(p, 1, 64, func(h *Hasher) {
			if *h = Hasher(p.U8()); *h > Identity {
				p.fail(fmt.Errorf("hasher %d is unknown", *h))
			}
		})
		s.Keys = make([]*Type, 1)
		p.typ(&s.Keys[0])
		p.typ(&s.Value)
	default:
		p.fail(fmt.Errorf("storage of form %d is unknown", k))
	}
	s.Default = p.Blob()
	s.Docs = p.text()
	if v16 {
		p.deprecated()
	}
}

func (p *parser) method(x *Method, v16 bool) {
	x.Name = p.name()
	x.Inputs = list(p, 2, maxNames, func(f *Field) {
		f.Name = p.name()
		p.typ(&f.Type)
	})
	p.typ(&x.Output)
	p.docs()
	if v16 {
		p.deprecated()
	}
}

func (p *parser) readRest(m *Metadata) {
	var unused *Type
	if m.Version == 14 {
		p.typ(&unused)
	}
	if m.Version < 16 {
		m.ExtrinsicVersions = []uint8{p.U8()}
	} else {
		m.ExtrinsicVersions = list(p, 1, 256, func(v *uint8) { *v = p.U8() })
	}
	switch m.Version {
	case 15:
		p.typ(&m.AddressType)
		p.typ(&m.CallType)
		p.typ(&m.SignatureType)
		p.typ(&unused)
	case 16:
		p.typ(&m.AddressType)
		p.typ(&m.CallType)
		p.typ(&m.SignatureType)
	}
	var order []uint64 // of extensions, for extrinsic version 4; nil = as listed
	if m.Version == 16 {
		for range p.Length(2) {
			version := p.U8()
			ids := list(p, 1, maxNames, func(n *uint64) { *n = p.Compact() })
			if version == 4 || order == nil {
				order = ids
			}
			if p.err != nil {
				return
			}
		}
	}
	m.Extensions = list(p, 3, maxNames, func(x *Extension) {
		x.Name = p.name()
		p.typ(&x.Type)
		p.typ(&x.Additional)
	})
	if m.Version == 14 {
		p.typ(&unused)
		return
	}
	if m.Version == 15 {
		p.typ(&unused)
	}
	m.APIs = list(p, 3, maxNames, func(a *API) {
		a.Name = p.name()
		a.Methods = list(p, 4, maxNames, func(x *Method) { p.method(x, m.Version >= 16) })
		p.docs()
		if m.Version >= 16 {
			p.Compact() // the API's version
			p.deprecated()
		}
	})
	p.typ(&m.CallType)
	p.typ(&m.EventType)
	p.typ(&m.ErrorType)
	for range p.Length(3) { // custom values
		p.name()
		p.typ(&unused)
		if p.Blob(); p.err != nil {
			return
		}
	}
	if order == nil || p.err != nil {
		return
	}
	// The links of m.Extensions point into the old list: they are made before it is put in order.
	if err := p.link(); err != nil {
		p.fail(err)
		return
	}
	p.refs = nil
	all := m.Extensions
	m.Extensions = make([]Extension, len(order))
	for i, n := range order {
		if n >= uint64(len(all)) {
			p.fail(fmt.Errorf("transaction extension %d of %d", n, len(all)))
			return
		}
		m.Extensions[i] = all[n]
	}
}

func (p *parser) link() error {
	for _, x := range p.refs {
		if int(x.id) >= len(p.types) {
			return fmt.Errorf("type %d of %d", x.id, len(p.types))
		}
		*x.to = p.types[x.id]
	}
	return nil
}

// complete makes the indexes and takes map keys apart.
func (m *Metadata) complete() error {
	m.pallets, m.index, m.names = map[string]*Pallet{}, map[uint8]*Pallet{}, map[string][]*Type{}
	for _, p := range m.Pallets {
		if m.pallets[p.Name] != nil || m.index[p.Index] != nil {
			return fmt.Errorf("pallet %s (%d) stands twice", p.Name, p.Index)
		}
		m.pallets[p.Name], m.index[p.Index] = p, p
		for i := range p.Storage {
			if err := p.Storage[i].split(); err != nil {
				return fmt.Errorf("storage %s.%s: %w", p.Name, p.Storage[i].Name, err)
			}
		}
	}
	for _, t := range m.Types {
		if name := t.Name(); name != "" {
			m.names[name] = append(m.names[name], t)
		}
	}
	if m.CallType == nil {
		m.CallType = m.outer("RuntimeCall", "Call")
	}
	if m.EventType == nil {
		m.EventType = m.outer("RuntimeEvent", "Event")
	}
	return nil
}

// outer finds the enumeration over all pallets that V14 does not name.
func (m *Metadata) outer(names ...string) *Type {
	for _, name := range names {
		for _, t := range m.names[name] {
			if t.Form == Variants && len(t.Path) == 2 {
				return t
			}
		}
	}
	return nil
}

func (s *Storage) split() error {
	n := len(s.Hashers)
	if len(s.Keys) > 0 {
		s.key = s.Keys[0]
	}
	switch {
	case len(s.Keys) == 0:
		return nil
	case n == 0:
		return errors.New("a map without hashers")
	case n == 1:
		return nil
	}
	key := s.Keys[0]
	if key.Form != Tuple || len(key.Fields) != n {
		return fmt.Errorf("%d hashers for a key %s", n, key)
	}
	s.Keys = make([]*Type, n)
	for i, f := range key.Fields {
		s.Keys[i] = f.Type
	}
	return nil
}
