package platform

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agon-arena/agon/internal/folder"
)

// Documents are kept in the store as in a folder: found by name and by how names begin.
func TestDocuments(t *testing.T) {
	f := newFixture(t, 1)
	store, err := f.Platform.Documents(t.Context(), "here", filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.Platform.Documents(t.Context(), "there", filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []folder.Documents{folder.Folder(t.TempDir()), store, other} {
		type doc struct{ N int }
		var got doc
		for _, name := range []string{"run-a", "run-a"} {
			if err := d.Put(name, doc{len(namesOf(t, d)) + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if ok, err := d.Get("run-a", &got); !ok || err != nil || got.N != 2 {
			t.Errorf("%T: %v %v %v", d, got, ok, err)
		}
		if ok, err := d.Get("../run-a", &got); ok || err != nil {
			t.Errorf("%T: a foreign name: %v %v", d, ok, err)
		}
		if err := d.Put("../run-b", got); err == nil {
			t.Errorf("%T takes a foreign name", d)
		}
		if list, err := d.Names("run-"); err != nil || !slices.Equal(list, []string{"run-a"}) {
			t.Errorf("%T: %v %v", d, list, err)
		}
		if err := folder.Load(d, "run-", func(name string, v doc) { got.N += v.N * len(name) }); err != nil || got.N != 2+2*len("run-a") {
			t.Errorf("%T: %v %v", d, got, err)
		}
		if err := folder.Load(d, "run-", func(string, []int) {}); err == nil {
			t.Errorf("%T: a document of another form is read", d)
		}
		for range 2 {
			if err := d.Remove("run-a"); err != nil {
				t.Errorf("%T: %v", d, err)
			}
		}
		if ok, err := d.Get("run-a", &got); ok || err != nil {
			t.Errorf("%T: removed: %v %v", d, ok, err)
		}
	}
}

// namesOf lists what there is.
func namesOf(t *testing.T, d folder.Documents) []string {
	t.Helper()
	list, err := d.Names("")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What an older program kept in a folder is taken over once, and again where an older one has
// written since; what must stay in the folder stays.
func TestDocumentsOfAFolder(t *testing.T) {
	f := newFixture(t, 1)
	dir := t.TempDir()
	old := folder.Folder(dir)
	read := func(want string) {
		t.Helper()
		d, err := f.Platform.Documents(t.Context(), "here", dir, "secret")
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if ok, err := d.Get("run-a", &got); err != nil || ok != (want != "") || got != want {
			t.Errorf("%q %v %v, want %q", got, ok, err, want)
		}
		if ok, err := d.Get("secret", &got); ok || err != nil {
			t.Errorf("the key is in the store: %v", err)
		}
		if list := namesOf(t, old); !slices.Equal(list, []string{"secret"}) {
			t.Errorf("the folder has %v", list)
		}
	}
	for _, name := range []string{"secret", "run-a"} {
		if err := old.Put(name, "one"); err != nil {
			t.Fatal(err)
		}
	}
	read("one")
	if err := (&Documents{f.Platform, "here"}).Put("run-a", "two"); err != nil {
		t.Fatal(err)
	}
	read("two")
	if err := old.Put("run-a", "three"); err != nil { // an older program led again
		t.Fatal(err)
	}
	read("three")
	if err := os.WriteFile(filepath.Join(dir, "run-b.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Platform.Documents(t.Context(), "here", dir, "secret"); err == nil {
		t.Error("half a document is taken over")
	}
}
