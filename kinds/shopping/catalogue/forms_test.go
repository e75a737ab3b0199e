package catalogue

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

const one = `{"product_id":"1","shop_id":"2","title":"A lamp","price":3,"sold_count":4}`

// What exports of catalogues look like, and what is wrong with some of their lines.
func TestForms(t *testing.T) {
	lines := []string{
		one,
		`{"id":"7","contents":"A chair\nred","product":{"product_id":"7","shop_id":"2","title":"A chair","price":5,"attributes":{"colour":["red"]}}}`,
		`{"product_id":8,"shop_id":9,"title":"A table","price":50,"sold_count":12.0}`,
		`{"id":"10","product":{"product_id":"11","shop_id":"2","title":"Of another id","price":5}}`,
		`{"product_id":"12","shop_id":"2","title":"Unknown service","price":5,"service":["pigeon"]}`,
		`{"product_id":1.5,"shop_id":"2","title":"No id","price":5}`,
		`{"product_id":"13","shop_id":"2","title":"No price","price":1e300}`,
		`{"product_id":"14","shop_id":"2","title":"` + strings.Repeat("x", MaxLine) + `","price":1}`,
		one, // its id is there already
		`not JSON`,
		`{"product_id":"15","shop_id":"2","title":"The last","price":1,"sold_count":2.5}`,
		`{"product_id":"16","shop_id":"2","title":"The very last","price":1}`,
	}
	plain := []byte(strings.Join(lines, "\n"))
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write(plain)
	_ = z.Close()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": e.EncodeAll(plain, nil)} {
		r := NewReader(bytes.NewReader(b))
		var bad []int
		r.Skip = func(line int, err error) {
			if err == nil {
				t.Errorf("%s: line %d is skipped for nothing", name, line)
			}
			bad = append(bad, line)
		}
		var ids []string
		for {
			p, own, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if again, err := Parse(own); err != nil || again.ProductID != p.ProductID || strings.Contains(string(own), "contents") {
				t.Errorf("%s: a product is kept as %s: %v", name, own, err)
			}
			ids = append(ids, p.ProductID)
		}
		if got := strings.Join(ids, " "); got != "1 7 8 16" {
			t.Errorf("%s: products %s", name, got)
		}
		if len(bad) != 8 || bad[0] != 4 || bad[7] != 11 {
			t.Errorf("%s: skipped %v", name, bad)
		}
		// Without Skip the first wrong line ends it.
		if _, err := ReadAll(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "line 4") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{"gzip": gz.Bytes()[:60], "zstd": e.EncodeAll(plain, nil)[:60], "no gzip": []byte("\x1f\x8bxx")} {
		r := NewReader(bytes.NewReader(b))
		r.Skip = func(int, error) {}
		for {
			if _, _, err := r.Next(); errors.Is(err, io.EOF) {
				t.Errorf("%s, cut: the end", name)
				break
			} else if err != nil {
				break
			}
		}
	}
}
