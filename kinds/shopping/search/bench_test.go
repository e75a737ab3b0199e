package search

import (
	"bytes"
	"context"
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

// big is the index that the benchmarks share: 100,000 products.
var big = sync.OnceValues(func() (*Index, error) {
	dir, err := os.MkdirTemp("", "agon-shop-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var b bytes.Buffer
	if err := catalogue.Generate(&b, catalogue.Options{Products: 100_000, Seed: 1}); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "index")
	if _, err := Build(context.Background(), &b, path); err != nil {
		return nil, err
	}
	return Open(path) // the open file outlives its name
})

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
	x, err := big()
	if err != nil {
		b.Fatal(err)
	}
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
		if _, err := Build(context.Background(), bytes.NewReader(c.Bytes()), path); err != nil {
			b.Fatal(err)
		}
		close(done)
		wg.Wait()
	}
	st, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(peak)/(1<<20), "heap-MB")
	b.ReportMetric(float64(st.Size())/(1<<20), "file-MB")
	b.Logf("catalogue of %d MB", c.Len()>>20)
}
