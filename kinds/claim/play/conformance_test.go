package play

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// The engine's rules hold of this kind too: what fails on our side never
// becomes a score, what a script does to itself is.
func TestConformance(t *testing.T) {
	w := newWorld(t, &fixedJudge{ok: true})
	w.task("one", 1, "x")
	w.task("two", 1, "x")
	digest := w.trees.Add(w.t, map[string]string{AgentFile: head + "    return GOOD\n"})
	code := func(s string) fs.FS { return fstest.MapFS{AgentFile: {Data: []byte(s)}} }
	kindtest.Run(t, kindtest.Case{
		Kind: w.kind, Trees: w.trees, Tools: w.player.Tools,
		Arena:      agon.Arena{ID: "a", Kind: Name, Tasks: w.refs, Policy: policy()},
		Submission: agon.Submission{ID: "s", Arena: "a", Digest: digest},
		Good:       code(head + "    return GOOD\n"),
		Bad:        []fs.FS{fstest.MapFS{}, code("x = ("), code("\xff"), code(""), fstest.MapFS{AgentFile: {Data: []byte(head)}, "b.py": {Data: []byte("x")}}},
		Behave: func(_ context.Context, _ *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				_, _ = io.Copy(cmd.Stdout, strings.NewReader(`{"type":"ready"}`+"\n"))
			}
			return sandbox.Exit{}
		},
	})
}
