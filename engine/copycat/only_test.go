// What only the tests of this package need.

package copycat

import "compress/flate"

// Compressed is how much of the smaller text the larger one says already, by
// compression: 1 where it adds nothing.
func Compressed(a, b string) float64 {
	a, b = Fold(a), Fold(b)
	size := func(s string) int {
		var n counter
		w, _ := flate.NewWriter(&n, flate.BestCompression)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return int(n)
	}
	x, y, xy := size(a), size(b), size(a+b)
	if max(x, y) == 0 {
		return 0
	}
	return max(0, 1-float64(xy-max(x, y))/float64(min(x, y)))
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
