package guard

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "g")
	g, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := g.Read(); ok || err != nil {
		t.Fatal("a new file has a mark", err)
	}
	if err := g.Check("db", Mark{}); err != nil {
		t.Fatal(err)
	}
	one := Mark{}.Next([]byte("salt"))
	two := one.Next([]byte("salt"))
	if err := g.Write(two); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if g, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for name, c := range map[string]struct {
		have Mark
		ok   bool
	}{
		"behind":       {one, false},
		"same":         {two, true},
		"ahead":        {two.Next(nil), true},
		"another":      {one.Next([]byte("other")), false},
		"of the start": {Mark{}, false},
	} {
		if err := g.Check("db", c.have); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) != size {
		t.Fatal(len(b), err)
	}
	b[3] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := g.Read(); ok || err != nil {
		t.Error("a torn mark was read", err)
	}
}
