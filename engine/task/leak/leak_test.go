package leak

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func random(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(90) + 33)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scan(t testing.TB, x *Index, b []byte) []Leak {
	t.Helper()
	list, err := x.Reader(t.Context(), "it", bytes.NewReader(b))
	must(t, err)
	return list
}

// Each stretch of 64 hidden bytes is found wherever it begins; 31 are not.
func TestEveryOffset(t *testing.T) {
	hidden := random(1, 1000)
	x := New()
	must(t, x.Add("secret", hidden))
	for at := range 200 {
		hay := bytes.Clone(random(2, 3000))
		copy(hay[500+at:], hidden[at:at+Piece])
		if l := scan(t, x, hay); len(l) != 1 || l[0].Bytes < Piece || l[0].Bytes > Piece+4 || l[0].What != "secret" {
			t.Fatalf("piece at %d: %+v", at, l)
		}
	}
	hay := random(3, 3000)
	copy(hay[77:], hidden[13:13+Piece-1])
	if l := scan(t, x, hay); len(l) != 0 {
		t.Errorf("63 bytes count: %+v", l)
	}
	copy(hay[100:], hidden)
	if l := scan(t, x, hay); len(l) != 1 || l[0].Bytes < 1000 || l[0].Bytes > 1004 {
		t.Errorf("all of it: %+v", l)
	}
	if l := scan(t, x, random(4, 1<<20)); len(l) != 0 {
		t.Errorf("nothing is there: %+v", l)
	}
}

// A stretch over the seam of two chunks is found, and counted once.
func TestSeam(t *testing.T) {
	hidden := random(1, 4096)
	x := New()
	must(t, x.Add("secret", hidden))
	for _, at := range []int{chunk - 2048, chunk - 1, chunk, chunk + overlap - 100} {
		hay := bytes.Repeat([]byte("all work and no play makes the text long. "), (chunk+4*overlap)/42)
		copy(hay[at:], hidden)
		if l := scan(t, x, hay); len(l) != 1 || l[0].Bytes < 4096 || l[0].Bytes > 2*4096 {
			t.Errorf("at %d: %+v", at, l)
		}
	}
}

func TestInsideOfFiles(t *testing.T) {
	hidden := random(1, 500)
	x := New()
	must(t, x.Add("secret", hidden))
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err := w.Write(append(random(5, 70_000), hidden...))
	must(t, err)
	must(t, w.Close())
	var z bytes.Buffer
	zw := zip.NewWriter(&z)
	f, err := zw.Create("a/b.txt.gz")
	must(t, err)
	_, err = f.Write(gz.Bytes())
	must(t, err)
	must(t, zw.Close())
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "x.zip"), z.Bytes(), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "plain"), random(6, 5000), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "y.xz"), random(7, 500), 0o600))
	must(t, os.Symlink("x.zip", filepath.Join(dir, "link")))
	var rep Report
	must(t, x.Dir(t.Context(), "image", dir, &rep))
	if len(rep.Leaks) != 1 || rep.Leaks[0].Where != "image/x.zip!a/b.txt.gz!" || rep.Leaks[0].Bytes != 500 || rep.Files != 3 || len(rep.Unread) != 1 {
		t.Errorf("%+v", rep)
	}
}

// What says nothing is not looked for.
func TestDull(t *testing.T) {
	x := New()
	must(t, x.Add("zeros", make([]byte, 10_000)))
	must(t, x.Add("rule", []byte(strings.Repeat("-", 500)+strings.Repeat(" = ", 300))))
	must(t, x.Add("short", []byte("a secret of few bytes")))
	if !x.Empty() || len(scan(t, x, make([]byte, 20_000))) != 0 {
		t.Error("zeros are found everywhere")
	}
}

func FuzzReader(f *testing.F) {
	x := New()
	if err := x.Add("secret", random(1, 1000)); err != nil {
		f.Fatal(err)
	}
	x.ready()
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Add([]byte("BZh9"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l := scan(t, x, b); len(l) > 0 && len(b) < 20 {
			t.Errorf("%d bytes hold %+v", len(b), l)
		}
	})
}

// 100 MB of hidden data against 250 MB of files.
func BenchmarkScan(b *testing.B) {
	x := New()
	for i := range 10 {
		must(b, x.Add("secret", random(uint64(i), 10<<20)))
	}
	dir := b.TempDir()
	for i := range 25 {
		must(b, os.WriteFile(filepath.Join(dir, string(rune('a'+i))), random(uint64(100+i), 10<<20), 0o600))
	}
	b.SetBytes(250 << 20)
	for b.Loop() {
		var rep Report
		must(b, x.Dir(b.Context(), "image", dir, &rep))
		if len(rep.Leaks) > 0 {
			b.Fatal(rep.Leaks)
		}
	}
}
