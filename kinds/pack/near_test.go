package pack

import (
	"encoding/base64"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// Without a platform, too, copies = "strict" sees what compression distance does not:
// here halves that were swapped.
func TestStrictWithoutPlatform(t *testing.T) {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2)) // the same words each time
	for b.Len() < 26_000 {
		for range 3 + r.IntN(6) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		b.WriteByte(' ')
	}
	text := b.String()
	half := len(text) / 2
	for half < len(text) && text[half] != ' ' {
		half++
	}
	first, second := packfile.Build(packfile.BuildOptions{Policy: text}), packfile.Build(packfile.BuildOptions{Policy: text[half:] + " " + text[:half]})
	e := &evaluator{arena: agon.Arena{Options: map[string]string{kindpack.OptionCopies: kindpack.CopiesStrict}}}
	if why := e.near()(first, second); !strings.HasPrefix(why, "near_copy") {
		t.Errorf("swapped halves: %q", why)
	}
	if why := e.near()(first, packfile.Build(packfile.BuildOptions{Policy: "Read the list first, then answer."})); why != "" {
		t.Errorf("another policy: %q", why)
	}
	if e.arena.Options = nil; e.near() != nil {
		t.Error("an arena that does not want it has it")
	}
}

// hidden are ways in which a policy was seen to hide that it is another's.
var hidden = map[string]func(string) string{
	"zero width":            func(s string) string { return strings.ReplaceAll(s, "e", "e\u200b") },
	"homoglyphs":            strings.NewReplacer("a", "а", "e", "е", "o", "о", "p", "р", "c", "с").Replace,
	"upper case":            strings.ToUpper,
	"full width":            func(s string) string { return strings.Map(func(r rune) rune { return wide(r) }, s) },
	"blanks as underscores": func(s string) string { return strings.ReplaceAll(s, " ", "_") },
	"a blank in each gap":   func(s string) string { return strings.ReplaceAll(s, " ", " \u00a0\u3000") },
	"base64":                func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"shuffled lines": func(s string) string {
		l := strings.Split(s, ". ")
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
		return strings.Join(l, ". ")
	},
}

func wide(r rune) rune {
	if r > ' ' && r < 0x7f {
		return r + 0xfee0
	}
	return r
}

// Where an arena is strict, no way of hiding a copy works, with a platform or without;
// unrelated policies are none.
func TestHiddenCopies(t *testing.T) {
	files, err := kit.SampleFiles(data.FS, "baseline")
	if err != nil {
		t.Fatal(err)
	}
	first, err := packfile.Read(files["pack.json"])
	if err != nil {
		t.Fatal(err)
	}
	policy, _ := first.Policy()
	strict := &agon.Arena{Options: map[string]string{kindpack.OptionCopies: kindpack.CopiesStrict}}
	near := (&evaluator{arena: *strict}).near()
	of := func(p *packfile.Pack) fs.FS {
		return fstest.MapFS{kindpack.File: &fstest.MapFile{Data: p.Canonical}}
	}
	earlier := []agon.Submission{{ID: "first", Digest: agon.Sum(first.Canonical)}}
	read := func(agon.Digest) (fs.FS, error) { return of(first), nil }
	gate := kindpack.New(kindpack.Config{})
	for how, change := range hidden {
		p := packfile.Build(packfile.BuildOptions{Policy: change(policy)})
		if why := near(first, p); why == "" {
			t.Errorf("%s: not seen without a platform", how)
		}
		if x, err := gate.Gate(strict, of(p), earlier, read); err != nil || x == nil {
			t.Errorf("%s: not seen with a platform (%v)", how, err)
		}
		for _, files := range []fs.FS{of(p), fstest.MapFS{kindpack.File: &fstest.MapFile{Data: p.Value.Readable()}}} {
			x := copycat.NewIndex()
			for i, f := range []fs.FS{of(first), files} {
				s, err := copycat.SketchOf(f)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := x.Nearest(s); i == 1 && !ok {
					t.Errorf("%s: not charged as one with what it copies", how)
				}
				x.Add("first", s)
			}
		}
	}
	for i := range 20 {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		words := strings.Fields(policy)
		r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		p := packfile.Build(packfile.BuildOptions{Policy: strings.Join(words, " ")})
		if why := near(first, p); why != "" {
			t.Errorf("the same words in another order: %s", why)
		}
	}
}
