package corpus

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// tokenTexts are texts that the pieces of Tokens could count wrong.
var tokenTexts = []string{
	"", " ", "a", "don't", "DON'T we'll I'd o'clock 'tis 's", "a'sb", "x's5", "a  b   c", "1 2  3   45678 9", "12345678901", "v1.2.3-rc4", "  5", "\t7", "\n\n8 \n 9\r\n",
	`{"role":"tool","content":"[{\"product_id\":\"1669803764\",\"price\":385.50}]"}`, "日本語12 naïve ½3 ٣4", "a\u0301b 1\u0301 x\u00a05", "\xff1\xfea", "http://x.y/z?a=1&b='2'", "a/b//c\n/d!\n/e",
	"CamelCaseWORDSand123Numbers", "💚 TEDDY BEAR v3 ", "!!!\n\n 12", "\"\n1", "\u20285", "\u0661\u0662 1\u0661",
}

// Counting by pieces is counting the whole.
func TestTokensOfPieces(t *testing.T) {
	enc, err := encoding()
	if err != nil {
		t.Fatal(err)
	}
	check := func(s string) {
		t.Helper()
		want, err := enc.Count(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := Tokens(s); got != want {
			t.Errorf("%q: %d tokens, want %d", s, got, want)
		}
	}
	for _, s := range tokenTexts {
		check(s)
	}
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{" ", "  ", "\n", "\t", "'", "'s", "'LL", "\"", "{", "/", "-", ".", "a", "B", "the", "ING", "é", "日", "\u0301", "½", "٣", "0", "42", "123", "1669803764", "\u00a0", "💚", "\xff", "\u2028", "_", "\r\n"}
	for range 4000 {
		var b strings.Builder
		for range 1 + r.IntN(14) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		check(b.String())
	}
}

func FuzzTokens(f *testing.F) {
	for _, s := range tokenTexts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxUnbroken {
			return
		}
		enc, err := encoding()
		if err != nil {
			t.Fatal(err)
		}
		if want, err := enc.Count(s); err != nil || Tokens(s) != want {
			t.Errorf("%q: %d tokens, want %d (%v)", s, Tokens(s), want, err)
		}
	})
}
