package scale

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/crypto/blake2b"
)

// Pallet finds a pallet.
func (m *Metadata) Pallet(name string) (*Pallet, error) {
	if p := m.pallets[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("pallet %s: %w", name, ErrUnknown)
}

// PalletAt finds a pallet by its index.
func (m *Metadata) PalletAt(index uint8) (*Pallet, bool) {
	p, ok := m.index[index]
	return p, ok
}

// Call finds a call.
func (m *Metadata) Call(pallet, call string) (*Pallet, *Variant, error) {
	p, err := m.Pallet(pallet)
	if err != nil {
		return nil, nil, err
	}
	if p.Calls != nil {
		if c, ok := p.Calls.Case(call); ok {
			return p, c, nil
		}
	}
	return nil, nil, fmt.Errorf("call %s.%s: %w", pallet, call, ErrUnknown)
}

// HasCall reports whether the runtime has a call.
func (m *Metadata) HasCall(pallet, call string) bool {
	_, _, err := m.Call(pallet, call)
	return err == nil
}

// EncodeCall encodes a call with its arguments by name or in order.
func (m *Metadata) EncodeCall(pallet, call string, args any) ([]byte, error) {
	p, c, err := m.Call(pallet, call)
	if err != nil {
		return nil, err
	}
	b, err := encodeFields([]byte{p.Index, c.Index}, p.Calls, c.Fields, args, 0)
	if err != nil {
		return nil, fmt.Errorf("encode %s.%s: %w", pallet, call, err)
	}
	return b, nil
}

// Storage finds a storage item.
func (m *Metadata) Storage(pallet, item string) (*Pallet, *Storage, error) {
	p, err := m.Pallet(pallet)
	if err != nil {
		return nil, nil, err
	}
	for i := range p.Storage {
		if p.Storage[i].Name == item {
			return p, &p.Storage[i], nil
		}
	}
	return nil, nil, fmt.Errorf("storage %s.%s: %w", pallet, item, ErrUnknown)
}

// StorageKey makes the key of an item; with fewer keys than the item has, the
// prefix that the keys of all others share.
func (m *Metadata) StorageKey(pallet, item string, keys ...any) ([]byte, error) {
	p, s, err := m.Storage(pallet, item)
	if err != nil {
		return nil, err
	}
	if len(keys) > len(s.Keys) {
		return nil, fmt.Errorf("storage %s.%s: %d keys, it has %d", pallet, item, len(keys), len(s.Keys))
	}
	b := slices.Concat(twox([]byte(p.Prefix), 2), twox([]byte(item), 2))
	for i, k := range keys {
		raw, err := Encode(nil, s.Keys[i], k)
		if err != nil {
			return nil, fmt.Errorf("storage %s.%s: key %d: %w", pallet, item, i, err)
		}
		b = append(b, s.Hashers[i].Hash(raw)...)
	}
	return b, nil
}

// SplitKey reads the keys back from a key of the item, as far as its hashers
// let them be read: nil stands for a hash.
func (m *Metadata) SplitKey(pallet, item string, key []byte) ([]any, error) {
	p, s, err := m.Storage(pallet, item)
	if err != nil {
		return nil, err
	}
	r := NewReader(key)
	if head := r.Bytes(32); r.err == nil && string(head) != string(slices.Concat(twox([]byte(p.Prefix), 2), twox([]byte(item), 2))) {
		return nil, fmt.Errorf("storage %s.%s: the key is another item's", pallet, item)
	}
	out := make([]any, len(s.Keys))
	for i, h := range s.Hashers {
		n, follows := h.size()
		hash := r.Bytes(n)
		if !follows {
			continue
		}
		from := r.at
		out[i] = r.Value(s.Keys[i])
		if r.err == nil && string(h.Hash(r.b[from:r.at])[:n]) != string(hash) {
			return nil, fmt.Errorf("storage %s.%s: key %d does not have its hash", pallet, item, i)
		}
	}
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("storage %s.%s: %w", pallet, item, err)
	}
	return out, nil
}

// DecodeStorage reads a stored value; nil bytes stand for an absent one, which
// is the item's default, or nil where it has none.
func (m *Metadata) DecodeStorage(pallet, item string, b []byte) (any, error) {
	_, s, err := m.Storage(pallet, item)
	if err != nil {
		return nil, err
	}
	if b == nil {
		if s.Optional {
			return nil, nil
		}
		b = s.Default
	}
	v, err := DecodeAll(s.Value, b)
	if err != nil {
		return nil, fmt.Errorf("storage %s.%s: %w", pallet, item, err)
	}
	return v, nil
}

// size is how many bytes of hash there are, and whether the key follows.
func (h Hasher) size() (n int, follows bool) {
	switch h {
	case Blake2_128, Twox128:
		return 16, false
	case Blake2_256, Twox256:
		return 32, false
	case Blake2_128Concat:
		return 16, true
	case Twox64Concat:
		return 8, true
	}
	return 0, true
}

// Hash hashes an encoded key.
func (h Hasher) Hash(b []byte) []byte {
	switch h {
	case Blake2_128:
		return blake128(b)
	case Blake2_256:
		sum := blake2b.Sum256(b)
		return sum[:]
	case Blake2_128Concat:
		return append(blake128(b), b...)
	case Twox128:
		return twox(b, 2)
	case Twox256:
		return twox(b, 4)
	case Twox64Concat:
		return append(twox(b, 1), b...)
	}
	return slices.Clone(b)
}

func blake128(b []byte) []byte {
	h, err := blake2b.New(16, nil)
	if err != nil {
		panic(err) // 16 is a size that it has
	}
	h.Write(b)
	return h.Sum(nil)
}

// twox is n xxh64 hashes with the seeds 0 to n-1.
func twox(b []byte, n uint64) []byte {
	var out []byte
	for seed := range n {
		d := xxhash.NewWithSeed(seed)
		_, _ = d.Write(b) // never fails
		out = binary.LittleEndian.AppendUint64(out, d.Sum64())
	}
	return out
}

// ModuleError names the error of a pallet.
func (m *Metadata) ModuleError(pallet, index uint8) (palletName, name string, ok bool) {
	p := m.index[pallet]
	if p == nil || p.Errors == nil {
		return "", "", false
	}
	c := p.Errors.byIndex[index]
	if c == nil {
		return p.Name, "", false
	}
	return p.Name, c.Name, true
}

// Constant decodes a constant.
func (m *Metadata) Constant(pallet, name string) (any, error) {
	p, err := m.Pallet(pallet)
	if err != nil {
		return nil, err
	}
	for _, c := range p.Constants {
		if c.Name == name {
			v, err := DecodeAll(c.Type, c.Value)
			if err != nil {
				return nil, fmt.Errorf("constant %s.%s: %w", pallet, name, err)
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("constant %s.%s: %w", pallet, name, ErrUnknown)
}

// Method finds a method of a runtime API.
func (m *Metadata) Method(api, method string) (*Method, error) {
	for i := range m.APIs {
		if m.APIs[i].Name != api {
			continue
		}
		for j := range m.APIs[i].Methods {
			if m.APIs[i].Methods[j].Name == method {
				return &m.APIs[i].Methods[j], nil
			}
		}
	}
	return nil, fmt.Errorf("runtime API %s.%s: %w", api, method, ErrUnknown)
}

// EncodeInputs encodes the arguments of a method, in order.
func (x *Method) EncodeInputs(args ...any) (b []byte, err error) {
	if len(args) != len(x.Inputs) {
		return nil, fmt.Errorf("%s takes %d arguments, not %d", x.Name, len(x.Inputs), len(args))
	}
	for i, f := range x.Inputs {
		if b, err = Encode(b, f.Type, args[i]); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", x.Name, f.Name, err)
		}
	}
	return b, nil
}

// Named finds a type by what a person writes: a number of the registry, u16,
// Vec<T>, Option<T>, Compact<T>, [T; n], (A, B), or the name of a type with or
// without its path.
func (m *Metadata) Named(s string) (*Type, error) { return m.named(strings.TrimSpace(s), 0) }

func (m *Metadata) named(s string, depth int) (*Type, error) {
	if depth > 16 || len(s) > 1000 {
		return nil, fmt.Errorf("type: %w", ErrLimit)
	}
	made := func(t *Type) (*Type, error) {
		finish([]*Type{t})
		return t, nil
	}
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		if n >= uint64(len(m.Types)) {
			return nil, fmt.Errorf("type %d: %w", n, ErrUnknown)
		}
		return m.Types[n], nil
	}
	if i := slices.Index(primNames, s); i >= 0 {
		return made(&Type{Form: Primitive, Prim: Prim(i)})
	}
	if inner, ok := between(s, "[", "]"); ok {
		elem, n, _ := strings.Cut(inner, ";")
		size, err := strconv.ParseUint(strings.TrimSpace(n), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("type %q: length is not a number", s)
		}
		t, err := m.named(strings.TrimSpace(elem), depth+1)
		if err != nil {
			return nil, err
		}
		return made(&Type{Form: Array, Len: uint32(size), Elem: t})
	}
	if inner, ok := between(s, "(", ")"); ok {
		t := &Type{Form: Tuple}
		for _, part := range splitTypes(inner) {
			f, err := m.named(part, depth+1)
			if err != nil {
				return nil, err
			}
			t.Fields = append(t.Fields, Field{Type: f})
		}
		return made(t)
	}
	switch s {
	case "String", "Text":
		return m.named("str", depth+1)
	case "Bytes":
		return m.named("Vec<u8>", depth+1)
	case "Call":
		s = "RuntimeCall"
	case "Event":
		s = "RuntimeEvent"
	}
	for _, form := range []string{"Vec", "Option", "Compact", "BoundedVec"} {
		inner, ok := between(s, form+"<", ">")
		if !ok {
			continue
		}
		if form == "BoundedVec" {
			inner = splitTypes(inner)[0]
		}
		t, err := m.named(strings.TrimSpace(inner), depth+1)
		if err != nil {
			return nil, err
		}
		switch form {
		case "Option":
			return made(&Type{Path: []string{form}, Form: Variants, Cases: []Variant{{Name: "None"}, {Name: "Some", Index: 1, Fields: []Field{{Type: t}}}}})
		case "Compact":
			return made(&Type{Form: Compacted, Elem: t})
		}
		return made(&Type{Form: Sequence, Elem: t})
	}
	return m.byPath(s)
}

// byPath finds a named type; generic arguments in s are compared as written.
func (m *Metadata) byPath(s string) (*Type, error) {
	bare, _, generic := strings.Cut(s, "<")
	parts := strings.Split(bare, "::")
	var found []*Type
	for _, t := range m.names[parts[len(parts)-1]] {
		if n := len(t.Path) - len(parts); n >= 0 && slices.Equal(t.Path[n:], parts) && (!generic || strings.HasSuffix(t.String(), s)) {
			found = append(found, t)
		}
	}
	if len(found) == 0 && generic {
		return m.byPath(bare)
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("type %s: %w", s, ErrUnknown)
	case 1:
		return found[0], nil
	}
	names := make([]string, 0, 4)
	for _, t := range found[:min(len(found), 4)] {
		names = append(names, fmt.Sprintf("%d (%s)", t.ID, t))
	}
	return nil, fmt.Errorf("type %s is not the only one of its name: give the number, such as %s", s, strings.Join(names, ", "))
}

func between(s, head, tail string) (string, bool) {
	s, ok := strings.CutPrefix(s, head)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(s, tail)
}

// splitTypes splits at commas outside brackets.
func splitTypes(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range s {
		switch c {
		case '<', '(', '[':
			depth++
		case '>', ')', ']':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(s[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(s[from:]); last != "" {
		out = append(out, last)
	}
	return out
}

// Elements are the names that the metadata's docs give the parts of a tuple,
// such as hash, commit_epoch of "VecDeque<(hash, commit_epoch)>"; nil where they
// give none. The types of tuples have no names, and their order has changed between runtimes.
func (s *Storage) Elements() []string {
	_, inner, ok := strings.Cut(s.Docs, "<(")
	if !ok {
		return nil
	}
	inner, _, ok = strings.Cut(inner, ")>")
	if !ok || len(inner) > 200 {
		return nil
	}
	out := strings.Split(inner, ",")
	for i := range out {
		out[i] = strings.TrimLeft(strings.TrimSpace(out[i]), "_")
	}
	return out
}
