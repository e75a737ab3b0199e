package ncd

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// derive makes a text derived from another in one of the ways that miners use.
func derive(r *rand.Rand, base []string, how int, share int) string {
	w := append([]string(nil), base...)
	switch how {
	case 0: // words replaced
		return strings.Join(mutate(w, uint32(share*10), r.Uint32()), " ")
	case 1: // a tail of its own
		n := len(w) * (100 - share) / 100
		return strings.Join(append(w[:n:n], words(r.Uint32(), uint32(len(w)-n))...), " ")
	case 2: // a head of its own
		n := len(w) * share / 100
		return strings.Join(append(words(r.Uint32(), uint32(n)), w[n:]...), " ")
	case 3: // counters between the lines
		var b strings.Builder
		for i, x := range w {
			if i%max(2, 100/max(1, share)) == 0 {
				fmt.Fprintf(&b, "%04d ", i)
			}
			b.WriteString(x + " ")
		}
		return b.String()
	}
	return strings.Join(w[:max(1, len(w)*(100-share)/100)], " ") // cut
}

// The prefilter may only pass over pairs that exact comparison would not call
// copies; this measures both on texts on either side of the threshold.
func TestPrefilterAgrees(t *testing.T) {
	k := NewComparer()
	defer k.Close()
	r := rand.New(rand.NewPCG(3, 4))
	sizes := []uint32{60, 300, 700}
	if !race {
		sizes = append(sizes, 1500, 3000)
	}
	copies, passed := 0, 0
	for _, n := range sizes {
		base := words(n, n)
		a := k.Prepare(strings.Join(base, " "))
		for how := range 5 {
			for share := 1; share <= 60; share += 5 {
				b := k.Prepare(derive(r, base, how, share))
				for _, p := range [][2]*Text{{a, b}, {b, a}} {
					exact := k.Sizes(p[0], p[1]).Similarity()
					got, measured, reached := k.Similar(p[0], p[1], NCDThreshold)
					if reached != (exact >= NCDThreshold) || measured && got != exact {
						t.Errorf("%d words, edit %d at %d%%: exact %.3f, prefilter says %t", n, how, share, exact, reached)
					}
					if reached {
						copies++
					}
					if !measured {
						passed++
						if exact > 0.75 {
							t.Logf("%d words, edit %d at %d%%: passed over at %.3f", n, how, share, exact)
						}
					}
				}
			}
		}
	}
	if copies < 20 || passed < 20 {
		t.Errorf("%d copies, %d passed over: the cases say nothing", copies, passed)
	}
}

func TestExclude(t *testing.T) {
	k := NewComparer()
	defer k.Close()
	base := words(9, 400)
	text := strings.Join(base, " ")
	near := strings.Join(mutate(base, 30, 5), " ")
	other := strings.Join(words(77, 400), " ")
	got := k.Exclude([]Entry{
		{Key: "late-copy", Hash: "h2", Block: 30, Text: near},
		{Key: "thief", Hash: "h1", Block: 20, Text: text},
		{Key: "author", Hash: "h1", Block: 10, Text: text},
		{Key: "other", Hash: "h3", Block: 5, Text: other},
		{Key: "copy-of-copy", Hash: "h2", Block: 40, Text: near},
		{Key: "bare", Hash: "h4", Block: 1, Bare: true},
		{Key: "empty", Hash: "h5", Block: 2},
		{Key: "empty too", Hash: "h6", Block: 3, Text: "# "},
	}, NCDThreshold)
	want := map[string]string{"thief": "author", "late-copy": "author", "copy-of-copy": "author", "empty too": "empty"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for k, of := range want {
		if got[k].Of != of || got[k].Similarity < NCDThreshold {
			t.Errorf("%s: %+v, want a copy of %s", k, got[k], of)
		}
	}
	if !got["thief"].Same || got["late-copy"].Same {
		t.Error("who has the same bytes is told wrongly")
	}
}

// The blind spots of the distance, and what sees them.
func TestMeasures(t *testing.T) {
	k := NewComparer()
	defer k.Close()
	base := words(5, 600)
	text := strings.Join(base, " ")
	half := len(base) / 2
	swapped := strings.Join(append(append([]string(nil), base[half:]...), base[:half]...), " ")
	if m := k.Measure(text, swapped, nil, nil); m.Shingles < 0.9 || !m.Strict() {
		t.Errorf("halves swapped: %+v", m)
	}
	if m := k.Measure(text, strings.Join(mutate(base, 150, 3), " "), nil, nil); m.NCD >= NCDThreshold || m.Words < 0.8 || !m.Strict() {
		t.Errorf("words replaced: %+v", m)
	}
	if m := k.Measure("a b c d", "quite another text here", []string{text}, []string{text}); m.Files != 1 || m.Shingles != 0 || !m.Strict() {
		t.Errorf("other files: %+v", m)
	}
	if m := k.Measure(text, strings.Join(words(991, 600), " "), []string{text}, []string{"x"}); m.Strict() {
		t.Errorf("unrelated: %+v", m)
	}
	for how, hidden := range map[string]string{
		"zero width": strings.ReplaceAll(text, "e", "e\u200b"), "homoglyphs": strings.NewReplacer("a", "а", "e", "е", "o", "о").Replace(text), "case": strings.ToUpper(text), "blanks": strings.ReplaceAll(text, " ", "_"),
	} {
		if m := k.Measure(text, hidden, []string{text}, []string{hidden}); m.Words != 1 || m.Shingles != 1 || m.Files != 1 {
			t.Errorf("%s: %+v", how, m)
		}
	}
	if !race {
		long := strings.Join(words(8, 8000), " ")
		if m := k.Measure(long, long, nil, nil); m.NCD > 0.2 || m.Shingles != 1 || m.Words != 1 {
			t.Errorf("longer than the window: %+v", m)
		}
	}
}

func TestCommon(t *testing.T) {
	f := strings.Fields
	for _, c := range []struct {
		a, b string
		want float64
	}{{"a b c d", "a b c d", 1}, {"a b c d", "b d", 4.0 / 6}, {"a b", "c d", 0}, {"", "a", 0}, {strings.Repeat("a b ", 70), strings.Repeat("a b ", 70), 1}} {
		if got := common(f(c.a), f(c.b)); got != c.want {
			t.Errorf("%q %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add("# Title\n\nΣΑΣ \x00 \xff")
	f.Fuzz(func(t *testing.T, s string) {
		s = s[:min(len(s), 2000)]
		n := NormaliseText(s)
		if strings.Contains(n, "#") || strings.Contains(n, "  ") {
			t.Errorf("%q", n)
		}
		if NormaliseText(n) != n && !strings.ContainsRune(s, 'Σ') {
			t.Errorf("%q is not stable", n)
		}
	})
}

func BenchmarkAllPairs256(b *testing.B) {
	entries := make([]Entry, 256)
	for i := range entries {
		entries[i] = Entry{Key: fmt.Sprint(i), Hash: fmt.Sprint(i), Block: uint64(i), Text: strings.Join(words(uint32(i*7919+1), 1900), " ")}
	}
	for b.Loop() {
		k := NewComparer()
		if n := len(k.Exclude(entries, NCDThreshold)); n > 0 {
			b.Fatalf("%d copies", n)
		}
		b.ReportMetric(float64(k.Measured), "measured")
		k.Close()
	}
}

func BenchmarkOneAgainst10000(b *testing.B) {
	k := NewComparer()
	defer k.Close()
	earlier := make([]*Text, 10_000)
	for i := range earlier {
		if i < 500 {
			earlier[i] = k.Prepare(strings.Join(words(uint32(i*7919+1), 1900), " "))
		} else {
			earlier[i] = earlier[i%500]
		}
	}
	late := k.Prepare(strings.Join(words(3, 1900), " "))
	for b.Loop() {
		for _, e := range earlier {
			k.Similar(e, late, NCDThreshold)
		}
	}
}
