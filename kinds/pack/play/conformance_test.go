package play

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

type dirs map[agon.Digest]string

func (d dirs) Tree(_ context.Context, x agon.Digest) (string, error) {
	if p, ok := d[x]; ok {
		return p, nil
	}
	return "", fmt.Errorf("no tree %s", x)
}

// write puts files into a directory and names it.
func (d dirs) write(t *testing.T, name string, files map[string][]byte) agon.Digest {
	t.Helper()
	dir := t.TempDir()
	for p, b := range files {
		at := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	digest := agon.Sum([]byte(name))
	d[digest] = dir
	return digest
}

// The engine's rules hold of this kind too: what fails on our side never
// becomes a score, what an agent does to itself is.
func TestConformance(t *testing.T) {
	set := office(t)
	d := dirs{}
	var refs []agon.TaskRef
	for _, name := range []string{"inbox", "standup"} {
		sc, ok := set.Get(name)
		if !ok {
			t.Fatal(name)
		}
		files, err := Task(set, sc)
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, agon.TaskRef{Key: "office/" + name, Digest: d.write(t, name, files)})
	}
	good := packfile.Build(packfile.BuildOptions{Policy: "# Policy\n\nBe brief. Ask before you send.\n"}).Canonical
	one := func(s string) fs.FS { return fstest.MapFS{File: {Data: []byte(s)}} }
	kindtest.Run(t, kindtest.Case{
		Kind: New(Config{}), Trees: d,
		Arena: agon.Arena{ID: "a", Kind: Name, Tasks: refs, Policy: agon.Policy{
			Models: []string{"*"}, Agent: agon.Limits{WallMS: 5000}, Budget: agon.Budget{Micros: 1_000_000, Calls: 50},
		}},
		Submission: agon.Submission{ID: "s", Arena: "a", Digest: d.write(t, "pack", map[string][]byte{File: good})},
		Good:       one(string(good)),
		Bad: []fs.FS{
			fstest.MapFS{},
			one("{"), one("[]"), one("\ufeff{}"), one("{}"), one(strings.Repeat("[", 100_000)), one("\x00"), one("\xff"),
			one(strings.Replace(string(good), "Be brief", strings.Repeat("x", 32_769), 1)),
			one(strings.Replace(string(good), `"allow": [`, `"allow": [[], {}, null, `, 1)),
			fstest.MapFS{File: {Data: good}, "more": {Data: []byte("x")}},
			fstest.MapFS{File + "/x": {Data: good}},
		},
		Behave: func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				b.SetFile(resultFile, []byte(`{"outcome":"ok","response":"done","turns":1,"calls":0}`))
			}
			return sandbox.Exit{}
		},
	})
}
