package play

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

func packFiles(p *packfile.Pack) fs.FS {
	return fstest.MapFS{File: &fstest.MapFile{Data: p.Canonical}}
}

// An arena says which packs may be entered.
func TestSchemaIsTheArenas(t *testing.T) {
	k := New(Config{})
	opp, s1 := packfile.Build(packfile.BuildOptions{Policy: "Read first, then answer."}), packfile.BuildS1("Read first, then answer.")
	for _, c := range []struct {
		schema string
		p      *packfile.Pack
		ok     bool
	}{
		{"", opp, true},
		{"", s1, true},
		{packfile.SchemaOPP, s1, false},
		{packfile.SchemaS1, s1, true},
		{packfile.SchemaS1, opp, false},
		{packfile.SchemaAny, opp, true},
		{packfile.SchemaAny, s1, true},
		{packfile.SchemaAny, packfile.BuildS1(" "), false},
	} {
		a := &agon.Arena{}
		if c.schema != "" {
			a.Options = map[string]string{OptionSchema: c.schema}
		}
		list, err := k.Check(t.Context(), a, packFiles(c.p))
		if err != nil {
			t.Fatal(err)
		}
		refused := false
		for _, f := range list {
			refused = refused || !f.Warning
		}
		if refused == c.ok {
			t.Errorf("schema %q, %v: %+v", c.schema, c.p.Files(), list)
		}
	}
	for own, want := range map[string]string{"schema=v9": "any, opp-v1, s1", "scheme=s1": "bootstrap, copies, epochs, payloads, schema", "copies=loose": "ncd, strict", "copies=strict": "", "schema=s1": ""} {
		name, value, _ := strings.Cut(own, "=")
		err := kind.CheckOptions(k, map[string]string{name: value})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", own, err)
		}
	}
}

// A copy whose halves are swapped is not near by compression distance; an
// arena that wants the stricter measures excludes it.
func TestCopiesAreTheArenas(t *testing.T) {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2)) // the same words each time
	for b.Len() < 28_000 {
		for range 2 + r.IntN(8) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		b.WriteByte(' ')
	}
	text := b.String()
	half := len(text) / 2
	first, second := packfile.Build(packfile.BuildOptions{Policy: text}), packfile.Build(packfile.BuildOptions{Policy: text[half:] + " " + text[:half]})
	old := agon.Submission{ID: "first", Digest: agon.Sum(first.Canonical)}
	read := func(agon.Digest) (fs.FS, error) { return packFiles(first), nil }
	for copies, excluded := range map[string]bool{CopiesNCD: false, CopiesStrict: true} {
		k := New(Config{})
		x, err := k.Gate(&agon.Arena{Options: map[string]string{OptionCopies: copies}}, packFiles(second), []agon.Submission{old}, read)
		if err != nil {
			t.Fatal(err)
		}
		if (x != nil) != excluded || x != nil && x.Of != "first" {
			t.Errorf("%s: %+v", copies, x)
		}
	}
}
