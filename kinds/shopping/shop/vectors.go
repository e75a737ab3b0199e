package shop

import (
	"context"
	"fmt"
)

// Vectors is an encoder that looks titles up in a table of precomputed
// vectors, and asks another one for those that are not in it.
type Vectors struct {
	Model string // who made the table
	Table map[string][]float32
	// Next encodes the others; nil makes an unknown title an error. It must be
	// the model that made the table.
	Next Encoder
}

// Name is the model's.
func (v Vectors) Name() string { return v.Model }

// Encode returns the table's vectors.
func (v Vectors) Encode(ctx context.Context, titles []string) ([][]float32, error) {
	out := make([][]float32, len(titles))
	var rest []string
	var at []int
	for i, t := range titles {
		if out[i] = v.Table[t]; out[i] != nil {
			continue
		}
		if v.Next == nil {
			return nil, fmt.Errorf("title %.80q has no precomputed vector: %w", t, ErrNoEncoder)
		}
		rest, at = append(rest, t), append(at, i)
	}
	if len(rest) == 0 {
		return out, nil
	}
	more, err := v.Next.Encode(ctx, rest)
	if err != nil {
		return nil, err
	}
	if len(more) != len(rest) {
		return nil, fmt.Errorf("encode titles: %d vectors for %d titles", len(more), len(rest))
	}
	for i, j := range at {
		out[j] = more[i]
	}
	return out, nil
}
