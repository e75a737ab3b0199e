package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/folder"
)

// Documents are a foreign wire's documents in the store, so that whichever server leads has
// them, and a server that was replaced writes none any more. It implements folder.Documents and
// is safe for concurrent use.
type Documents struct {
	p     *Platform
	place string
}

// imported is added to the names of files whose documents are in the store.
const imported = ".imported"

// Documents returns the documents of a place, a word. What stands in the folder from is taken
// over first, but for the documents that stay: an older program kept them there, and may have
// done so again since. Such files are renamed, so that none is taken over twice.
func (p *Platform) Documents(ctx context.Context, place, from string, stay ...string) (*Documents, error) {
	d := &Documents{p, place}
	f := folder.Folder(from)
	names, err := f.Names("")
	if err != nil {
		return nil, fmt.Errorf("take over documents: %w", err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(stay, n) || !folder.NameForm().MatchString(n) })
	for batch := range slices.Chunk(names, 500) {
		err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
			for _, n := range batch {
				var b json.RawMessage
				if ok, err := f.Get(n, &b); err != nil || !ok {
					return err
				}
				if err := tx.PutDocument(place, n, b); err != nil {
					return err
				}
			}
			return nil
		})
		for _, n := range batch {
			if err == nil {
				err = os.Rename(filepath.Join(from, n+".json"), filepath.Join(from, n+".json"+imported))
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("take over documents of %s: %w", place, err)
		}
	}
	return d, nil
}

// Get implements folder.Documents. Foreign names look like absent ones.
func (d *Documents) Get(name string, v any) (bool, error) {
	if !folder.NameForm().MatchString(name) {
		return false, nil
	}
	var b []byte
	err := d.p.cfg.Store.Read(context.Background(), func(tx *store.Tx) (err error) {
		b, err = tx.Document(d.place, name)
		return err
	})
	if err == nil && b != nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return b != nil, nil
}

// Put implements folder.Documents.
func (d *Documents) Put(name string, v any) error {
	if !folder.NameForm().MatchString(name) {
		return fmt.Errorf("bad document name %.80q", name)
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = d.p.cfg.Store.Write(context.Background(), func(tx *store.Tx) error { return tx.PutDocument(d.place, name, b) })
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// Names implements folder.Documents.
func (d *Documents) Names(prefix string) (names []string, err error) {
	err = d.p.cfg.Store.Read(context.Background(), func(tx *store.Tx) (err error) {
		names, err = tx.Documents(d.place, prefix)
		return err
	})
	return names, err
}

// Each implements folder.Documents: one question to the store, however many there are.
func (d *Documents) Each(prefix string, f func(name string, value []byte) error) error {
	var list []store.Document
	err := d.p.cfg.Store.Read(context.Background(), func(tx *store.Tx) (err error) {
		list, err = tx.DocumentValues(d.place, prefix)
		return err
	})
	if err != nil {
		return fmt.Errorf("read documents of %s: %w", d.place, err)
	}
	for _, x := range list {
		if err := f(x.Name, x.Value); err != nil {
			return err
		}
	}
	return nil
}

// Remove implements folder.Documents.
func (d *Documents) Remove(name string) error {
	if !folder.NameForm().MatchString(name) {
		return fmt.Errorf("bad document name %.80q", name)
	}
	if err := d.p.cfg.Store.Write(context.Background(), func(tx *store.Tx) error { return tx.DropDocument(d.place, name) }); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

var _ folder.Documents = (*Documents)(nil)
