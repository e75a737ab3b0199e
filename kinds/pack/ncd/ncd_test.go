package ncd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// words, mutate and rows rebuild the texts of the vectors from their recipe.
func words(seed, n uint32) []string {
	x := seed & 0x7fffffff
	out := make([]string, n)
	for i := range out {
		x = (1103515245*x + 12345) & 0x7fffffff
		var s []byte
		for k := (x>>8)%400 + 7; k > 0; k /= 85 {
			s = append(s, "bcdfghklmnprstvwz"[k%17], "aeiou"[k/17%5])
		}
		out[i] = string(s)
	}
	return out
}

func mutate(in []string, p, seed uint32) []string {
	x := seed
	out := make([]string, len(in))
	for i, w := range in {
		if x = (1103515245*x + 12345) & 0x7fffffff; (x>>8)%1000 < p {
			w = words(x, 1)[0] + "x"
		}
		out[i] = w
	}
	return out
}

type pairRow struct {
	Name             string
	A, B             *string
	CA, CB, CAB, CBA int
	AB               float64 `json:"sim_ab"`
	BA               float64 `json:"sim_ba"`
	Sum              string  `json:"sha256_ab"`
}

var (
	mutForm   = regexp.MustCompile(`\(mut\(words\((\d+),(\d+)\),(\d+),(\d+)\)\)$`)
	selfForm  = regexp.MustCompile(`\(T\((\d+),(\d+)\)\)$`)
	otherForm = regexp.MustCompile(`\(T\((\d+),(\d+)\) vs T\((\d+),(\d+)\)\)$`)
)

func (r pairRow) texts(t *testing.T) (string, string) {
	t.Helper()
	if r.A != nil && r.B != nil {
		return *r.A, *r.B
	}
	num := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(n)
	}
	text := func(w []string) string { return strings.Join(w, " ") }
	if m := mutForm.FindStringSubmatch(r.Name); m != nil {
		a := words(num(m[1]), num(m[2]))
		return text(a), text(mutate(a, num(m[3]), num(m[4])))
	}
	if m := selfForm.FindStringSubmatch(r.Name); m != nil {
		a := text(words(num(m[1]), num(m[2])))
		return a, a
	}
	m := otherForm.FindStringSubmatch(r.Name)
	if m == nil {
		t.Fatalf("no recipe in %q", r.Name)
	}
	return text(words(num(m[1]), num(m[2]))), text(words(num(m[3]), num(m[4])))
}

func vectors(t *testing.T) (out struct {
	Normal []struct {
		Text, Normalized string
		Len              int `json:"zlib9_len"`
	} `json:"ncd_normalize"`
	Pairs []pairRow `json:"ncd_pairs"`
},
) {
	t.Helper()
	b, err := os.ReadFile("testdata/ncd.json")
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil || len(out.Pairs) != 34 || len(out.Normal) != 6 {
		t.Fatalf("%v, %d pairs", err, len(out.Pairs))
	}
	return out
}

func TestGoldenNCD(t *testing.T) {
	v := vectors(t)
	c := newCompressor()
	defer c.close()
	for _, r := range v.Normal {
		if got := NormaliseText(r.Text); got != r.Normalized || c.size(got) != r.Len {
			t.Errorf("%q: got %q, %d bytes", r.Text, got, c.size(got))
		}
	}
	for _, r := range v.Pairs {
		a, b := r.texts(t)
		a, b = NormaliseText(a), NormaliseText(b)
		if h := sha256.Sum256([]byte(a + b)); hex.EncodeToString(h[:]) != r.Sum {
			t.Errorf("%s: other texts", r.Name)
			continue
		}
		if race && len(a) > 8<<10 {
			continue // the same code on longer texts; run without the detector too
		}
		ab := c.compare(a, b)
		ba := Sizes{ab.B, ab.A, c.after(b, a)}
		if ab != (Sizes{r.CA, r.CB, r.CAB}) || ba.AB != r.CBA || math.Abs(ab.Similarity()-r.AB) > 1e-9 || math.Abs(ba.Similarity()-r.BA) > 1e-9 {
			t.Errorf("%s: got %+v %+v, want %d %d %d %d", r.Name, ab, ba, r.CA, r.CB, r.CAB, r.CBA)
		}
		if one := c.size(a + b); one != ab.AB {
			t.Errorf("%s: %d bytes in one go, %d after a kept state", r.Name, one, ab.AB)
		}
	}
}

func BenchmarkPair8K(b *testing.B) {
	c := newCompressor()
	defer c.close()
	x, y := strings.Join(words(1, 2000), " ")[:8192], strings.Join(words(2, 2000), " ")[:8192]
	b.Run("size", func(b *testing.B) {
		for b.Loop() {
			c.size(x)
		}
	})
	b.Run("after", func(b *testing.B) {
		for b.Loop() {
			c.after(x, y)
		}
	})
}
