package rootfs

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// big makes an image of so many layers, each of n files of 64 KiB that do not compress.
func big(b *testing.B, layers, n int, seed uint64) *made {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	body := make([]byte, 64<<10)
	var all [][]byte
	for l := range layers {
		var files []file
		for i := range n {
			for j := 0; j < len(body); j += 8 {
				v := r.Uint64()
				for k := range 8 {
					body[j+k] = byte(v >> (8 * k))
				}
			}
			files = append(files, file{fmt.Sprintf("srv/%d/%d/f", l, i), 0, string(body), 0o644})
		}
		all = append(all, archive(b, files...))
	}
	return makeImage(b, "gzip", all...)
}

// BenchmarkImport brings an image of 1 GB in five layers and unpacks it; again_ms
// is what a second task on it waits.
func BenchmarkImport(b *testing.B) {
	ref := big(b, 5, 3200, 1).layout(b)
	for b.Loop() {
		s := OpenImages(b.TempDir(), nil)
		img, err := s.Import(b.Context(), ref)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Open(b.Context(), img); err != nil {
			b.Fatal(err)
		}
		again := b.Elapsed()
		x, err := s.Ensure(b.Context(), img.Digest)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Open(b.Context(), x); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64((b.Elapsed()-again).Microseconds())/1000, "again_ms")
	}
}

// BenchmarkPruneImages removes 100 images, each unpacked.
func BenchmarkPruneImages(b *testing.B) {
	s := OpenImages(b.TempDir(), nil)
	for b.Loop() {
		b.StopTimer()
		for i := range 100 {
			img, err := s.Import(b.Context(), big(b, 2, 20, uint64(i)).layout(b))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Open(b.Context(), img); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if gone, err := s.Prune(b.Context(), 0); err != nil || len(gone.Images) != 100 {
			b.Fatalf("%+v, %v", gone, err)
		}
	}
}
