package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

func TestGenerate(t *testing.T) {
	make := func(n int, seed uint64) []byte {
		var b bytes.Buffer
		if err := Generate(&b, Options{n, seed}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	a := make(2000, 7)
	if !bytes.Equal(a, make(2000, 7)) {
		t.Fatal("the same seed gives other bytes")
	}
	if bytes.Equal(a, make(2000, 8)) {
		t.Fatal("another seed gives the same bytes")
	}
	// The digest stands for tables and rules: whoever changes them raises Version and this line.
	if got := string(agon.Sum(a)); Version != "2" || got != goldenDigest {
		t.Errorf("version %s makes %s", Version, got)
	}
	list, err := ReadAll(bytes.NewReader(a))
	if err != nil || len(list) != 2000 {
		t.Fatalf("%d products, %v", len(list), err)
	}
	shops, cats, languages, flash := map[string]int{}, map[string]int{}, 0, 0
	for _, p := range list {
		shops[p.ShopID]++
		if !strings.HasPrefix(p.Category, PartsPath) {
			cats[p.Category]++
		}
		if strings.ContainsFunc(p.Title, func(r rune) bool { return r > 0x0e00 }) {
			languages++
		}
		if len(p.SKUOptions) == 0 || len(p.SKUOptions) > 9 || len(p.Attributes) < 1 {
			t.Errorf("%s: %d options, %d attributes", p.ProductID, len(p.SKUOptions), len(p.Attributes))
		}
		for _, s := range p.Service {
			if s == "flashsale" {
				flash++
			}
		}
	}
	if len(shops) < 50 || len(cats) < 300 || len(all()) < 500 || languages < 100 || flash < 100 {
		t.Errorf("%d shops, %d categories, %d titles in Thai or Chinese, %d on flash sale", len(shops), len(cats), languages, flash)
	}
	for _, n := range []int{0, -1, MaxProducts + 1} {
		var e *agon.Error
		if err := Generate(io.Discard, Options{Products: n}); !errors.As(err, &e) || e.Field != "products" {
			t.Errorf("%d products: %v", n, err)
		}
	}
}

const goldenDigest = "sha256:9b1e8a078fb3d8a87f81a06c6d10aad1600e6cb10a74df823a38dbc6157a0ddc"

func TestTables(t *testing.T) {
	for i, c := range all() {
		for _, l := range languages {
			if i < len(categories) && len(c.names[l]) == 0 {
				t.Errorf("%s has no name in %s", c.path, l)
			}
		}
		if len(c.names["en"]) == 0 || len(c.attrs) < 2 || len(c.sku) == 0 || c.lo <= 0 || c.hi <= c.lo {
			t.Errorf("%s: %+v", c.path, c)
		}
		for _, a := range append(append([]attr{}, c.attrs...), c.sku...) {
			for _, v := range append(a.values, a.key) {
				if v != strings.ToLower(v) || v == "" || strings.Contains(v, ",") {
					t.Errorf("%s: %q", c.path, v)
				}
			}
		}
	}
	for _, l := range languages {
		if len(adjectives[l]) != 10 || len(closers[l]) != 6 {
			t.Errorf("%s: %d adjectives, %d closers", l, len(adjectives[l]), len(closers[l]))
		}
	}
}

func line(change map[string]any) string {
	m := map[string]any{"product_id": "1", "shop_id": "s", "title": "kettle", "price": 3}
	for k, v := range change {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestBadCatalogues(t *testing.T) {
	many := map[string]string{}
	for i := range MaxKeys + 1 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, c := range map[string]struct {
		in, field, says string
	}{
		"duplicate id":         {line(nil) + "\n\n" + line(nil), "product_id", `line 3: product_id "1" stands on line 1 already`},
		"no id":                {line(map[string]any{"product_id": nil}), "product_id", "line 1: product_id is missing"},
		"no shop":              {line(map[string]any{"shop_id": nil}), "shop_id", "missing"},
		"no title":             {line(map[string]any{"title": nil}), "title", "missing"},
		"no price":             {line(map[string]any{"price": nil}), "price", "missing"},
		"null price":           {`{"product_id":"1","shop_id":"s","title":"t","price":null}`, "price", "missing"},
		"empty id":             {line(map[string]any{"product_id": ""}), "product_id", "empty"},
		"comma in id":          {line(map[string]any{"product_id": "a,b"}), "product_id", "commas"},
		"broken id":            {line(map[string]any{"product_id": 7.5}), "product_id", "want text"},
		"negative shop":        {line(map[string]any{"shop_id": -7}), "shop_id", "want text"},
		"blank title":          {line(map[string]any{"title": " \t"}), "title", "empty"},
		"huge title":           {line(map[string]any{"title": strings.Repeat("ก", MaxTitle+1)}), "title", "1001 characters are too many"},
		"NUL":                  {line(map[string]any{"title": "a\x00b"}), "title", "NUL"},
		"NUL in a value":       {line(map[string]any{"attributes": map[string][]string{"a": {"\x00"}}}), "attributes", "NUL"},
		"NUL in an option":     {line(map[string]any{"sku_options": map[string]any{"1": map[string]string{"\x00": "a"}}}), "sku_options", "NUL"},
		"NUL byte":             {"{\"product_id\":\"\x00\"}", "line", "not a JSON object"},
		"negative price":       {line(map[string]any{"price": -1}), "price", "out of bounds"},
		"price is text":        {line(map[string]any{"price": "3"}), "price", "want a number"},
		"endless price":        {line(map[string]any{"price": 1e300}), "price", "out of bounds"},
		"negative sales":       {line(map[string]any{"sold_count": -1}), "sold_count", "out of bounds"},
		"unknown service":      {line(map[string]any{"service": []string{"drone"}}), "service", "unknown"},
		"service twice":        {line(map[string]any{"service": []string{"COD", "COD"}}), "service", "twice"},
		"service is text":      {line(map[string]any{"service": "COD"}), "service", "want a list"},
		"attributes is a list": {line(map[string]any{"attributes": []string{}}), "attributes", "want an object"},
		"many keys":            {line(map[string]any{"sku_options": map[string]any{"1": many}}), "sku_options", "too many"},
		"huge text":            {line(map[string]any{"description": strings.Repeat("x", MaxText+1)}), "description", "too many"},
		"huge line":            {line(map[string]any{"x": strings.Repeat("x", MaxLine)}), "line", "too long"},
		"not JSON":             {"kettle", "line", "not a JSON object"},
		"a list":               {"[]", "line", "not a JSON object"},
		"not UTF-8":            {"{\"product_id\":\"\xff\"}", "line", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadAll(strings.NewReader(c.in))
			var e *agon.Error
			if !errors.As(err, &e) || !strings.HasPrefix(e.Field, c.field) && !strings.HasSuffix(e.Field, c.field) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "line ") {
				t.Errorf("%v (%+v)", err, e)
			}
		})
	}
	list, err := ReadAll(strings.NewReader(line(map[string]any{"product_url": "x", "video": 7}) + "\r\n" + line(map[string]any{"product_id": "2"})))
	if err != nil || len(list) != 2 || list[1].ProductID != "2" {
		t.Errorf("%v, %v", list, err)
	}
}

// FuzzParse: a product that is taken can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(line(nil)))
	f.Add([]byte(line(map[string]any{"sku_options": map[string]any{"1": map[string]string{"a": "b"}}, "attributes": map[string][]string{"k": {"v"}}, "service": []string{"COD"}})))
	f.Add([]byte(`{"product_id":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			var e *agon.Error
			if !errors.As(err, &e) || e.Field == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse(again)
		if err != nil || q.ProductID != p.ProductID || q.Title != p.Title {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
