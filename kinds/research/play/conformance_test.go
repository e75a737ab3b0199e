package play

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// dirs serves one directory per digest.
type dirs map[agon.Digest]string

func (t dirs) Tree(_ context.Context, d agon.Digest) (string, error) { return t[d], nil }

// The engine's rules hold of this kind too: what fails on our side never
// becomes a score, what a patch does to itself is.
func TestConformance(t *testing.T) {
	w := &world{t: t, tasks: map[string]*task.Task{}, trees: map[agon.Digest]string{}}
	tk := w.task(strings.Replace(oneTask, "benchmark_command", "setup_command = \"true\"\nbenchmark_command", 1), oneBase)
	s := w.submission(scorePatch("2"), Claim{})
	s.Arena = "conformance"
	limits := agon.Limits{WallMS: 5000, MemoryBytes: 256 << 20, Pids: 64, OutputBytes: 1 << 20}
	c := agon.Contest{Direction: agon.Maximize, Agree: 2, Replays: 4, Alpha: 0.01, Pairs: 4}
	a := agon.Arena{
		ID: "conformance", Kind: Name, Contest: &c, Tasks: []agon.TaskRef{{Key: tk.Key, Digest: tk.Digest}},
		Policy: agon.Policy{Agent: limits, Grader: limits},
	}
	entry := func(patch, claim string) fs.FS {
		return fstest.MapFS{PatchFile: {Data: []byte(patch)}, ClaimFile: {Data: []byte(claim)}}
	}
	good := `{"claim_id":"c","base_ref":"main","summary":"s","claimed_metrics":{"score":2}}`
	kindtest.Run(t, kindtest.Case{
		Kind: New(Config{Rootfs: "/"}), Arena: a, Trees: dirs{tk.Digest: tk.Dir, s.Digest: w.trees[s.Digest]}, Submission: s,
		Good: entry(scorePatch("2"), good),
		Bad: []fs.FS{
			fstest.MapFS{},
			entry("", good),
			entry("words\n", good),
			entry(scorePatch("2"), "[]"),
			entry(scorePatch("2"), `{"summary":"s","patch":"x"}`),
			entry("diff --git a/x b/x\nrename from y\nrename to z\n", good),
			entry(strings.Repeat("x", HighestMaxPatch+1), good),
			fstest.MapFS{PatchFile: {Data: []byte(scorePatch("2"))}, ClaimFile: {Data: []byte(good)}, "more": {Data: []byte("x")}},
		},
		Behave: func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				b.SetFile(workspace+"/out/result.json", []byte(`{"score": 2}`))
			}
			return sandbox.Exit{}
		},
	})
}
