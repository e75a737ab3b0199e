package search

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

func TestTerms(t *testing.T) {
	for in, want := range map[string]string{
		"The Running shoes, of MEN'S size":       "run shoe men size",
		"0.6l 3.14 1,000 2.4ghz 60% a_b _ x:y":   "0.6l 3.14 1,000 2.4ghz 60 a_b x:y",
		"e.g. don't rock’n’roll 5- -x . .. ::":   "e.g don't rock’n’rol 5 x",
		"保温杯 便携A5":                               "保 温 杯 便 携 a5",
		"กระเป๋าเป้ พรีเมียม":                    "กระเป๋าเป้ พรีเมียม",
		"カタカナ ひら 한국어 tiếng việt":                 "カタカナ ひ ら 한국어 tiếng việt",
		"kettle🙂❤️ 👩‍👩‍👧x 🇵🇭🇺 # #️⃣ 👍🏽":          "kettl 🙂 ❤️ 👩‍👩‍👧 x 🇵🇭 #️⃣ 👍🏽",
		"צה\"ל קג' Ⅳ 々 x\u0301":                  "צה\"ל קג' ⅳ 々 x\u0301",
		"no on with":                             "",
		"":                                       "",
		"__ __ __":                               "",
		"relational conditional hopping falling": "relat condit hop fall",
	} {
		var got []string
		var a analyzer
		a.terms(in, func(s string) bool { got = append(got, s); return true })
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", in, strings.Join(got, " "), want)
		}
	}
	var a analyzer
	n := 0
	a.terms(strings.Repeat("x", 2*maxToken+5), func(s string) bool {
		if n++; len(s) > maxToken {
			t.Errorf("a word of %d", len(s))
		}
		return true
	})
	if n != 3 {
		t.Errorf("%d words", n)
	}
}

// The examples of Porter's paper, and words around them.
func TestStem(t *testing.T) {
	for in, want := range map[string]string{
		"caresses": "caress", "ponies": "poni", "ties": "ti", "cats": "cat", "feed": "feed", "agreed": "agre", "plastered": "plaster", "bled": "bled",
		"motoring": "motor", "sing": "sing", "conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop", "tanned": "tan",
		"falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file", "happy": "happi", "sky": "sky",
		"relational": "relat", "rational": "ration", "valenci": "valenc", "digitizer": "digit", "conformabli": "conform", "radicalli": "radic",
		"differentli": "differ", "vileli": "vile", "analogousli": "analog", "vietnamization": "vietnam", "predication": "predic", "operator": "oper",
		"feudalism": "feudal", "decisiveness": "decis", "hopefulness": "hope", "callousness": "callous", "formaliti": "formal", "sensitiviti": "sensit",
		"sensibiliti": "sensibl", "triplicate": "triplic", "formative": "form", "formalize": "formal", "electriciti": "electr", "electrical": "electr",
		"hopeful": "hope", "goodness": "good", "revival": "reviv", "allowance": "allow", "inference": "infer", "airliner": "airlin", "adjustable": "adjust",
		"defensible": "defens", "irritant": "irrit", "replacement": "replac", "adjustment": "adjust", "dependent": "depend", "adoption": "adopt",
		"communism": "commun", "activate": "activ", "angulariti": "angular", "homologous": "homolog", "effective": "effect", "bowdlerize": "bowdler",
		"probate": "probat", "rate": "rate", "cease": "ceas", "controll": "control", "roll": "roll", "ion": "ion", "as": "as", "és": "és", "liñe": "liñe", "eed": "eed", "eeds": "eed", "ies": "i", "sses": "ss", "kettles": "kettl",
	} {
		if got := stem(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestLengthByte(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 23: 23, 24: 24, 39: 39, 40: 40, 41: 40, 42: 42, 57: 56, 100: 96, 1000: 984} {
		if got := byte4ToInt(intToByte4(n)); got != want {
			t.Errorf("%d is kept as %d, want %d", n, got, want)
		}
	}
	last := -1
	for i := range 256 {
		if v := byte4ToInt(uint8(i)); v <= last || (v < 1<<30 && intToByte4(v) != uint8(i)) {
			t.Fatalf("byte %d is %d, %d", i, v, intToByte4(v))
		} else {
			last = v
		}
	}
}

func lines(t testing.TB, products []*shop.Product) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range products {
		line, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

func indexOf(t testing.TB, products []*shop.Product) *Index {
	t.Helper()
	x, err := Memory(t.Context(), bytes.NewReader(lines(t, products)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func generated(t testing.TB, n int) []*shop.Product {
	t.Helper()
	list, err := catalogue.Products(catalogue.Options{Products: n, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// lampShop is a small catalogue for the routes.
func lampShop(t *testing.T) (*Service, *Service) {
	var products []*shop.Product
	for i := range 70 {
		products = append(products, &shop.Product{
			ProductID: fmt.Sprintf("p%02d", i), ShopID: fmt.Sprintf("s%d", i%3), Title: "lamp" + strings.Repeat(" lamp", i%5), Price: float64(i), SoldCount: int64(i % 7),
			Service: shop.Services()[:i%5], ShortDescription: "short", Description: "long", Attributes: map[string][]string{"colour": {"red"}}, SKUOptions: map[string]map[string]string{"1": {"size": "m"}},
		})
	}
	products = append(products, &shop.Product{ProductID: "ünï", ShopID: "s9", Title: "café a+b", Price: 3})
	x := indexOf(t, products)
	return &Service{Index: x}, &Service{Index: x, Strict: true}
}

func get(s *Service, path string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func idsOf(t *testing.T, body string) []string {
	t.Helper()
	var list []struct {
		ProductID string `json:"product_id"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	ids := []string{}
	for _, p := range list {
		ids = append(ids, p.ProductID)
	}
	return ids
}

func TestFindProduct(t *testing.T) {
	compat, strict := lampShop(t)
	for query, want := range map[string]struct {
		compat int // number of products; -1 = an error
		strict int
	}{
		"q=lamp&page=1":                         {10, 10},
		"q=lamp":                                {0, 10},
		"q=lamp&page=":                          {0, -1},
		"q=lamp&page=0":                         {0, -1},
		"q=lamp&page=5":                         {10, 10},
		"q=lamp&page=6":                         {0, 10},
		"q=lamp&page=7":                         {0, 10},
		"q=lamp&page=8":                         {0, 0},
		"q=lamp&page=x":                         {0, -1},
		"q=lamp&page=-1":                        {0, -1},
		"q=lamp&page=1.0":                       {0, -1},
		"q=lamp&page=01":                        {10, 10},
		"q=lamp&page=²":                         {0, -1},
		"q=lamp&page=99999999999999999999":      {0, -1},
		"q=&page=1":                             {0, -1},
		"page=1":                                {0, -1},
		"q=%2B-%26%7C!()%7B%7D%5B%5D%5E&page=1": {0, -1},
		"q=lamp&page=1&price=-":                 {10, -1},
		"q=lamp&page=1&price=5-":                {10, 10},
		"q=lamp&page=1&price=-5":                {6, 6},
		"q=lamp&page=1&price=1-2-3":             {10, -1},
		"q=lamp&page=1&price=7":                 {10, -1},
		"q=lamp&page=1&price=7-8":               {2, 2},
		"q=lamp&page=1&price=8-7":               {0, -1},
		"q=lamp&page=1&price=a-8":               {9, -1},
		"q=lamp&page=1&price=nan-8":             {9, -1},
		"q=lamp&page=1&price=+7+-+8+":           {2, 2},
		"q=lamp&page=1&price=1e9-":              {0, 0},
		"q=lamp&page=1&shop_id=s9":              {0, 0},
		"q=lamp&page=1&shop_id=nobody":          {0, 0},
		"q=lamp&page=3&shop_id=s1":              {3, 3},
		"q=lamp&page=1&service=drone":           {10, -1},
		"q=lamp&page=1&service=default":         {10, 10},
		"q=lamp&page=1&sort=random":             {10, -1},
		"q=lamp&page=1&sort=default":            {10, 10},
		"q=table&page=1":                        {0, 0},
		"q=la%mp&page=1":                        {0, 0},
		"q=caf%C3%A9&page=1":                    {1, 1},
		"q=a%2Bb&page=1":                        {1, 1}, // what a second quoting made of "a b"
		"q=caf%25C3&page=1":                     {0, 0}, // half a character stays
		"q=caf%25C3%25A9&page=1":                {0, 1}, // of a second quoting, which compat does not undo
		"q=lamp;page=2&page=1":                  {10, 10},
		"q=lamp%00&page=1":                      {10, 10},
		"q=%ff%fe&page=1":                       {0, 0},
		"q=" + strings.Repeat("lamp+", 20_000) + "&page=1":      {10, -1}, // 100 KB of one word
		"q=" + strings.Repeat("%F0%9F%A4%96", 9000) + "&page=1": {0, -1},
	} {
		for s, n := range map[*Service]int{compat: want.compat, strict: want.strict} {
			code, body := get(s, "/find_product?"+query)
			if n < 0 {
				var p Problem
				if code != http.StatusBadRequest || json.Unmarshal([]byte(body), &p) != nil || p.Error == "" || p.Field == "" {
					t.Errorf("%.60s, strict: %d %.200s", query, code, body)
				}
				continue
			}
			if code != http.StatusOK || len(idsOf(t, body)) != n {
				t.Errorf("%.60s, strict %v: %d, %d products, want %d: %.200s", query, s.Strict, code, len(idsOf(t, body)), n, body)
			}
		}
	}
	var many strings.Builder
	for i := range MaxTerms + 1 {
		fmt.Fprintf(&many, "w%d+", i)
	}
	if code, body := get(compat, "/find_product?page=1&q="+many.String()); code != http.StatusBadRequest || !strings.Contains(body, "1024 different words") {
		t.Errorf("too many words: %d %s", code, body)
	}
	_, body := get(compat, "/find_product?page=1&q=lamp&price=69-69")
	if want := `[{"product_id":"p69","shop_id":"s0","title":"lamp lamp lamp lamp lamp","price":69,"service":["official","freeShipping","COD","flashsale"],"sold_count":6}]`; body != want {
		t.Errorf("%s, want %s", body, want)
	}
}

// Compat sorts what is among the first 50 by relevance; strict sorts all.
func TestSorting(t *testing.T) {
	compat, strict := lampShop(t)
	_, a := get(compat, "/find_product?page=1&q=lamp&sort=priceasc")
	_, b := get(strict, "/find_product?page=1&q=lamp&sort=priceasc")
	if got := idsOf(t, b); got[0] != "p00" || got[9] != "p09" {
		t.Errorf("strict: %v", got)
	}
	if got := idsOf(t, a); slices.Contains(got, "p00") || got[0] >= got[9] {
		t.Errorf("compat: %v", got) // products of one "lamp" are the last by relevance
	}
	for s, want := range map[string]string{"official,freeShipping,COD,flashsale": "p04", "flashsale,flashsale,drone": "p04", "official": "p04"} {
		_, body := get(compat, "/find_product?page=1&q=lamp&service="+url.QueryEscape(s))
		if got := idsOf(t, body); got[0] != want {
			t.Errorf("%s: %v", s, got)
		}
	}
}

func TestByID(t *testing.T) {
	compat, strict := lampShop(t)
	for _, c := range []struct {
		path           string
		compat, strict string // ids, or a status
	}{
		{"/view_product_information", "500", "400"},
		{"/view_product_information?product_ids=", "", "400"},
		{"/view_product_information?product_ids=p02,p01", "p02 p01", "p02 p01"},
		{"/view_product_information?product_ids=p02,%20p01", "p02", "p02 p01"},
		{"/view_product_information?product_ids=p02,nobody,p02", "p02 p02", "p02 p02"},
		{"/view_product_information?product_ids=%C3%BCn%C3%AF", "ünï", "ünï"},
		{"/view_product_information?product_ids=" + strings.Repeat("p02,", MaxIDs), "400", "400"},
		{"/get_product_raw", "", "400"},
		{"/get_product_raw?product_ids=p03", "p03", "p03"},
		{"/nowhere", "404", "404"},
	} {
		for s, want := range map[*Service]string{compat: c.compat, strict: c.strict} {
			code, body := get(s, c.path)
			got := fmt.Sprint(code)
			if code == http.StatusOK {
				got = strings.Join(idsOf(t, body), " ")
			}
			if got != want {
				t.Errorf("%.60s, strict %v: %s, want %s", c.path, s.Strict, got, want)
			}
		}
	}
	_, body := get(compat, "/view_product_information?product_ids=p03")
	if want := `[{"product_id":"p03","short_description":"short","description":"long","sku_options":{"1":{"size":"m"}},"attributes":{"colour":["red"]}}]`; body != want {
		t.Errorf("%s", body)
	}
	if code, body := get(compat, "/health"); code != 200 || body != `{"status":"healthy","service":"search-server"}` {
		t.Errorf("%d %s", code, body)
	}
	w := httptest.NewRecorder()
	compat.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/find_product", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	p, err := compat.Index.Product(t.Context(), "p03")
	if err != nil || p.Title != "lamp lamp lamp lamp" || p.Attributes["colour"][0] != "red" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := compat.Index.Product(t.Context(), "nobody"); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

func TestBuildAndOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "index")
	products := generated(t, 300)
	src := lines(t, products)
	meta, err := Build(t.Context(), bytes.NewReader(src), path)
	if err != nil || meta.Products != 300 {
		t.Fatalf("%+v, %v", meta, err)
	}
	disk, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(disk.norm) || slices.IsSorted(disk.row) {
		t.Error("products are not numbered by length")
	}
	mem := indexOf(t, products)
	if disk.Meta() != mem.Meta() {
		t.Errorf("%+v and %+v", disk.Meta(), mem.Meta())
	}
	for _, q := range []string{"/find_product?q=premium+kettle&page=1&service=COD", "/find_product?q=keyboard+black&page=1&sort=order", "/get_product_raw?product_ids=" + products[7].ProductID} {
		_, a := get(&Service{Index: disk}, q)
		_, b := get(&Service{Index: mem}, q)
		if a != b || len(a) < 10 {
			t.Errorf("%s: %s and %s", q, a, b)
		}
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(dir, "again")
	if _, err := Build(t.Context(), bytes.NewReader(src), again); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(again); err != nil || !bytes.Equal(b, good) {
		t.Errorf("a second build has other bytes: %v", err)
	}
	r := catalogue.NewRandom(1, "damage")
	for i := range 60 {
		bad := slices.Clone(good)
		if i%3 == 0 {
			bad = bad[:r.N(len(bad))]
		} else {
			at := len(bad) - 1 - r.N(min(len(bad), 40_000)) // in the columns or the trailer
			bad[at] ^= byte(1 + r.N(255))
		}
		if x, err := parse(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Fatalf("damage %d: opened with %+v", i, x.Meta())
		} else if !errors.Is(err, ErrIndex) && !errors.Is(err, io.EOF) {
			t.Fatalf("damage %d: %v", i, err)
		}
	}
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
	if code, body := get(&Service{Index: disk}, "/find_product?q=premium&page=1"); code != http.StatusInternalServerError {
		t.Errorf("after Close: %d %s", code, body)
	}
	// What fails leaves nothing.
	if _, err := Build(t.Context(), strings.NewReader(`{"product_id":"1"}`), filepath.Join(dir, "no")); err == nil {
		t.Error("a bad catalogue was indexed")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Many queries at once share the memory of a few.
func TestConcurrentQueries(t *testing.T) {
	x := indexOf(t, generated(t, 300))
	s := &Service{Index: x}
	_, want := get(s, "/find_product?q=premium+black&page=1")
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if _, got := get(s, "/find_product?q=premium+black&page=1"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	wg.Wait()
	if len(x.free) != cap(x.free) {
		t.Errorf("%d of %d are free", len(x.free), cap(x.free))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Compat(ctx, Query{Text: "premium", Page: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func FuzzFind(f *testing.F) {
	list, err := catalogue.Products(catalogue.Options{Products: 50, Seed: 3})
	if err != nil {
		f.Fatal(err)
	}
	x, err := Memory(context.Background(), bytes.NewReader(lines(f, list)))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"q=premium&page=1&price=5-", "q=%zz&page=x&price=1-2-3&service=COD,", "product_ids=a,%20b", "q=ก_._·a&page=1", "&&==&q"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		args := parseQuery(raw)
		for _, strict := range []bool{false, true} {
			s := &Service{Index: x, Strict: strict}
			for _, route := range []func(context.Context, Args) ([]byte, error){s.Find, s.View, s.Raw} {
				body, err := route(t.Context(), args)
				var refused *agon.Error
				if err != nil && !errors.As(err, &refused) || err == nil && !json.Valid(body) {
					t.Fatalf("%q: %v, %s", raw, err, body)
				}
			}
		}
	})
}

// FuzzOpen: a file that is not an index is an error, whatever stands in it. The
// digest is made to fit, so that the checks behind it are reached.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "index")
	list, err := catalogue.Products(catalogue.Options{Products: 3, Seed: 3})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := Build(context.Background(), bytes.NewReader(lines(f, list)), path); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, 0, byte(0))
	f.Add(good[:40], 3, byte(1))
	f.Add(good, len(good)/2, byte(255))
	f.Fuzz(func(t *testing.T, b []byte, at int, v byte) {
		b = slices.Clone(b)
		if at >= 0 && at < len(b) {
			b[at] ^= v
		}
		resign(b)
		x, err := parse(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		_, _ = get(&Service{Index: x}, "/find_product?q=premium+mini&page=1&price=5-")
		for id := range x.IDs {
			_, _ = x.Product(t.Context(), id)
		}
	})
}

// resign puts the right digest into an index file whose columns were changed.
func resign(b []byte) {
	if len(b) < trailerSize {
		return
	}
	end := len(b) - trailerSize
	start := binary.LittleEndian.Uint64(b[end:])
	if start > uint64(end) {
		return
	}
	sum := sha256.Sum256(b[start:end])
	copy(b[end+16:], sum[:])
}
