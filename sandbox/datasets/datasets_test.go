package datasets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// put writes a file of n bytes that no other seed has.
func put(t testing.TB, at string, seed byte, n int) {
	t.Helper()
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // it never fails
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func sample(t testing.TB) string {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "train/a.bin"), 1, 3*ChunkBytes+17)
	put(t, filepath.Join(dir, "train/b c#?.bin"), 2, ChunkBytes)
	put(t, filepath.Join(dir, "empty"), 3, 0)
	put(t, filepath.Join(dir, "run.sh"), 4, 10)
	if err := errors.Join(os.Chmod(filepath.Join(dir, "run.sh"), 0o755), os.Symlink("../run.sh", filepath.Join(dir, "train/link"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func add(t testing.TB, s *Store, at string) *Dataset {
	t.Helper()
	d, err := s.Add(t.Context(), at, "CC0-1.0")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// same compares two trees.
func same(t *testing.T, a, b string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(a, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		rel, _ := filepath.Rel(a, p)
		q := filepath.Join(b, rel)
		if d.Type()&fs.ModeSymlink != 0 {
			x, _ := os.Readlink(p)
			if y, err := os.Readlink(q); err != nil || x != y {
				t.Errorf("%s: link to %q, want %q, %v", rel, y, x, err)
			}
			return nil
		}
		x, _ := os.ReadFile(p)
		y, err := os.ReadFile(q)
		if err != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs: %v", rel, err)
		}
		fx, _ := os.Stat(p)
		if fy, err := os.Stat(q); err == nil && (fx.Mode()&0o111 != 0) != (fy.Mode()&0o111 != 0) {
			t.Errorf("%s: mode %v, want %v", rel, fy.Mode(), fx.Mode())
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d files of %s: %v", n, a, err)
	}
}

func TestAddAndFetch(t *testing.T) {
	src := sample(t)
	one := Open(t.TempDir(), nil)
	d := add(t, one, src)
	if d.Files != 5 || d.Bytes != 4*ChunkBytes+27 || d.Copied != d.Bytes || d.Licence != "CC0-1.0" {
		t.Fatalf("added %+v", d)
	}
	if again := add(t, one, src); again.Digest != d.Digest || again.Copied != 0 {
		t.Fatalf("the second time %+v", again)
	}
	tree, release, err := one.Ensure(t.Context(), Ref{Digest: d.Digest})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	same(t, src, tree)
	pub := filepath.Join(t.TempDir(), "pub")
	if err := one.Export(t.Context(), d, pub); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.FileServer(http.Dir(pub)))
	defer web.Close()
	for _, where := range []string{"dir:" + pub, web.URL, web.URL + "/"} {
		r, err := Parse("corpus=" + where + "@" + d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		two := Open(t.TempDir(), nil)
		if two.Ready(r.String()) {
			t.Error("it is ready before it is fetched")
		}
		tree, release, err := two.Ensure(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		same(t, src, tree)
		release()
		if !two.Ready(Prefix + r.String()) {
			t.Error("it is not ready after it was fetched")
		}
		for _, name := range []string{d.Digest, d.Digest[:20], r.String()} {
			if got, err := two.Get(name); err != nil || got.Digest != d.Digest {
				t.Errorf("Get(%s) = %v, %v", name, got, err)
			}
		}
	}
	if _, _, err := Open(t.TempDir(), nil).Ensure(t.Context(), Ref{Digest: d.Digest}); !errors.Is(err, ErrNoDataset) {
		t.Errorf("a data set from nowhere: %v", err)
	}
}

// broken serves a published data set wrongly.
type broken struct {
	fs    http.Handler
	wrong func(w http.ResponseWriter, r *http.Request, serve http.Handler) bool
	asked atomic.Int64
}

func (b *broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/files/") {
		b.asked.Add(1)
		if b.wrong != nil && b.wrong(w, r, b.fs) {
			return
		}
	}
	b.fs.ServeHTTP(w, r)
}

func published(t testing.TB) (pub string, d *Dataset, src string) {
	src = sample(t)
	s := Open(t.TempDir(), nil)
	d = add(t, s, src)
	pub = filepath.Join(t.TempDir(), "pub")
	if err := s.Export(t.Context(), d, pub); err != nil {
		t.Fatal(err)
	}
	return pub, d, src
}

// A fetch that breaks off goes on where it was, in the same call and in the next.
func TestResume(t *testing.T) {
	pub, d, src := published(t)
	big, err := os.ReadFile(filepath.Join(src, "train/a.bin"))
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	dead := true
	b := &broken{fs: http.FileServer(http.Dir(pub))}
	b.wrong = func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !strings.HasSuffix(r.URL.Path, "a.bin") {
			return false
		}
		from := int64(0)
		if h := r.Header.Get("Range"); h != "" {
			if _, err := fmt.Sscanf(h, "bytes=%d-", &from); err != nil {
				t.Errorf("range %q", h)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(big)-1, len(big)))
		}
		if dead && from >= 2*ChunkBytes {
			w.Header().Del("Content-Range")
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		w.Header().Set("Content-Length", fmt.Sprint(int64(len(big))-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		n, _ := w.Write(big[from:min(int64(len(big)), from+ChunkBytes+5)]) // a chunk and a little of the next
		sent.Add(int64(n))
		if from+int64(n) == int64(len(big)) {
			return true
		}
		panic(http.ErrAbortHandler)
	}
	web := httptest.NewServer(b)
	defer web.Close()
	s, r := Open(t.TempDir(), nil), Ref{Where: web.URL, Digest: d.Digest}
	if _, err := s.Fetch(t.Context(), r); err == nil || errors.Is(err, ErrDataset) {
		t.Fatalf("a server that fails: %v", err)
	}
	if s.Ready(r.String()) {
		t.Fatal("half a data set counts as one")
	}
	dead = false
	before := sent.Load()
	got, err := s.Fetch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Copied >= d.Bytes-ChunkBytes {
		t.Errorf("%d of %d bytes were copied again", got.Copied, d.Bytes)
	}
	if n := sent.Load() - before; n > 2*ChunkBytes {
		t.Errorf("%d bytes were sent again", n)
	}
	tree, release, err := s.Ensure(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	same(t, src, tree)
}

func TestBadServers(t *testing.T) {
	pub, d, _ := published(t)
	body := func(change func([]byte) []byte) func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		return func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			b, err := os.ReadFile(filepath.Join(pub, filepath.FromSlash(r.URL.Path)))
			if err != nil {
				return false
			}
			w.Header().Set("Transfer-Encoding", "chunked")
			_, _ = w.Write(change(b))
			return true
		}
	}
	for name, c := range map[string]struct {
		wrong func(http.ResponseWriter, *http.Request, http.Handler) bool
		want  string
		bad   bool // the data set's fault, not the server's
	}{
		"cut": {body(func(b []byte) []byte { return b[:len(b)/2] }), "broke off", false},
		"wrong by a byte": {body(func(b []byte) []byte {
			if len(b) > 5 {
				b[5] ^= 1
			}
			return b
		}), "are not those that the manifest names", true},
		"growing": {body(func(b []byte) []byte { return append(b, 'x') }), "goes on behind", true},
		"another size": {func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			w.Header().Set("Content-Length", "3")
			_, _ = io.WriteString(w, "abc")
			return true
		}, "the manifest says", true},
		"gone": {func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			http.NotFound(w, r)
			return true
		}, "answers 404", false},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(&broken{fs: http.FileServer(http.Dir(pub)), wrong: c.wrong})
			defer web.Close()
			s := Open(t.TempDir(), nil)
			_, err := s.Fetch(t.Context(), Ref{Where: web.URL, Digest: d.Digest})
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrDataset) != c.bad {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if list, err := s.List(); err != nil || len(list) > 0 {
				t.Errorf("%d data sets are there: %v", len(list), err)
			}
			if _, err := s.Prune(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if left, _ := filepath.Glob(filepath.Join(s.dir, "*", "*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A server does not lead to others in this network.
func TestInward(t *testing.T) {
	pub, d, _ := published(t)
	inner := httptest.NewServer(http.FileServer(http.Dir(pub)))
	defer inner.Close()
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(inner.URL, "127.0.0.1", "localhost", 1)+r.URL.Path, http.StatusFound)
	}))
	defer outer.Close()
	if _, err := Open(t.TempDir(), nil).Fetch(t.Context(), Ref{Where: outer.URL, Digest: d.Digest}); err == nil || !strings.Contains(err.Error(), "is not a public address") {
		t.Fatal(err)
	}
}

// A range that starts elsewhere is refused.
func TestRanges(t *testing.T) {
	pub, d, src := published(t)
	for name, answer := range map[string]string{"elsewhere": "bytes 1-9/%d", "another size": "bytes 8388608-9/1%d"} {
		b := &broken{fs: http.FileServer(http.Dir(pub))}
		cut := true
		b.wrong = func(w http.ResponseWriter, r *http.Request, serve http.Handler) bool {
			if !strings.HasSuffix(r.URL.Path, "a.bin") {
				return false
			}
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", fmt.Sprintf(answer, 3*ChunkBytes+17))
				w.WriteHeader(http.StatusPartialContent)
				return true
			}
			if !cut {
				return false
			}
			cut = false
			x, _ := os.ReadFile(filepath.Join(src, "train/a.bin"))
			_, _ = w.Write(x[:ChunkBytes+1])
			panic(http.ErrAbortHandler)
		}
		web := httptest.NewServer(b)
		_, err := Open(t.TempDir(), nil).Fetch(t.Context(), Ref{Where: web.URL, Digest: d.Digest})
		web.Close()
		if !errors.Is(err, ErrDataset) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One that knows no ranges is read from the start.
	b := &broken{fs: http.FileServer(http.Dir(pub))}
	cut := true
	b.wrong = func(w http.ResponseWriter, r *http.Request, serve http.Handler) bool {
		if !strings.HasSuffix(r.URL.Path, "a.bin") {
			return false
		}
		x, _ := os.ReadFile(filepath.Join(src, "train/a.bin"))
		if cut {
			cut = false
			_, _ = w.Write(x[:ChunkBytes+1])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(x)
		return true
	}
	web := httptest.NewServer(b)
	defer web.Close()
	if _, err := Open(t.TempDir(), nil).Fetch(t.Context(), Ref{Where: web.URL, Digest: d.Digest}); err != nil {
		t.Error(err)
	}
}

func TestManifests(t *testing.T) {
	sum := hexOf([]byte("x"))
	ok := func() *Manifest {
		return &Manifest{Version: 1, Chunk: ChunkBytes, Files: []File{{Path: "a", Size: 1, Chunks: []string{sum}}, {Path: "d/b", Size: 1, Chunks: []string{sum}}}}
	}
	if err := ok().check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m *Manifest){
		"no file":              func(m *Manifest) { m.Files = nil },
		"another version":      func(m *Manifest) { m.Version = 2 },
		"other chunks":         func(m *Manifest) { m.Chunk = 1 },
		"up":                   func(m *Manifest) { m.Files[0].Path = "../a" },
		"absolute":             func(m *Manifest) { m.Files[0].Path = "/a" },
		"dots":                 func(m *Manifest) { m.Files[0].Path = "a/../a" },
		"empty path":           func(m *Manifest) { m.Files[0].Path = "" },
		"a line":               func(m *Manifest) { m.Files[0].Path = "a\nb" },
		"not text":             func(m *Manifest) { m.Files[0].Path = "a\xff" },
		"deep":                 func(m *Manifest) { m.Files[1].Path = strings.Repeat("d/", 64) + "x" },
		"long":                 func(m *Manifest) { m.Files[1].Path = strings.Repeat("d", 1025) },
		"twice":                func(m *Manifest) { m.Files[1].Path = "a" },
		"not sorted":           func(m *Manifest) { m.Files[0].Path = "z" },
		"file and directory":   func(m *Manifest) { m.Files[0].Path = "d" },
		"less than nothing":    func(m *Manifest) { m.Files[0].Size = -1 },
		"too large":            func(m *Manifest) { m.Files[0].Size = MaxBytes + 1 },
		"overflow":             func(m *Manifest) { m.Files[0].Size = 1<<63 - 1 },
		"more chunks":          func(m *Manifest) { m.Files[0].Chunks = append(m.Files[0].Chunks, sum) },
		"fewer chunks":         func(m *Manifest) { m.Files[0].Chunks = nil },
		"no digest":            func(m *Manifest) { m.Files[0].Chunks[0] = "../../../etc/passwd" },
		"link out":             func(m *Manifest) { m.Files[1] = File{Path: "d/b", Link: "../../x"} },
		"absolute link":        func(m *Manifest) { m.Files[1] = File{Path: "d/b", Link: "/etc/passwd"} },
		"link down and up":     func(m *Manifest) { m.Files[1] = File{Path: "d/b", Link: "c/../../x"} },
		"link to itself's top": func(m *Manifest) { m.Files[1] = File{Path: "d/b", Link: ".."} },
		"link and file":        func(m *Manifest) { m.Files[0].Link = "b" },
		"below a link":         func(m *Manifest) { m.Files[0] = File{Path: "d", Link: "a"} },
		"licence":              func(m *Manifest) { m.Licence = "a\nb" },
	} {
		m := ok()
		change(m)
		b := m.canonical()
		if _, err := parseManifest(b, hexOf(b)); !errors.Is(err, ErrDataset) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := ok().canonical()
	spaced := append([]byte(" "), b...)
	var loose map[string]any
	if err := json.Unmarshal(b, &loose); err != nil {
		t.Fatal(err)
	}
	loose["more"] = 1
	more, _ := json.Marshal(loose)
	for name, x := range map[string][]byte{"spaced": spaced, "more fields": more, "cut": b[:len(b)-5], "two": append(bytes.Clone(b), b...), "nothing": nil} {
		if _, err := parseManifest(x, hexOf(x)); !errors.Is(err, ErrDataset) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseManifest(b, hexOf([]byte("other"))); !errors.Is(err, ErrDataset) {
		t.Errorf("another digest: %v", err)
	}
}

func TestBadDirectories(t *testing.T) {
	for name, make := range map[string]func(dir string) error{
		"empty":         func(string) error { return nil },
		"link out":      func(d string) error { return os.Symlink("../../etc/passwd", filepath.Join(d, "x")) },
		"absolute link": func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "x")) },
		"FIFO":          func(d string) error { return syscall.Mkfifo(filepath.Join(d, "x"), 0o600) },
	} {
		dir := t.TempDir()
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		s := Open(t.TempDir(), nil)
		if _, err := s.Add(t.Context(), dir, ""); !errors.Is(err, ErrDataset) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.TempDir(), nil).Add(t.Context(), filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, ErrDataset) {
		t.Errorf("nothing there: %v", err)
	}
}

// growing is a directory that changes between being summed and being copied.
type growing struct{ dirSource }

func (g growing) open(ctx context.Context, f File, from int64) (io.ReadCloser, error) {
	x, err := g.root.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	_, err = x.Write([]byte("more"))
	if err = errors.Join(err, x.Close()); err != nil {
		return nil, err
	}
	return g.dirSource.open(ctx, f, from)
}

func TestGrowing(t *testing.T) {
	m, root, err := manifestOf(t.Context(), sample(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := Open(t.TempDir(), nil)
	if _, err := s.bring(t.Context(), m, growing{dirSource{root, ""}}, "x"); !errors.Is(err, ErrDataset) || !strings.Contains(err.Error(), "it changed while it was read") {
		t.Fatal(err)
	}
	if list, err := s.List(); err != nil || len(list) > 0 {
		t.Errorf("%d data sets, %v", len(list), err)
	}
}

func TestPrune(t *testing.T) {
	s := Open(t.TempDir(), nil)
	var sets []*Dataset
	for i := range 3 {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "own"), byte(10+i), 1<<20)
		put(t, filepath.Join(dir, "shared"), 99, 1<<20)
		sets = append(sets, add(t, s, dir))
		at := time.Unix(int64(1_000_000+i), 0)
		if err := os.Chtimes(filepath.Join(s.dir, "trees", ".used-"+strings.TrimPrefix(sets[i].Digest, "sha256:")), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := os.ReadDir(filepath.Join(s.dir, "files")); len(files) != 4 {
		t.Errorf("%d stored files, want 4: the shared one once", len(files))
	}
	other := Open(s.dir, nil) // another process
	tree, release, err := other.Ensure(t.Context(), Ref{Digest: sets[0].Digest})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_000_000, 0)
	if err := os.Chtimes(filepath.Join(s.dir, "trees", ".used-"+filepath.Base(tree)), at, at); err != nil {
		t.Fatal(err)
	}
	gone, err := s.Prune(t.Context(), 3<<20)
	if err != nil || !slices.Equal(gone.Datasets, []string{sets[1].Digest}) || gone.Bytes < 1<<20 {
		t.Fatalf("pruned %+v, %v: want the second, the first is held", gone, err)
	}
	if gone, err = s.Prune(t.Context(), 0, sets[2].Digest); err != nil || len(gone.Datasets) > 0 {
		t.Fatalf("pruned %+v, %v: want none", gone, err)
	}
	release()
	if gone, err = s.Prune(t.Context(), 0); err != nil || len(gone.Datasets) != 2 {
		t.Fatalf("pruned %+v, %v: want both", gone, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestCheck(t *testing.T) {
	s := Open(t.TempDir(), nil)
	src := sample(t)
	d := add(t, s, src)
	if wrong, err := s.Check(t.Context(), d); err != nil || len(wrong) > 0 {
		t.Fatalf("wrong: %v, %v", wrong, err)
	}
	at := filepath.Join(s.tree(strings.TrimPrefix(d.Digest, "sha256:")), "train/a.bin")
	if err := os.Chmod(at, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(at, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{1, 2, 3}, 2*ChunkBytes)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if wrong, err := s.Check(t.Context(), d); err != nil || !slices.Equal(wrong, []string{"train/a.bin"}) {
		t.Fatalf("wrong: %v, %v", wrong, err)
	}
	if again := add(t, s, src); again.Copied == 0 {
		t.Error("what was wrong was not copied anew")
	}
	if wrong, err := s.Check(t.Context(), d); err != nil || len(wrong) > 0 {
		t.Fatalf("wrong after it came again: %v, %v", wrong, err)
	}
}

// A data set of 10 GB is shown a second time at once.
func TestLarge(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("the end"), 10_000_000_000-7)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s := Open(t.TempDir(), nil)
	d := add(t, s, dir)
	if d.Bytes != 10_000_000_000 {
		t.Fatalf("%d bytes", d.Bytes)
	}
	if n := onDisk(filepath.Join(s.tree(strings.TrimPrefix(d.Digest, "sha256:")), "big")); n > 4*ChunkBytes {
		t.Errorf("its holes take %d bytes of the disk", n)
	}
	best := time.Hour
	for range 5 {
		start := time.Now()
		_, release, err := s.Ensure(t.Context(), Ref{Digest: d.Digest})
		if err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
		release()
	}
	if best > 50*time.Millisecond {
		t.Errorf("shown again in %v, want 50 ms", best)
	}
}
