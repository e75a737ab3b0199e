package encode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

func TestNgram(t *testing.T) {
	like := func(a, b string) float64 {
		t.Helper()
		v, err := Ngram{}.Encode(t.Context(), []string{a, b})
		if err != nil {
			t.Fatal(err)
		}
		c, err := shop.Cosine(v[0], v[1])
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		a, b    string
		similar bool
	}{
		{"Sollobra premium matte lipstick", "sollobra PREMIUM matte lipstick", true},
		{"Sollobra premium matte lipstick A354", "Sollobra premium matte lipstick B71 original", true},
		{"ขวดนม พรีเมียม ขายดี", "ขวดนม พรีเมียม พร้อมส่ง", true},
		{"premium matte lipstick", "waterproof waist bag oxford", false},
		{"保温杯 正品", "钱包 热卖", false},
		{"", "lipstick", false},
	} {
		if got := like(c.a, c.b); (got >= shop.SimilarityThreshold) != c.similar {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

func TestReadVectors(t *testing.T) {
	name, table, err := ReadVectors(strings.NewReader(`{"encoder":"m1"}` + "\n" + `{"title":"a","vector":[1,2]}` + "\n\n" + `{"title":"b","vector":[0,1]}`))
	if err != nil || name != "m1" || len(table) != 2 || table["b"][1] != 1 {
		t.Errorf("%q, %v, %v", name, table, err)
	}
	for want, in := range map[string]string{
		"line 1":             `nope`,
		"title is missing":   `{"vector":[1]}`,
		"dimensions":         `{"title":"a","vector":[1]}` + "\n" + `{"title":"b","vector":[1,2]}`,
		"0 dimensions":       `{"title":"a"}`,
		"twice":              `{"title":"a","vector":[1]}` + "\n" + `{"title":"a","vector":[1]}`,
		"line is longer":     `{"title":"` + strings.Repeat("x", maxVectorLine) + `"}`,
		"cannot unmarshal":   `{"title":"a","vector":[1e99]}`,
		"line 2: title is m": `{"title":"a","vector":[1]}` + "\n" + `{"encoder":"late"}`,
	} {
		if _, _, err := ReadVectors(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestHTTP(t *testing.T) {
	var asked atomic.Int32
	reply := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var in struct {
			Model string
			Input []string
		}
		b, _ := io.ReadAll(r.Body)
		if json.Unmarshal(b, &in) != nil || in.Model != "m" || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if reply != "" {
			_, _ = io.WriteString(w, reply)
			return
		}
		type row struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []row
		for i, s := range in.Input {
			data = append([]row{{i, []float32{float32(len(s)), 1}}}, data...) // in another order
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	defer srv.Close()
	h, err := NewHTTP(HTTPConfig{BaseURL: srv.URL + "/v1/", APIKey: "k", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		v, err := h.Encode(t.Context(), []string{"a", "abc", "a"})
		if err != nil || v[0][0] != 1 || v[1][0] != 3 || v[2][0] != 1 {
			t.Fatalf("%v, %v", v, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	for _, reply = range []string{`{}`, `nope`, `{"data":[{"index":0,"embedding":[]}]}`, `{"data":[{"index":7,"embedding":[1]}]}`, `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`} {
		if _, err := h.Encode(t.Context(), []string{"new"}); err == nil {
			t.Errorf("%s passes", reply)
		}
	}
	for _, c := range []HTTPConfig{{}, {BaseURL: "file:///x", Model: "m"}, {BaseURL: "http://x"}} {
		if _, err := NewHTTP(c); err == nil {
			t.Errorf("%+v passes", c)
		}
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vectors")
	titles := []string{"a b c", "kettle", "a b c", "lamp"}
	var b bytes.Buffer
	n, err := WriteVectors(t.Context(), &b, Ngram{}, func(yield func(string, error) bool) {
		for _, s := range titles {
			if !yield(s, nil) {
				return
			}
		}
	})
	if err != nil || n != 3 {
		t.Fatalf("%d, %v", n, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Open(Settings{Vectors: path})
	if err != nil || e.Name() != NgramName {
		t.Fatalf("%v, %v", e, err)
	}
	want, err := Ngram{}.Encode(t.Context(), titles)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Encode(t.Context(), titles)
	if err != nil || !slices.Equal(got[1], want[1]) || !slices.Equal(got[2], want[0]) {
		t.Errorf("%v", err)
	}
	if _, err := e.Encode(t.Context(), []string{"new"}); !errors.Is(err, shop.ErrNoEncoder) {
		t.Errorf("a title that is not in the table: %v", err)
	}
	if e, err := Open(Settings{}); err != nil || e.Name() != NgramName {
		t.Errorf("%v, %v", e, err)
	}
	for _, s := range []Settings{{Vectors: path + "x"}, {URL: "http://x", Model: "other", Vectors: path}, {URL: "x"}} {
		if e, err := Open(s); err == nil {
			t.Errorf("%+v gives %v", s, e)
		}
	}
}

func FuzzReadVectors(f *testing.F) {
	f.Add(`{"encoder":"m1"}` + "\n" + `{"title":"a","vector":[1,2]}`)
	f.Fuzz(func(t *testing.T, s string) {
		_, table, err := ReadVectors(strings.NewReader(s))
		size := 0
		for _, v := range table {
			if err != nil || len(v) == 0 || (size > 0 && len(v) != size) {
				t.Fatalf("%v, %v", table, err)
			}
			size = len(v)
		}
	})
}
