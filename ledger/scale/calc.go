package scale

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/calc"
)

type callIn struct {
	Metadata string          `json:"metadata"`
	Pallet   string          `json:"pallet"`
	Call     string          `json:"call"`
	Args     json.RawMessage `json:"args,omitempty"`
}

type keyIn struct {
	Metadata string          `json:"metadata"`
	Pallet   string          `json:"pallet"`
	Item     string          `json:"item"`
	Keys     json.RawMessage `json:"keys,omitempty"`
}

type decodeIn struct {
	Metadata string          `json:"metadata"`
	Type     json.RawMessage `json:"type,omitempty"`
	Storage  string          `json:"storage,omitempty"`
	Hex      *string         `json:"hex"`
}

type hexOut struct {
	Hex string `json:"hex"`
}

type valueOut struct {
	Value any `json:"value"`
}

// Rules are this package's rules for agon calc. Metadata files are read once
// for as long as they do not change.
func Rules() []calc.Rule {
	c := &files{}
	return []calc.Rule{
		calc.Func("chain.call", "{metadata (file), pallet, call, args} -> {hex}: an encoded call", c.call),
		calc.Func("chain.storage_key", "{metadata (file), pallet, item, keys} -> {hex}: a storage key, or the prefix where keys are left out", c.key),
		calc.Func("chain.decode", "{metadata (file), type|storage, hex} -> {value}: a value of a type or of a storage item (Pallet.Item)", c.decode),
	}
}

// files keeps decoded metadata.
type files struct {
	mu   sync.Mutex
	held map[string]held
}

type held struct {
	size int64
	mod  time.Time
	m    *Metadata
}

func (c *files) open(path string) (*Metadata, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.held[path]; ok && h.size == info.Size() && h.mod.Equal(info.ModTime()) {
		return h.m, nil
	}
	b, err := io.ReadAll(io.LimitReader(f, 2*MaxMetadata+4))
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	// A file may hold the hex that a node answers.
	if s := strings.TrimSpace(string(b)); strings.HasPrefix(s, "0x") {
		if b, err = hex.DecodeString(s[2:]); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
	}
	m, err := Decode(b)
	if err != nil {
		return nil, err
	}
	if c.held == nil || len(c.held) >= 8 {
		c.held = map[string]held{}
	}
	c.held[path] = held{info.Size(), info.ModTime(), m}
	return m, nil
}

func argument(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return ParseJSON(raw)
}

func (c *files) call(in callIn) (hexOut, error) {
	m, err := c.open(in.Metadata)
	if err != nil {
		return hexOut{}, err
	}
	args, err := argument(in.Args)
	if err != nil {
		return hexOut{}, err
	}
	b, err := m.EncodeCall(in.Pallet, in.Call, args)
	return hexOut{hex.EncodeToString(b)}, err
}

func (c *files) key(in keyIn) (hexOut, error) {
	m, err := c.open(in.Metadata)
	if err != nil {
		return hexOut{}, err
	}
	keys, err := argument(in.Keys)
	if err != nil {
		return hexOut{}, err
	}
	list, ok := keys.([]any)
	if !ok && keys != nil {
		return hexOut{}, errors.New("keys is not a list")
	}
	b, err := m.StorageKey(in.Pallet, in.Item, list...)
	return hexOut{hex.EncodeToString(b)}, err
}

func (c *files) decode(in decodeIn) (valueOut, error) {
	m, err := c.open(in.Metadata)
	if err != nil {
		return valueOut{}, err
	}
	var b []byte
	if in.Hex != nil {
		if b, err = hex.DecodeString(strings.TrimPrefix(*in.Hex, "0x")); err != nil {
			return valueOut{}, errors.New("hex is not hex")
		}
		if b == nil {
			b = []byte{}
		}
	}
	if (in.Storage == "") == (len(in.Type) == 0) {
		return valueOut{}, errors.New("give either type or storage")
	}
	if in.Storage != "" {
		pallet, item, ok := strings.Cut(in.Storage, ".")
		if !ok {
			return valueOut{}, errors.New("storage is not of the form Pallet.Item")
		}
		v, err := m.DecodeStorage(pallet, item, b)
		return valueOut{v}, err
	}
	t, err := m.Named(strings.Trim(string(in.Type), `"`))
	if err != nil {
		return valueOut{}, err
	}
	v, err := DecodeAll(t, b)
	return valueOut{v}, err
}
