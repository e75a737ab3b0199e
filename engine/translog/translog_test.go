package translog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
)

// rows is a Source.
type rows []Leaf

func (r *rows) Leaves(_ context.Context, from int64, limit int, _ func(int64) string) ([]Leaf, error) {
	if from >= int64(len(*r)) {
		return nil, nil
	}
	return append([]Leaf(nil), (*r)[from:min(int64(len(*r)), from+int64(limit))]...), nil
}

func (r *rows) LeafCount(context.Context) (int64, error) { return int64(len(*r)), nil }

func (r *rows) add(t testing.TB, n int) {
	t.Helper()
	for range n {
		salt := fmt.Sprintf("%032x", len(*r)*len(*r)+int(rand.Int32()))
		l, err := NewLeaf(Leaf{Index: int64(len(*r)), Type: TypeDecision, ID: fmt.Sprintf("id%d", len(*r)), Salt: salt}, "arena", time.Unix(int64(len(*r)), 0), map[string]int{"n": len(*r)}, "secret")
		if err != nil {
			t.Fatal(err)
		}
		*r = append(*r, l)
	}
}

func testKey(t testing.TB, dir string) *Key {
	t.Helper()
	k, err := LoadKey(filepath.Join(dir, "log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func open(t testing.TB, dir string, src *rows) *Log {
	t.Helper()
	l, err := Open(t.Context(), Config{Storage: Dir(filepath.Join(dir, "log")), Source: src, Key: testKey(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What is published is what golang.org/x/mod computes of the same entries, at
// every size that tiles make special, over restarts.
func TestLogIsTheTree(t *testing.T) {
	dir, src := t.TempDir(), &rows{}
	var last Checkpoint
	for _, n := range []int{1, 2, 254, 255, 256, 257, 511, 512, 513, 1300} {
		src.add(t, n-len(*src))
		l := open(t, dir, src)
		c, err := l.Publish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var hashes []tlog.Hash
		for _, x := range *src {
			hashes = append(hashes, tlog.RecordHash(x.Entry))
		}
		m, err := treeOf(hashes)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tlog.TreeHash(int64(n), m)
		if err != nil || c.N != int64(n) || c.Hash != want {
			t.Fatalf("%d leaves: %d, %v, want %v (%v)", n, c.N, c.Hash, want, err)
		}
		got, err := OpenCheckpoint(c.Text, l.Key())
		if err != nil || got.Tree != c.Tree {
			t.Fatal(got, err)
		}
		for i := range int64(n) {
			p, err := l.Inclusion(i, c)
			if err != nil {
				t.Fatal(err)
			}
			e, err := l.Entry(i)
			if err != nil || !bytes.Equal(e, (*src)[i].Entry) {
				t.Fatalf("entry %d: %s, %v", i, e, err)
			}
			proof := client.LogProof{Index: i, Entry: e, Hashes: HashTexts(p), Checkpoint: c.Text}
			x, _, err := CheckProof(&proof, l.Key())
			if err != nil {
				t.Fatal(err)
			}
			if err := x.Opens((*src)[i].Salt, "secret"); err != nil {
				t.Fatal(err)
			}
			if err := x.Opens((*src)[i].Salt, "Secret"); err == nil {
				t.Fatal("another text opens the commitment")
			}
			if i > 0 {
				proof.Index--
				if _, _, err := CheckProof(&proof, l.Key()); err == nil {
					t.Fatal("a proof holds for another place")
				}
			}
		}
		if err := Advance(last, c, l.Consistency); err != nil {
			t.Fatal(err)
		}
		last = c
		var wrong []string
		if err := l.Audit(t.Context(), func(s string) { wrong = append(wrong, s) }); err != nil || wrong != nil {
			t.Fatal(wrong, err)
		}
	}
}

// A note of ours is one that golang.org/x/mod/sumdb/note opens.
func TestNotes(t *testing.T) {
	k := testKey(t, t.TempDir())
	c, err := k.Sign(Checkpoint{Tree: tlog.Tree{N: 3}, Commits: 9, CommitHash: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(c.Text), note.VerifierList(v))
	if err != nil || !strings.HasPrefix(n.Text, "agon.test/log\n3\n") || !strings.HasSuffix(n.Text, "\ncommits 9 ab\n") {
		t.Fatalf("%+v %v", n, err)
	}
	w := testKey(t, t.TempDir())
	w.Origin = "witness.test"
	at := time.Unix(1_700_000_000, 0).UTC()
	both, err := w.Cosign(c, at)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenCheckpoint(both, k.Public(), w.WitnessKey())
	if err != nil || !got.Witnesses["witness.test"].Equal(at) || got.Commits != 9 {
		t.Fatal(got, err)
	}
	for name, text := range map[string]string{
		"size":        strings.Replace(both, "\n3\n", "\n4\n", 1),
		"commits":     strings.Replace(both, "commits 9", "commits 8", 1),
		"unsigned":    strings.SplitAfter(both, "\n\n")[0],
		"only theirs": strings.Replace(both, "\n— agon.test", "\n— agon.tesT", 1),
	} {
		if _, err := OpenCheckpoint(text, k.Public(), w.WitnessKey()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	other := testKey(t, t.TempDir())
	if _, err := OpenCheckpoint(both, other.Public()); err == nil {
		t.Error("another log's head was taken")
	}
}

// What was changed below the log is named.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string, src *rows)
		open string // what Open says; empty: it opens
		find string // what Audit says
	}{
		"lost rows":      {func(_ *testing.T, _ string, src *rows) { *src = (*src)[:597] }, "lacks 3 facts that the log has published: decision id597, decision id598, decision id599", ""},
		"rewritten row":  {func(_ *testing.T, _ string, src *rows) { (*src)[10].Entry = []byte(`{"type":"x","id":"y"}`) }, "", "fact 10: the store says"},
		"flipped entry":  {func(t *testing.T, dir string, _ *rows) { flip(t, dir, "tile/entries/001", 500) }, "", "do not give the root"},
		"flipped tile":   {func(t *testing.T, dir string, _ *rows) { flip(t, dir, "tile/0/001", 500) }, "", "tile/0/001 does not hold"},
		"flipped edge":   {func(t *testing.T, dir string, _ *rows) { flip(t, dir, "tile/0/002.p/88", 5) }, "", ""}, // made again from the store
		"missing bundle": {func(t *testing.T, dir string, _ *rows) { drop(t, dir, "tile/entries/000") }, "", "tile/entries/000"},
		"flipped head":   {func(t *testing.T, dir string, _ *rows) { flip(t, dir, "checkpoint", 20) }, "newest head", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, src := t.TempDir(), &rows{}
			src.add(t, 600)
			if _, err := open(t, dir, src).Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.harm(t, filepath.Join(dir, "log"), src)
			l, err := Open(t.Context(), Config{Storage: Dir(filepath.Join(dir, "log")), Source: src, Key: testKey(t, dir)})
			if c.open != "" {
				if err == nil || !strings.Contains(err.Error(), c.open) {
					t.Fatalf("%v, want %q", err, c.open)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var all string
			if err := l.Audit(t.Context(), func(s string) { all += s + "\n" }); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(all, c.find) || (c.find == "") != (all == "") {
				t.Errorf("audit says %q, want %q", all, c.find)
			}
		})
	}
}

// breaks fails from its nth change on.
type breaks struct {
	Dir
	after int
}

func (b *breaks) change() error {
	if b.after--; b.after < 0 {
		return errors.New("the disk is away")
	}
	return nil
}

func (b *breaks) Write(name string, data []byte, durable bool) error {
	if err := b.change(); err != nil {
		return err
	}
	return b.Dir.Write(name, data, durable)
}

func (b *breaks) Drop(name string) error {
	if err := b.change(); err != nil {
		return err
	}
	return b.Dir.Drop(name)
}

// A publication that ends after any of its steps does no harm: partial tiles are gone before
// the head that names the full ones. The log goes on at once, with what another process has
// published meanwhile too, and after a start.
func TestBrokenPublication(t *testing.T) {
	for after := 0; ; after++ {
		dir, src := t.TempDir(), &rows{}
		src.add(t, 600)
		before := open(t, dir, src)
		if _, err := before.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		src.add(t, 500)
		l, err := Open(t.Context(), Config{Storage: &breaks{Dir(filepath.Join(dir, "log")), after}, Source: src, Key: testKey(t, dir)})
		if err != nil {
			t.Fatal(err)
		}
		_, broke := l.Publish(t.Context())
		sound := func(l *Log) {
			if _, err := l.Entry(599); err != nil {
				t.Errorf("after %d changes: %v", after, err)
			}
			if err := l.Audit(t.Context(), func(what string) { t.Errorf("after %d changes: %s", after, what) }); err != nil {
				t.Error(err)
			}
		}
		sound(before)
		sound(open(t, dir, src))
		src.add(t, 1)
		for _, l := range []*Log{before, open(t, dir, src)} { // of the first its head is an old one
			if c, err := l.Publish(t.Context()); err != nil || c.N != 1101 {
				t.Fatalf("after %d changes: %d entries, %v", after, c.N, err)
			}
			sound(l)
		}
		if broke == nil {
			if after < 8 {
				t.Errorf("a publication makes %d changes", after)
			}
			return
		}
	}
}

func flip(t *testing.T, dir, name string, at int) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func drop(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
		t.Fatal(err)
	}
}

// A log that says two things is caught with its own signatures.
func TestEquivocation(t *testing.T) {
	dir, src := t.TempDir(), &rows{}
	src.add(t, 300)
	a := open(t, dir, src)
	first, err := a.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fork := t.TempDir()
	b, err := os.ReadFile(filepath.Join(dir, "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fork, "log.key"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	src2 := &rows{}
	src2.add(t, 300)
	forked := open(t, fork, src2)
	second, err := forked.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var eq *EquivocationError
	if err := Advance(first, second, forked.Consistency); !errors.As(err, &eq) || eq.Old != first.Text || eq.New != second.Text {
		t.Fatal(err)
	}
	src2.add(t, 400)
	third, err := forked.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := Advance(first, third, forked.Consistency); !errors.As(err, &eq) {
		t.Fatal(err)
	}
	if err := Advance(second, third, forked.Consistency); err != nil {
		t.Fatal(err)
	}
	var stale *StaleError
	if err := Advance(third, second, forked.Consistency); !errors.As(err, &stale) {
		t.Fatal(err)
	}
}

func TestMemory(t *testing.T) {
	m := Memory{Path: filepath.Join(t.TempDir(), "sub", "logs.json")}
	if _, ok, err := m.Get("a"); ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, k := range []Known{{Key: "x"}, {Key: "x", Checkpoint: "y"}} {
		if err := m.Put("a", k); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := m.Get("a"); !ok || err != nil || got != k {
			t.Fatal(got, ok, err)
		}
	}
	if err := os.WriteFile(m.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Put("b", Known{}); err == nil {
		t.Error("a file that cannot be read was replaced")
	}
}

// Each part of an event moves the head.
func TestHeadOf(t *testing.T) {
	e := agon.Event{Run: "r", Attempt: 1, Task: "t", Seq: 2, At: time.Unix(5, 0), Type: "note", Data: json.RawMessage(`{}`)}
	seen := map[agon.Digest]string{}
	for name, f := range map[string]func(e *agon.Event){
		"same": func(*agon.Event) {}, "run": func(e *agon.Event) { e.Run = "s" }, "attempt": func(e *agon.Event) { e.Attempt++ },
		"task": func(e *agon.Event) { e.Task = "t\nn" }, "seq": func(e *agon.Event) { e.Seq++ }, "at": func(e *agon.Event) { e.At = e.At.Add(time.Microsecond) },
		"type": func(e *agon.Event) { e.Type = "output" }, "data": func(e *agon.Event) { e.Data = json.RawMessage(`{"a":1}`) },
	} {
		x := e
		f(&x)
		h := HeadOf("", x)
		if was, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, was)
		}
		seen[h] = name
		spaced := x
		spaced.Data = json.RawMessage(strings.ReplaceAll(string(x.Data), "{", "{ "))
		if HeadOf("", spaced) != h {
			t.Errorf("%s: white space counts", name)
		}
		if HeadOf("sha256:1", x) == h {
			t.Error("the one before does not count")
		}
	}
}

func TestCalc(t *testing.T) {
	ask := func(rule, in string) map[string]any {
		t.Helper()
		var out bytes.Buffer
		if bad, err := calc.New(Rules()...).Run(rule, strings.NewReader(in), &out); err != nil || bad != 0 {
			t.Fatal(out.String(), err)
		}
		m := map[string]any{}
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	// RFC 6962's own vectors: the empty leaf, and the tree of no leaves.
	if h := ask("log.leaf", `{"entry":""}`)["hash"]; h != "bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=" {
		t.Error(h)
	}
	if h := ask("log.root", `{"leaves":[]}`)["root"]; h != "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" {
		t.Error(h)
	}
	a, b := ask("log.leaf", `{"entry":"a"}`)["hash"], ask("log.leaf", `{"entry":{"b":1}}`)["hash"]
	p := ask("log.inclusion", fmt.Sprintf(`{"leaves":[%q,%q],"index":1}`, a, b))
	if p["root"] != ask("log.root", fmt.Sprintf(`{"leaves":[%q,%q]}`, a, b))["root"] {
		t.Error(p)
	}
	in := fmt.Sprintf(`{"index":%%d,"size":2,"leaf":%q,"root":%q,"proof":[%q]}`, b, p["root"], a)
	if ask("log.inclusion", fmt.Sprintf(in, 1))["ok"] != true || ask("log.inclusion", fmt.Sprintf(in, 0))["ok"] != false {
		t.Error("a proof is not judged by its place")
	}
}

func FuzzCheckpoint(f *testing.F) {
	k := testKey(f, f.TempDir())
	c, err := k.Sign(Checkpoint{Tree: tlog.Tree{N: 3}, Commits: 1, CommitHash: "x"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.Text)
	f.Fuzz(func(t *testing.T, s string) {
		if x, err := OpenCheckpoint(s, k.Public()); err == nil && (x.N != 3 || x.Hash != c.Hash) {
			t.Errorf("%q was taken", s)
		}
		var y Checkpoint
		_ = y.parse(s)
	})
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"type":"a","id":"b","at":"2020-01-01T00:00:00Z"}`))
	f.Add(appendEntry(nil, []byte("x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = ParseEntry(b)
		if list, err := splitBundle(b, 1); err == nil && !bytes.Equal(appendEntry(nil, list[0]), b) {
			t.Error("a bundle is not its entries")
		}
	})
}

// BenchmarkPublish adds 3,000 leaves to a log and signs its head: a second's worth.
func BenchmarkPublish(b *testing.B) {
	dir, src := b.TempDir(), &rows{}
	l := open(b, dir, src)
	for b.Loop() {
		b.StopTimer()
		src.add(b, 3000)
		b.StartTimer()
		if _, err := l.Publish(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// generated is a source of n leaves that takes no memory.
type generated int64

func (g generated) Leaves(_ context.Context, from int64, limit int, _ func(int64) string) (out []Leaf, _ error) {
	for i := from; i < min(from+int64(limit), int64(g)); i++ {
		out = append(out, Leaf{Index: i, Entry: fmt.Appendf(nil, `{"type":"submission","id":"%032d","at":"2026-01-01T00:00:00Z"}`, i)})
	}
	return out, nil
}

func (g generated) LeafCount(context.Context) (int64, error) { return int64(g), nil }

// BenchmarkInclusion proves a leaf of a log of AGON_BENCH_LEAVES (200,000).
func BenchmarkInclusion(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("AGON_BENCH_LEAVES"))
	if err != nil {
		n = 200_000
	}
	dir := b.TempDir()
	l, err := Open(b.Context(), Config{Storage: Dir(filepath.Join(dir, "log")), Source: generated(n), Key: testKey(b, dir)})
	if err != nil {
		b.Fatal(err)
	}
	c, err := l.Publish(b.Context())
	if err != nil || c.N != int64(n) {
		b.Fatal(c.N, err)
	}
	for i := int64(0); b.Loop(); i++ {
		if _, err := l.Inclusion(i*7919%c.N, c); err != nil {
			b.Fatal(err)
		}
	}
}
