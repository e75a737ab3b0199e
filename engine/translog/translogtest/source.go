// Package translogtest has a source of leaves in memory, for tests of those who
// read logs.
package translogtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agon-arena/agon/engine/translog"
)

// Source is a translog.Source in memory. Safe for concurrent use.
type Source struct {
	mu   sync.Mutex
	list []translog.Leaf // guarded by mu
}

// Add appends a public leaf.
func (m *Source) Add(typ, id string, open any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(len(m.list))
	l, err := translog.NewLeaf(translog.Leaf{Index: n, Type: typ, ID: id}, "", time.Unix(n, 0), open, nil)
	if err != nil {
		return fmt.Errorf("add leaf: %w", err)
	}
	m.list = append(m.list, l)
	return nil
}

// Len is how many leaves there are.
func (m *Source) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.list)
}

// Leaves implements translog.Source.
func (m *Source) Leaves(_ context.Context, from int64, limit int, _ func(int64) string) ([]translog.Leaf, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(len(m.list))
	return append([]translog.Leaf(nil), m.list[min(from, n):min(from+int64(limit), n)]...), nil
}

// LeafCount implements translog.Source.
func (m *Source) LeafCount(context.Context) (int64, error) { return int64(m.Len()), nil }
