// Package folder keeps what the foreign dialects remember beside the store: small JSON documents in a directory.
package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Documents is where small JSON documents are kept by name: a Folder, or a place of the
// store (platform.Documents). A document is durable when Put returns, and is whole or not there.
type Documents interface {
	// Get reads a document; ok is false where there is none.
	Get(name string, v any) (ok bool, err error)
	Put(name string, v any) error
	// Names lists the documents that begin with prefix, sorted.
	Names(prefix string) ([]string, error)
	// Each calls f with every document that begins with prefix, in the order of their names.
	Each(prefix string, f func(name string, value []byte) error) error
	// Remove drops a document; that it is not there is no error.
	Remove(name string) error
}

// Folder keeps small JSON documents by name. A document is durable when put
// returns, and is whole or not there.
type Folder string

// Or is documents, or the folder dir where they are nil.
func Or(documents Documents, dir string) Documents {
	if documents == nil {
		return Folder(dir)
	}
	return documents
}

// Load reads the documents that begin with prefix, in the order of their names.
func Load[T any](d Documents, prefix string, f func(name string, v T)) error {
	return d.Each(prefix, func(name string, value []byte) error {
		var v T
		if err := json.Unmarshal(value, &v); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		f(name, v)
		return nil
	})
}

// NameForm is what names of documents look like.
var NameForm = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,79}$`)

func (f Folder) path(name string) (string, error) {
	if !NameForm().MatchString(name) {
		return "", fmt.Errorf("bad document name %.80q", name)
	}
	return filepath.Join(string(f), name+".json"), nil
}

// Get reads a document; ok is false where there is none.
func (f Folder) Get(name string, v any) (ok bool, err error) {
	p, err := f.path(name)
	if err != nil {
		return false, nil // foreign names look like absent ones
	}
	b, err := os.ReadFile(p)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

func (f Folder) Put(name string, v any) error {
	p, err := f.path(name)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	t, err := os.CreateTemp(string(f), ".new-*")
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	defer func() { _ = os.Remove(t.Name()) }() // gone after the rename
	_, err = t.Write(b)
	if err = errors.Join(err, t.Sync(), t.Close()); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	if err := os.Rename(t.Name(), p); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	d, err := os.Open(string(f))
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// Names lists the documents that begin with prefix, sorted.
func (f Folder) Names(prefix string) ([]string, error) {
	list, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list {
		n := e.Name()
		if filepath.Ext(n) == ".json" && len(n) > len(prefix) && n[:len(prefix)] == prefix {
			out = append(out, n[:len(n)-len(".json")])
		}
	}
	return out, nil
}

// Each calls fn with every document that begins with prefix, in the order of their names.
func (f Folder) Each(prefix string, fn func(name string, value []byte) error) error {
	names, err := f.Names(prefix)
	if err != nil {
		return err
	}
	for _, n := range names {
		var b json.RawMessage
		ok, err := f.Get(n, &b)
		if err == nil && ok {
			err = fn(n, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove drops a document; that it is not there is no error.
func (f Folder) Remove(name string) error {
	p, err := f.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
