package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

// A key names its follower; who trusted the old one follows, and nobody else
// can name one. A rotation that is cut at any step loses no key.
func TestRotateKey(t *testing.T) {
	dir := t.TempDir()
	first, was, err := OpenKey(dir)
	if err != nil || len(was) != 0 {
		t.Fatal(was, err)
	}
	var all []agon.Succession
	for range 3 {
		s, err := RotateKey(dir, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	last, was, err := OpenKey(dir)
	if err != nil || len(was) != 3 || was[2] != all[2] || last.SS58() != all[2].New {
		t.Fatalf("%v %v", was, err)
	}
	if !Follows(first.SS58(), last.SS58(), was) || !Follows(last.SS58(), last.SS58(), nil) {
		t.Error("the new key does not follow the first")
	}
	if Follows(last.SS58(), first.SS58(), was) || Follows(first.SS58(), last.SS58(), was[1:]) || Follows(first.SS58(), last.SS58(), was[:2]) {
		t.Error("a chain with a gap, or backwards, was followed")
	}
	// Whoever has neither key cannot make one.
	for name, spoil := range map[string]func(*agon.Succession){
		"another follower": func(s *agon.Succession) { s.New = first.SS58() },
		"another time":     func(s *agon.Succession) { s.At = s.At.Add(time.Second) },
		"no old signature": func(s *agon.Succession) { s.OldSig = "" },
		"signed by new":    func(s *agon.Succession) { s.OldSig = s.NewSig },
		"signed by old":    func(s *agon.Succession) { s.NewSig = s.OldSig },
		"itself":           func(s *agon.Succession) { s.New = s.Old },
	} {
		s := all[0]
		spoil(&s)
		if CheckSuccession(s) == nil || Follows(s.Old, s.New, []agon.Succession{s}) && s.Old != s.New {
			t.Errorf("%s: taken", name)
		}
	}
	// Cut before the succession was written: the old key stands.
	if _, err := makeKey(filepath.Join(dir, nextFile)); err != nil {
		t.Fatal(err)
	}
	if k, _, err := OpenKey(dir); err != nil || k.SS58() != last.SS58() {
		t.Fatalf("a follower that was not named took over: %v", err)
	}
	// Cut after it: the new key takes over at the next start.
	next, err := LoadKey(filepath.Join(dir, nextFile))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Succeed(last, next, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, successionsFile)); err != nil {
		t.Fatal(err)
	}
	writeList(t, dir, append(was, s))
	if k, _, err := OpenKey(dir); err != nil || k.SS58() != next.SS58() {
		t.Errorf("a rotation that was cut short is not finished: %v", err)
	}
	// A file of another key, or forged successions, stop the start.
	writeList(t, dir, was)
	if _, _, err := OpenKey(dir); err == nil {
		t.Error("a key that no succession names was taken")
	}
	forged := append([]agon.Succession{}, was...)
	forged[1].New = first.SS58()
	writeList(t, dir, forged)
	if _, _, err := OpenKey(dir); err == nil {
		t.Error("a forged succession was read")
	}
}

func writeList(t *testing.T, dir string, list []agon.Succession) {
	t.Helper()
	b, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, successionsFile), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzSuccession(f *testing.F) {
	f.Add([]byte(`{"old":"5x","new":"5y","at":"2026-01-01T00:00:00Z","old_sig":"00","new_sig":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s agon.Succession
		if json.Unmarshal(b, &s) == nil && CheckSuccession(s) == nil {
			t.Errorf("a succession without keys: %s", b)
		}
	})
}
