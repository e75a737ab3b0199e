package store

import (
	"errors"
	"slices"
	"strings"
)

// PutDocument stores a document of a place under a name, in place of an earlier one.
func (t *Tx) PutDocument(place, name string, value []byte) error {
	return t.put1(`INSERT INTO documents (place, name, value) VALUES ($1, $2, $3)
		ON CONFLICT (place, name) DO UPDATE SET value = excluded.value`, place, name, string(value))
}

// Document returns a document, nil where there is none.
func (t *Tx) Document(place, name string) ([]byte, error) {
	text, err := one(t, func(r scanner) (s string, err error) { err = r.Scan(&s); return s, err },
		`SELECT value FROM documents WHERE place = $1 AND name = $2`, place, name)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return []byte(text), err
}

// Documents lists the names of a place's documents that begin with prefix and go on, sorted
// by their bytes.
func (t *Tx) Documents(place, prefix string) ([]string, error) {
	// No range of names: databases differ in how they sort.
	list, err := many(t, func(r scanner) (s string, err error) { err = r.Scan(&s); return s, err },
		`SELECT name FROM documents WHERE place = $1 AND substr(name, 1, length($2)) = $2 AND length(name) > length($2)`, place, prefix)
	slices.Sort(list)
	return list, err
}

// Document is one document of a place.
type Document struct {
	Name  string
	Value []byte
}

// DocumentValues returns the documents that Documents lists, in its order.
func (t *Tx) DocumentValues(place, prefix string) ([]Document, error) {
	list, err := many(t, func(r scanner) (d Document, err error) { err = r.Scan(&d.Name, &d.Value); return d, err },
		`SELECT name, value FROM documents WHERE place = $1 AND substr(name, 1, length($2)) = $2 AND length(name) > length($2)`, place, prefix)
	slices.SortFunc(list, func(a, b Document) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// DropDocument removes a document; that it is not there is no error.
func (t *Tx) DropDocument(place, name string) error {
	_, err := t.exec(`DELETE FROM documents WHERE place = $1 AND name = $2`, place, name)
	return err
}
