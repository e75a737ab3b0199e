package scale

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Part says what Subset keeps of a pallet. Errors are all kept.
type Part struct {
	Pallet                            string
	Storage, Calls, Events, Constants []string
}

// Subset makes metadata that has only the given parts and methods
// (API.method), and the types that they need. Indexes stay what they are.
func (m *Metadata) Subset(parts []Part, methods []string) (*Metadata, error) {
	c := &cloner{new: map[*Type]*Type{}, cases: map[*Type]func(Variant) bool{}}
	out := &Metadata{Version: 15, ExtrinsicVersions: []uint8{4}}
	if len(m.Types) > 0 {
		c.clone(m.Types[0]) // accounts: clients know them by that number
	}
	kept := map[string]bool{}
	for _, part := range parts {
		p, err := m.Pallet(part.Pallet)
		if err != nil {
			return nil, err
		}
		kept[part.Pallet] = true
		if p.Calls != nil {
			c.cases[p.Calls] = func(v Variant) bool { return slices.Contains(part.Calls, v.Name) }
		}
		if p.Events != nil {
			c.cases[p.Events] = func(v Variant) bool { return slices.Contains(part.Events, v.Name) }
		}
		for _, call := range part.Calls {
			if _, _, err := m.Call(part.Pallet, call); err != nil {
				return nil, err
			}
		}
	}
	empty := map[string]bool{} // pallets without calls or events stand in no outer type
	for _, part := range parts {
		if len(part.Calls) == 0 {
			empty["call "+part.Pallet] = true
		}
		if len(part.Events) == 0 {
			empty["event "+part.Pallet] = true
		}
	}
	c.cases[m.CallType] = func(v Variant) bool { return kept[v.Name] && !empty["call "+v.Name] }
	c.cases[m.EventType] = func(v Variant) bool { return kept[v.Name] && !empty["event "+v.Name] }
	if m.ErrorType != nil {
		c.cases[m.ErrorType] = func(v Variant) bool { return kept[v.Name] }
	}
	for _, part := range parts {
		p, _ := m.Pallet(part.Pallet)
		x := &Pallet{Name: p.Name, Index: p.Index, Prefix: p.Prefix, Errors: c.clone(p.Errors)}
		if len(part.Calls) > 0 {
			x.Calls = c.clone(p.Calls)
		}
		if len(part.Events) > 0 {
			x.Events = c.clone(p.Events)
		}
		for _, name := range part.Storage {
			_, s, err := m.Storage(part.Pallet, name)
			if err != nil {
				return nil, err
			}
			y := *s
			y.Value, y.Keys = c.clone(s.Value), nil
			if y.Elements() == nil {
				y.Docs = "" // only what clients need
			}
			for _, k := range s.Keys {
				y.Keys = append(y.Keys, c.clone(k))
			}
			y.key = c.clone(s.key)
			x.Storage = append(x.Storage, y)
		}
		for _, k := range p.Constants {
			if slices.Contains(part.Constants, k.Name) {
				x.Constants = append(x.Constants, Constant{k.Name, c.clone(k.Type), k.Value})
			}
		}
		out.Pallets = append(out.Pallets, x)
	}
	for _, e := range m.Extensions {
		out.Extensions = append(out.Extensions, Extension{e.Name, c.clone(e.Type), c.clone(e.Additional)})
	}
	for _, a := range m.APIs {
		b := API{Name: a.Name}
		for _, x := range a.Methods {
			if !slices.Contains(methods, a.Name+"."+x.Name) {
				continue
			}
			y := Method{Name: x.Name, Output: c.clone(x.Output)}
			for _, f := range x.Inputs {
				y.Inputs = append(y.Inputs, Field{Name: f.Name, Type: c.clone(f.Type)})
			}
			b.Methods = append(b.Methods, y)
		}
		if len(b.Methods) > 0 {
			out.APIs = append(out.APIs, b)
		}
	}
	out.CallType, out.EventType, out.ErrorType = c.clone(m.CallType), c.clone(m.EventType), c.clone(m.ErrorType)
	out.AddressType, out.SignatureType = c.clone(m.AddressType), c.clone(m.SignatureType)
	extrinsic, err := m.byPath("generic::unchecked_extrinsic::UncheckedExtrinsic")
	if err != nil {
		return nil, err
	}
	c.clone(extrinsic)
	c.add(&Type{Form: Tuple})
	out.Types = c.types
	b, err := out.Encode(15)
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// cloner copies types with all that they refer to.
type cloner struct {
	new   map[*Type]*Type
	types []*Type
	cases map[*Type]func(Variant) bool // which cases of a type are kept
}

func (c *cloner) add(t *Type) *Type {
	t.ID = uint32(len(c.types))
	c.types = append(c.types, t)
	return t
}

func (c *cloner) clone(t *Type) *Type {
	if t == nil || c.new[t] != nil {
		return c.new[t]
	}
	x := c.add(&Type{Path: t.Path, Form: t.Form, Prim: t.Prim, Len: t.Len})
	c.new[t] = x
	for _, p := range t.Params {
		x.Params = append(x.Params, Param{p.Name, c.clone(p.Type)})
	}
	x.Fields = c.fields(t.Fields)
	keep := c.cases[t]
	for _, v := range t.Cases {
		if keep == nil || keep(v) {
			x.Cases = append(x.Cases, Variant{v.Name, c.fields(v.Fields), v.Index})
		}
	}
	x.Elem, x.order = c.clone(t.Elem), c.clone(t.order)
	return x
}

func (c *cloner) fields(fields []Field) (out []Field) {
	for _, f := range fields {
		out = append(out, Field{f.Name, c.clone(f.Type), f.TypeName})
	}
	return out
}

// SetKeys gives an item that has hashers its key: with several a tuple of as many types.
func (s *Storage) SetKeys(key *Type) error {
	s.Keys = []*Type{key}
	return s.split()
}

// Encode writes metadata as version 14 or 15. Types have the IDs of their
// places; documentation is left out.
func (m *Metadata) Encode(version int) ([]byte, error) {
	if version != 14 && version != 15 {
		return nil, fmt.Errorf("write metadata of version %d: want 14 or 15", version)
	}
	w := &writer{b: append([]byte(magic), byte(version))}
	listOf(w, m.Types, w.typ)
	listOf(w, m.Pallets, func(p *Pallet) { w.pallet(p, version) })
	unit := m.find(func(t *Type) bool { return t.Form == Tuple && len(t.Fields) == 0 })
	extrinsic := m.find(func(t *Type) bool { return t.Name() == "UncheckedExtrinsic" && len(t.Params) == 4 })
	if unit == nil || extrinsic == nil {
		return nil, fmt.Errorf("write metadata: no type of extrinsics: %w", ErrUnknown)
	}
	if version == 14 {
		w.ref(extrinsic)
		w.b = append(w.b, m.ExtrinsicVersions[0])
	} else {
		w.b = append(w.b, m.ExtrinsicVersions[0])
		for _, p := range extrinsic.Params {
			w.ref(p.Type)
		}
	}
	listOf(w, m.Extensions, func(e Extension) {
		w.text(e.Name)
		w.ref(e.Type)
		w.ref(e.Additional)
	})
	w.ref(unit)
	if version == 14 {
		return w.b, nil
	}
	listOf(w, m.APIs, func(a API) {
		w.text(a.Name)
		listOf(w, a.Methods, func(x Method) {
			w.text(x.Name)
			listOf(w, x.Inputs, func(f Field) {
				w.text(f.Name)
				w.ref(f.Type)
			})
			w.ref(x.Output)
			w.none()
		})
		w.none()
	})
	for _, t := range []*Type{m.CallType, m.EventType, m.ErrorType} {
		if t == nil {
			t = unit
		}
		w.ref(t)
	}
	w.none()
	return w.b, nil
}

func (m *Metadata) find(f func(*Type) bool) *Type {
	if i := slices.IndexFunc(m.Types, f); i >= 0 {
		return m.Types[i]
	}
	return nil
}

type writer struct{ b []byte }

func (w *writer) text(s string) { w.b = AppendBlob(w.b, s) }
func (w *writer) ref(t *Type)   { w.b = AppendCompact(w.b, uint64(t.ID)) }
func (w *writer) none()         { w.b = append(w.b, 0) }

func (w *writer) optText(s string) {
	if s == "" {
		w.none()
		return
	}
	w.b = append(w.b, 1)
	w.text(s)
}

func (w *writer) optRef(t *Type) {
	if t == nil {
		w.none()
		return
	}
	w.b = append(w.b, 1)
	w.ref(t)
}

func listOf[T any](w *writer, s []T, one func(T)) {
	w.b = AppendCompact(w.b, uint64(len(s)))
	for _, x := range s {
		one(x)
	}
}

func (w *writer) typ(t *Type) {
	w.ref(t)
	listOf(w, t.Path, w.text)
	listOf(w, t.Params, func(p Param) {
		w.text(p.Name)
		w.optRef(p.Type)
	})
	w.b = append(w.b, byte(t.Form))
	switch t.Form {
	case Composite:
		w.fields(t.Fields)
	case Variants:
		listOf(w, t.Cases, func(v Variant) {
			w.text(v.Name)
			w.fields(v.Fields)
			w.b = append(w.b, v.Index)
			w.none()
		})
	case Sequence, Compacted:
		w.ref(t.Elem)
	case Array:
		w.b = binary.LittleEndian.AppendUint32(w.b, t.Len)
		w.ref(t.Elem)
	case Tuple:
		listOf(w, t.Fields, func(f Field) { w.ref(f.Type) })
	case Primitive:
		w.b = append(w.b, byte(t.Prim))
	case Bits:
		w.ref(t.Elem)
		w.ref(t.order)
	}
	w.none()
}

func (w *writer) fields(fields []Field) {
	listOf(w, fields, func(f Field) {
		w.optText(f.Name)
		w.ref(f.Type)
		w.optText(f.TypeName)
		w.none()
	})
}

func (w *writer) pallet(p *Pallet, version int) {
	w.text(p.Name)
	if len(p.Storage) == 0 {
		w.none()
	} else {
		w.b = append(w.b, 1)
		w.text(p.Prefix)
		listOf(w, p.Storage, w.storage)
	}
	w.optRef(p.Calls)
	w.optRef(p.Events)
	listOf(w, p.Constants, func(c Constant) {
		w.text(c.Name)
		w.ref(c.Type)
		w.b = AppendBlob(w.b, c.Value)
		w.none()
	})
	w.optRef(p.Errors)
	w.b = append(w.b, p.Index)
	if version >= 15 {
		w.none()
	}
}

func (w *writer) storage(s Storage) {
	w.text(s.Name)
	if s.Optional {
		w.b = append(w.b, 0)
	} else {
		w.b = append(w.b, 1)
	}
	if len(s.Keys) == 0 {
		w.none()
	} else {
		w.b = append(w.b, 1)
		listOf(w, s.Hashers, func(h Hasher) { w.b = append(w.b, byte(h)) })
		w.ref(s.key)
	}
	w.ref(s.Value)
	w.b = AppendBlob(w.b, s.Default)
	if s.Docs == "" {
		w.none()
		return
	}
	listOf(w, strings.Split(s.Docs, "\n"), w.text)
}

// Zero is a value of t of zeros, empty lists and first cases. Fields may then
// be set in it.
func Zero(t *Type) any { return zeroOf(t, 0) }

func zeroOf(t *Type, depth int) any {
	if depth > 16 {
		return nil
	}
	switch t.Form {
	case Composite, Tuple:
		switch {
		case t.isAccount():
			return Bytes(make([]byte, 32))
		case len(t.Fields) == 0:
			return nil
		case t.Fields[0].Name != "":
			out := Map{}
			for _, f := range t.Fields {
				out[f.Name] = zeroOf(f.Type, depth+1)
			}
			return out
		case len(t.Fields) == 1:
			return zeroOf(t.Fields[0].Type, depth+1)
		}
		out := make([]any, len(t.Fields))
		for i, f := range t.Fields {
			out[i] = zeroOf(f.Type, depth+1)
		}
		return out
	case Variants:
		if _, ok := t.isOption(); ok || len(t.Cases) == 0 {
			return nil
		}
		return Value{t.Cases[0].Name, zeroOf(&Type{Form: Tuple, Fields: t.Cases[0].Fields}, depth+1)}
	case Sequence:
		return []any{}
	case Array:
		if t.Elem.isU8() {
			return Bytes(make([]byte, min(t.Len, maxEmpty)))
		}
		out := make([]any, min(t.Len, maxEmpty))
		for i := range out {
			out[i] = zeroOf(t.Elem, depth+1)
		}
		return out
	case Compacted:
		return new(big.Int)
	}
	switch t.Prim {
	case Bool:
		return false
	case Str, Char:
		return ""
	}
	return new(big.Int)
}
