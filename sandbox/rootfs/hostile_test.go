package rootfs

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Five hundred images of hostile layers, and of documents with one value
// changed: each is refused by an error of images or opened as a tree without
// devices and set-id files. None changes what lies outside, and nothing stays.
func TestFiveHundredHostile(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	if err := os.MkdirAll(filepath.Join(outside, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"victim", "etc/passwd"} {
		if err := os.WriteFile(filepath.Join(outside, n), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := listing(t, outside)
	cache := filepath.Join(top, "cache")
	s := OpenImages(cache, nil)
	opened, refused := 0, 0
	for seed := range uint64(500) {
		g := &hostileImages{r: rand.New(rand.NewPCG(seed, 20)), t: t, outside: outside}
		ref := g.image(seed%2 == 0)
		img, err := s.Import(t.Context(), ref)
		if err == nil {
			var dir string
			if dir, err = s.Open(t.Context(), img); err == nil {
				opened++
				harmless(t, seed, dir)
			}
		}
		if err != nil {
			if refused++; !errors.Is(err, ErrImage) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("seed %d: not an error of images: %v", seed, err)
			}
			if len(err.Error()) > 2000 {
				t.Errorf("seed %d: an error of %d bytes", seed, len(err.Error()))
			}
		}
		if seed%50 == 49 {
			if _, err := s.Prune(t.Context(), 0); err != nil {
				t.Errorf("seed %d: prune: %v", seed, err)
			}
			if left := inCache(t, cache); len(left) != 0 {
				t.Fatalf("seed %d: left %v", seed, left)
			}
		}
	}
	if after := listing(t, outside); after != before {
		t.Errorf("outside is\n%s\nit was\n%s", after, before)
	}
	if ents, _ := os.ReadDir(top); len(ents) != 2 {
		t.Errorf("beside the cache: %v", ents)
	}
	if opened < 50 || refused < 200 {
		t.Errorf("%d opened, %d refused: the generator makes too much of one sort", opened, refused)
	}
	t.Logf("%d opened harmless, %d refused", opened, refused)
}

// listing is all that a directory holds.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		var b []byte
		if fi.Mode().IsRegular() {
			b, err = os.ReadFile(p)
		}
		fmt.Fprintf(&out, "%s %v %q\n", p, fi.Mode(), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// harmless checks a tree that was made of a hostile image.
func harmless(t *testing.T, seed uint64, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if m := fi.Mode(); m&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("seed %d: %s is %v", seed, p, m)
		}
		return nil
	})
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// hostileImages makes images that try to do harm.
type hostileImages struct {
	r       *rand.Rand
	t       *testing.T
	outside string
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// image writes one: with hostile layers, or sound ones and spoilt documents.
func (g *hostileImages) image(layers bool) string {
	r := g.r
	list := [][]byte{baseLayer(g.t), upperLayer(g.t)}
	if layers {
		list = list[:1]
		for range 1 + r.IntN(3) {
			list = append(list, g.layer())
		}
	}
	m := makeImage(g.t, pick(r, "", "gzip", "zstd"), list...)
	if layers {
		return m.layout(g.t)
	}
	if r.IntN(2) == 0 {
		m.config = g.spoil(m.config).(map[string]any)
	}
	if r.IntN(3) > 0 {
		m.manifest = g.spoil(m.manifest).(map[string]any)
	}
	if r.IntN(3) == 0 { // bytes of a layer
		for d, b := range m.blobs {
			at := r.IntN(len(b))
			m.blobs[d] = append(append([]byte{}, b[:at]...), b[min(len(b), at+1+r.IntN(9)):]...)
			break
		}
	}
	return m.layout(g.t)
}

// layer is an archive of entries that lead out, cover each other and are what no tree may have.
func (g *hostileImages) layer() []byte {
	r := g.r
	names := []string{
		"a", "a/b", "a/b/c", "l", "l/x", "l/victim", "etc", "etc/passwd", "usr/bin/sh", "bin", "bin/sh", "../victim", "a/../../victim", "/victim", "./a", "a//b", "..", "/", "",
		"l/etc/passwd", "dev/null", "proc/self/mem", ".wh.a", "a/.wh.b", ".wh..wh..opq", "a/.wh..wh..opq", ".wh..", ".wh...", "l/.wh.victim", "l/.wh..wh..opq", ".wh.", "a/.wh..wh.", ".wh..wh.aufs",
		strings.Repeat("n", 300), strings.Repeat("d/", 20) + "f", strings.Repeat("d/", 200) + "f", "a\x00b", "\xff\xfe", "tmp", "opt/agon/bin/python3", "etc/agon-rootfs.json", g.outside + "/victim",
	}
	targets := []string{
		g.outside, g.outside + "/victim", "/", "/etc/passwd", "..", "../..", "../../../../../../../../" + g.outside, "a", "l", ".", "", "/proc/self/root", "/proc/self/fd/3", strings.Repeat("../", 100), "bin/sh",
		strings.Repeat("t", 5000),
	}
	var list []file
	for range 1 + r.IntN(10) {
		f := file{name: pick(r, names...), kind: pick(r, byte(tar.TypeReg), tar.TypeReg, tar.TypeSymlink, tar.TypeSymlink, tar.TypeLink, tar.TypeDir, tar.TypeChar, tar.TypeBlock, tar.TypeFifo), mode: pick(r, int64(0o644), 0o755, 0o6755, 0o4777, 0o1777, 0o000001)}
		switch f.kind {
		case tar.TypeSymlink, tar.TypeLink:
			f.body = pick(r, targets...)
		case tar.TypeReg:
			f.body = pick(r, "", "x", "root::0:0::/:/bin/sh\n", strings.Repeat("\x00", 1<<16))
		}
		if strings.ContainsRune(f.name, 0) || f.name == "" || strings.HasSuffix(f.name, "/") && f.kind != tar.TypeDir {
			f.name = "a" // what no writer of archives makes
		}
		list = append(list, f)
	}
	b := archive(g.t, list...)
	if r.IntN(8) == 0 {
		b = b[:r.IntN(len(b))]
	}
	return b
}

// spoil changes one value somewhere in a document.
func (g *hostileImages) spoil(doc any) any {
	r := g.r
	b, err := json.Marshal(doc)
	if err != nil {
		g.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		g.t.Fatal(err)
	}
	var set []func(any)
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			for k, y := range x {
				set = append(set, func(n any) { x[k] = n })
				walk(y)
			}
		case []any:
			for i, y := range x {
				set = append(set, func(n any) { x[i] = n })
				walk(y)
			}
		}
	}
	walk(v)
	// Maps are walked in no order, but which value is changed does not matter: all are, over the seeds.
	set[r.IntN(len(set))](pick[any](r, nil, -1, 0, 1<<40, 1.5, "", "x", strings.Repeat("x", 10_000), "sha256:"+strings.Repeat("0", 64), "sha256:../../victim", "../..", []any{}, []any{nil}, map[string]any{}, true, "sha512:00", "windows"))
	return v
}
