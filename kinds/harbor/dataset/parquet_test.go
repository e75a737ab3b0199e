package dataset

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// A small file that says it is large, of a page or of its end, makes no room for what it says.
func TestParquetThatLies(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.parquet")
	if err := parquet.WriteFile(file, []struct {
		ID string `parquet:"instance_id"`
	}{{"o__r-1"}}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var was, is runtime.MemStats
	refused := 0
	huge := []byte{0xfe, 0xff, 0xff, 0xff, 0x0f} // 2^31-1 in the compact form
	for i := 4; i < len(good); i++ {
		if i == 40 {
			i = len(good) - 8
		}
		bad := slices.Concat(good[:i], huge, good[i+1:])
		if i >= 40 {
			bad = slices.Clone(good)
			bad[i] ^= 0xff
		}
		if err := os.WriteFile(file, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&was)
		w := Writer{Dir: t.TempDir()}
		if w.SWEBench(t.Context(), file, OfficialImage) != nil {
			refused++
		}
		if runtime.ReadMemStats(&is); is.TotalAlloc-was.TotalAlloc > 128<<20 {
			t.Errorf("byte %d: %d MiB for a file of %d bytes", i, (is.TotalAlloc-was.TotalAlloc)>>20, len(bad))
		}
	}
	if refused < 8 {
		t.Errorf("%d of the files were refused", refused)
	}
}
