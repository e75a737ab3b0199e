package reread

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A changed file is in force at once; one that cannot be used, or is gone, leaves what
// was before, and is logged once.
func TestGet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	var log bytes.Buffer
	c := Config[string]{Paths: []string{path}, Most: 10, Log: slog.New(slog.NewTextHandler(&log, nil)), Make: func(all [][]byte) (string, error) {
		made++
		if strings.HasPrefix(string(all[0]), "bad") {
			return "", errors.New("bad")
		}
		return string(all[0]), nil
	}}
	if _, err := Open(c); err == nil {
		t.Error("opened without its file")
	}
	write("one")
	f, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		text, want string
		warns      int
	}{{"", "one", 0}, {"two", "two", 0}, {"bad", "two", 1}, {"", "two", 1}, {"longer than ten", "two", 2}, {"gone", "two", 3}, {"three", "three", 3}} {
		switch x.text {
		case "":
		case "gone":
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		default:
			write(x.text)
		}
		for range 3 {
			if got := f.Get(); got != x.want {
				t.Errorf("after %q: %q, want %q", x.text, got, x.want)
			}
		}
		if n := strings.Count(log.String(), "what they held before stays"); n != x.warns {
			t.Errorf("after %q: %d warnings, want %d", x.text, n, x.warns)
		}
	}
	if made != 4 { // one, two, bad, three
		t.Errorf("made %d times", made)
	}
}
