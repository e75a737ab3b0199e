package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/score"
)

// TestKnownIsForgotten: a word is kept for its version and its time only, and a reader of
// an older version puts nothing over what a newer one knows.
func TestKnownIsForgotten(t *testing.T) {
	t0 := time.Unix(1_000_000, 0)
	var k known
	old, now := knownWord{word: score.Word{Judged: 1}, since: t0}, knownWord{word: score.Word{Judged: 2}, since: t0}
	k.put(3, "v", old)
	for _, c := range []struct {
		name    string
		version int64
		at      time.Time
		shared  bool
		want    bool
	}{
		{"the same version", 3, t0, false, true},
		{"just before its time is over", 3, t0.Add(knownFor - 1), false, true},
		{"after its time", 3, t0.Add(knownFor), false, false},
		{"a clock that went back", 3, t0.Add(-1), false, false},
		{"a newer version", 4, t0, false, false},
		{"an older version", 2, t0, false, false},
		{"where others write too", 3, t0.Add(knownForShared - 1), true, true},
		{"where others write too, later", 3, t0.Add(knownForShared), true, false},
	} {
		if _, ok := k.get(c.version, "v", c.at, c.shared); ok != c.want {
			t.Errorf("%s: kept %v, want %v", c.name, ok, c.want)
		}
	}
	k.put(5, "v", now)
	k.put(4, "v", old) // its read began before
	if w, ok := k.get(5, "v", t0, false); !ok || w.word.Judged != 2 {
		t.Errorf("after a late reader: %+v, %v", w, ok)
	}
}
