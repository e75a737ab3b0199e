// What only the tests of this package need.

package catalogue

import (
	"errors"
	"io"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// ReadAll reads a whole catalogue into memory.
func ReadAll(in io.Reader) ([]*shop.Product, error) {
	r := NewReader(in)
	var out []*shop.Product
	for {
		p, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
}

// Parse reads one product. Fields outside the schema are ignored; an error is
// an *agon.Error that names the field.
func Parse(line []byte) (*shop.Product, error) {
	p, _, err := parse(line)
	return p, err
}
