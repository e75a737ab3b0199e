package validator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
)

func TestKeeps(t *testing.T) {
	k := &Keeps{Dir: filepath.Join(t.TempDir(), "kept")}
	of, now := agon.Sum([]byte("job")), time.Now()
	want := kind.Kept{Doc: json.RawMessage(`{"spent_ms":7}`), State: []byte("line\nof {bytes}\x00")}
	if _, ok, err := k.get("run-1", of); ok || err != nil || k.has("run-1") {
		t.Fatalf("nothing is kept yet: %v %v", ok, err)
	}
	if err := k.put("run-1", of, want, now); err != nil {
		t.Fatal(err)
	}
	got, ok, err := k.get("run-1", of)
	if err != nil || !ok || string(got.Doc) != string(want.Doc) || !bytes.Equal(got.State, want.State) || !k.has("run-1") {
		t.Fatalf("%+v %v %v", got, ok, err)
	}
	if _, ok, err := k.get("run-1", agon.Sum([]byte("another seed"))); ok || err != nil {
		t.Errorf("what was kept of another play is taken: %v", err)
	}
	path := filepath.Join(k.Dir, "run-1"+keepSuffix)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(whole)
	other[len(other)-2] ^= 1
	for name, b := range map[string][]byte{"cut": whole[:len(whole)-1], "longer": append(bytes.Clone(whole), 0), "a byte changed": other, "empty": nil, "no end of line": whole[:20]} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := k.get("run-1", of); ok || err != nil {
			t.Errorf("%s: it is taken, %v", name, err)
		}
	}
	for range 2 {
		if err := k.drop("run-1"); err != nil || k.has("run-1") {
			t.Errorf("dropped: %v", err)
		}
	}
	for _, run := range []string{"", "..", "../run", "a/b", "A", "."} {
		if err := k.put(run, of, want, now); err == nil || k.has(run) {
			t.Errorf("%q is taken for the name of a run", run)
		}
	}
	if err := k.put("run-2", of, kind.Kept{Doc: want.Doc, State: make([]byte, kind.MaxKeptState+1)}, now); err == nil {
		t.Error("more bytes than may be kept")
	}
}

// Old files go, half written ones too, and the oldest of too many.
func TestKeepsMakeRoom(t *testing.T) {
	k := &Keeps{Dir: t.TempDir()}
	now := time.Now()
	for i, age := range []time.Duration{keepFor + time.Hour, time.Hour, 2 * time.Hour} {
		for _, name := range []string{fmt.Sprintf("run-%d%s", i, keepSuffix), fmt.Sprintf(".new-%d", i)} {
			p := filepath.Join(k.Dir, name)
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(p, keepBytes/2); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(p, now.Add(-age), now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := k.makeRoom(now, 1); err != nil {
		t.Fatal(err)
	}
	if k.has("run-0") || !k.has("run-1") || k.has("run-2") {
		t.Error("what is too old is there, or the newer one of two was removed")
	}
	if _, err := os.Stat(filepath.Join(k.Dir, ".new-0")); err == nil {
		t.Error("a file that was left half written is there after a week")
	}
}

// No bytes on the disk make it take what was not kept, or read without an end.
func FuzzReadKept(f *testing.F) {
	of := agon.Sum([]byte("job"))
	k := &Keeps{Dir: f.TempDir()}
	if err := k.put("run-1", of, kind.Kept{Doc: json.RawMessage(`{}`), State: []byte("state")}, time.Now()); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(k.Dir, "run-1"+keepSuffix))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"of":"` + string(of) + `","doc":{},"bytes":-1,"sum":""}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, ok := readKept(bytes.NewReader(b), of)
		if ok && (!bytes.HasSuffix(b, out.State) || !json.Valid(out.Doc)) {
			t.Errorf("%q is read as %+v", b, out)
		}
	})
}
