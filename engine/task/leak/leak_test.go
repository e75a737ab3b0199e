package leak

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
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
	must(t, os.WriteFile(filepath.Join(dir, "y.xz"), random(7, 500), 0o600)) // by name only
	must(t, os.Symlink("x.zip", filepath.Join(dir, "link")))
	var rep Report
	must(t, x.Dir(t.Context(), "image", dir, &rep))
	if len(rep.Leaks) != 1 || rep.Leaks[0].Where != "image/x.zip!a/b.txt.gz!" || rep.Leaks[0].Bytes != 500 || rep.Files != 3 || len(rep.Unread) != 0 {
		t.Errorf("%+v", rep)
	}
}

// compressed is text in each form that a tool of the system writes.
func compressed(t testing.TB, text []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for name, args := range map[string][]string{
		"xz": {"xz", "-c"}, "xz with a filter": {"xz", "-c", "--x86", "--lzma2=preset=6"}, "xz, checks of none": {"xz", "-c", "--check=none"},
		"xz of blocks": {"xz", "-c", "--block-size=20000", "-T1"}, "bz2": {"bzip2", "-c"}, "gz": {"gzip", "-c"},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("%s is not here", args[0])
			continue
		}
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Stdin = bytes.NewReader(text)
		b, err := cmd.Output()
		must(t, err)
		out[name] = b
	}
	zw, err := zstd.NewWriter(nil)
	must(t, err)
	out["zst"] = zw.EncodeAll(text, nil)
	out["zst behind a frame to skip"] = append([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}, out["zst"]...)
	for name, opts := range map[string][]lz4.Option{"lz4": nil, "lz4, older form": {lz4.LegacyOption(true)}} {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		must(t, w.Apply(opts...))
		_, err := w.Write(text)
		must(t, err)
		must(t, w.Close())
		out[name] = b.Bytes()
	}
	return out
}

// deb is a Debian package whose data is b.
func deb(b []byte) []byte {
	out := []byte("!<arch>\n")
	for name, b := range map[string][]byte{"debian-binary": []byte("2.0\n"), "control.tar.xz": []byte("odd"), "data.tar.xz": b} {
		out = fmt.Appendf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, 0, 0, 0, "100644", len(b))
		if out = append(out, b...); len(b)%2 == 1 {
			out = append(out, '\n')
		}
	}
	return out
}

func TestForms(t *testing.T) {
	hidden := random(1, 500)
	x := New()
	must(t, x.Add("secret", hidden))
	for name, b := range compressed(t, slices.Concat(random(5, 70_000), hidden, random(6, 70_000))) {
		at := func(where string) func(Leak) bool {
			return func(l Leak) bool { return l == Leak{where, "secret", 500} }
		}
		if l := scan(t, x, b); !slices.ContainsFunc(l, at("it!")) { // zst and lz4 keep random text as it is, where it is found too
			t.Errorf("%s: %+v", name, l)
		}
		if l := scan(t, x, deb(b)); !slices.ContainsFunc(l, at("it!data.tar.xz!")) {
			t.Errorf("%s in a package: %+v", name, l)
		}
		if name == "lz4, older form" {
			continue // one block, which is whole or nothing
		}
		// Who hides data may break the file's end: what is before it opens still.
		cut, err := x.Reader(t.Context(), "it", bytes.NewReader(b[:len(b)-3]))
		must(t, err)
		if !slices.ContainsFunc(cut, at("it!")) {
			t.Errorf("%s, cut: %+v", name, cut)
		}
	}
}

// What would take too much memory is said to be unread.
func TestUnread(t *testing.T) {
	x := New()
	must(t, x.Add("secret", random(1, 500)))
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("xz is not here")
	}
	cmd := exec.CommandContext(t.Context(), "xz", "-c", "--lzma2=preset=1,dict=512MiB")
	cmd.Stdin = strings.NewReader("small")
	b, err := cmd.Output()
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "big"), b, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "packed.deb"), deb(b), 0o600))
	var rep Report
	must(t, x.Dir(t.Context(), "mirror", dir, &rep))
	if !slices.Equal(rep.Unread, []string{"mirror/big", "mirror/packed.deb"}) || rep.Files != 2 {
		t.Errorf("%+v", rep)
	}
}

// Hidden bytes that are shown anyhow do not count, those beside them do.
func TestForget(t *testing.T) {
	hidden := random(1, 4000)
	x := New()
	must(t, x.Add("secret", hidden))
	x.Forget(slices.Concat([]byte("shown: "), hidden[1000:2000]))
	if l := scan(t, x, slices.Concat(random(2, 100), hidden[1100:1900], random(3, 100))); len(l) != 0 {
		t.Errorf("what is shown: %+v", l)
	}
	if l := scan(t, x, slices.Concat(random(2, 100), hidden[2100:2300], random(3, 100))); len(l) != 1 || l[0].Bytes != 200 {
		t.Errorf("what is not: %+v", l)
	}
	form := [][][]byte{{random(8, 300), hidden[3000:3500]}, {hidden[3000:3500], hidden[3000:3500]}, {hidden[2500:2900]}}
	x.ForgetCommon(3, form)
	if l := scan(t, x, hidden[3000:3500]); len(l) != 1 {
		t.Errorf("in two of three: %+v", l)
	}
	x.ForgetCommon(2, form)
	if l := scan(t, x, slices.Concat(random(2, 100), hidden[3050:3450])); len(l) != 0 {
		t.Errorf("what two of three have: %+v", l)
	}
	if l := scan(t, x, hidden[2500:2900]); len(l) != 1 {
		t.Errorf("what one has: %+v", l)
	}
	x.Forget(hidden)
	if !x.Empty() {
		t.Errorf("%d blocks are left", x.blocks)
	}
	x.Forget(nil)
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
	for _, b := range compressed(f, random(1, 300)) {
		f.Add(b)
		f.Add(deb(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := x.Reader(t.Context(), "it", bytes.NewReader(b))
		if err == nil && len(l) > 0 && len(b) < 20 {
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
