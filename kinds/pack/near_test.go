package pack

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// Without a platform, too, copies = "strict" sees what compression distance does not:
// here halves that were swapped.
func TestStrictWithoutPlatform(t *testing.T) {
	var b strings.Builder
	r := rand.New(rand.NewPCG(1, 2)) // the same words each time
	for b.Len() < 26_000 {
		for range 3 + r.IntN(6) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		b.WriteByte(' ')
	}
	text := b.String()
	half := len(text) / 2
	for half < len(text) && text[half] != ' ' {
		half++
	}
	first, second := packfile.Build(packfile.BuildOptions{Policy: text}), packfile.Build(packfile.BuildOptions{Policy: text[half:] + " " + text[:half]})
	e := &evaluator{arena: agon.Arena{Options: map[string]string{kindpack.OptionCopies: kindpack.CopiesStrict}}}
	if why := e.near()(first, second); !strings.HasPrefix(why, "near_copy") {
		t.Errorf("swapped halves: %q", why)
	}
	if why := e.near()(first, packfile.Build(packfile.BuildOptions{Policy: "Read the list first, then answer."})); why != "" {
		t.Errorf("another policy: %q", why)
	}
	if e.arena.Options = nil; e.near() != nil {
		t.Error("an arena that does not want it has it")
	}
}
