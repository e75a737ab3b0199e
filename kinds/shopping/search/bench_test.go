package search

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
)

// made is an index and what it took to make it.
type made struct {
	x    *Index
	took time.Duration
	heap uint64 // the most, in bytes
}

// big and huge are the indexes that the benchmarks share: of 100,000 products, and of as many as ORO's catalogue has.
var (
	big  = sync.OnceValues(func() (made, error) { return build(100_000) })
	huge = sync.OnceValues(func() (made, error) { return build(2_500_000) })
)

// build generates products and indexes them at once: 2.5 M are 2.4 GB of lines.
func build(products int) (m made, err error) {
	dir, err := os.MkdirTemp("", "agon-shop-bench-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	r, w := io.Pipe()
	go func() { w.CloseWithError(catalogue.Generate(w, catalogue.Options{Products: products, Seed: 1})) }()
	defer r.Close()
	path := filepath.Join(dir, "index")
	began := time.Now()
	m.heap = peakHeap(func() { _, err = Build(context.Background(), r, path) })
	if err != nil {
		return m, err
	}
	m.took = time.Since(began)
	m.x, err = Open(path) // the open file outlives its name
	return m, err
}

// peakHeap is the most heap in use while f runs.
func peakHeap(f func()) (peak uint64) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
		}
	})
	f()
	close(done)
	wg.Wait()
	return peak
}

// queries are what agents ask: words of titles, with and without filters.
func queries(n int) []string {
	r := catalogue.NewRandom(1, "queries")
	words := []string{
		"electric kettle", "portable premium backpack", "wireless earbuds noise cancelling", "stainless steel water bottle", "running shoes men",
		"tas ransel premium", "tai nghe không dây", "กระเป๋าเป้ พรีเมียม", "保温杯", "cotton t-shirt black round neck", "matte lipstick vegan long lasting", "yes", "best seller original",
	}
	extra := []string{"", "", "", "&price=100-500", "&service=official,freeShipping", "&sort=priceasc", "&service=COD&price=200-", "&sort=order"}
	var out []string
	for range n {
		w := words[r.N(len(words))]
		if r.Bool(.5) {
			w += " " + words[r.N(len(words))]
		}
		out = append(out, "/find_product?page=1&q="+url.QueryEscape(w)+extra[r.N(len(extra))])
	}
	return out
}

// BenchmarkFind: the first page of 100,000 products, through the handler.
func BenchmarkFind(b *testing.B) {
	m, err := big()
	if err != nil {
		b.Fatal(err)
	}
	benchmarkFind(b, m.x)
}

// BenchmarkHuge: the first page of 2.5 M products, through the handler, and their index.
func BenchmarkHuge(b *testing.B) {
	m, err := huge()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("index", func(b *testing.B) {
		b.ReportMetric(m.took.Seconds(), "s")
		b.ReportMetric(float64(m.heap)/(1<<20), "heap-MB")
	})
	benchmarkFind(b, m.x)
}

func benchmarkFind(b *testing.B, x *Index) {
	qs := queries(500)
	for _, strict := range []bool{false, true} {
		s := &Service{Index: x, Strict: strict}
		name := map[bool]string{false: "compat", true: "strict"}[strict]
		ask := func(i int) {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, qs[i%len(qs)], nil))
			if w.Code != http.StatusOK {
				b.Fatalf("%s: %d %s", qs[i%len(qs)], w.Code, w.Body)
			}
		}
		b.Run(name+"/latency", func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for i := range b.N {
				began := time.Now()
				ask(i)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
		b.Run(name+"/throughput", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					ask(i)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "queries/s")
		})
	}
}

// BenchmarkBuild: an index of 100,000 products, and the most memory it took.
func BenchmarkBuild(b *testing.B) {
	var c bytes.Buffer
	if err := catalogue.Generate(&c, catalogue.Options{Products: 100_000, Seed: 1}); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "index")
	var peak uint64
	for b.Loop() {
		var err error
		peak = max(peak, peakHeap(func() { _, err = Build(context.Background(), bytes.NewReader(c.Bytes()), path) }))
		if err != nil {
			b.Fatal(err)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(peak)/(1<<20), "heap-MB")
	b.ReportMetric(float64(st.Size())/(1<<20), "file-MB")
	b.Logf("catalogue of %d MB", c.Len()>>20)
}
