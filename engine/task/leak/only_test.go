// What only the tests of this package need.

package leak

import (
	"context"
	"io"
)

// Empty reports whether nothing that could be found was added.
func (x *Index) Empty() bool { return x.blocks == 0 }

// Reader searches what r gives, also inside of it where it is compressed.
func (x *Index) Reader(ctx context.Context, where string, r io.Reader) ([]Leak, error) {
	if x.bloom == nil {
		x.ready()
	}
	var out []Leak
	err := x.reader(ctx, where, r, 0, func(l Leak) { out = append(out, l) })
	return out, err
}
