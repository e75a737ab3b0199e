package coordinator

import (
	"encoding/json"
	"errors"
	"testing"

	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// Whatever a miner sends, the check says yes or refuses by name; it never breaks.
func FuzzCheckEntry(f *testing.F) {
	pub := kr.Task{AllowedPatchPaths: []string{"src/**"}, MaxPatchBytes: 4096, BaseRef: "main", CompetitionMode: kr.ModeStandard, Artifact: "allowed", ArtifactMaxBytes: 1 << 20}
	base := surface.NewTree(map[string]surface.File{"src/a.py": surface.Bytes(surface.ModeFile, []byte("x = 1\n")), "bench.py": surface.Bytes(surface.ModeFile, nil)})
	for _, s := range []string{
		`{"claim_id":"c","base_ref":"main","summary":"s","patch":"diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n","claimed_metrics":{"a":1e999}}`,
		`{"artifact_uri":"https://x/y","artifact_sha256":"00","summary":"s"}`, `{"patch":"rename from bench.py\nrename to src/b.py\n","summary":"s"}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Entry
		if json.Unmarshal(b, &e) != nil {
			return
		}
		res, err := CheckEntry(pub, base, "0123456789012345678901234567890123456789", &e)
		var no *Refusal
		if err != nil && (!errors.As(err, &no) || no.Code == "" || no.Message == "" || no.Status < 400) {
			t.Fatalf("%v", err)
		}
		if err == nil && res != nil {
			for _, p := range res.Paths() {
				if !surface.Match(surface.StylePath, pub.AllowedPatchPaths, p) {
					t.Fatalf("%q is let in", p)
				}
			}
		}
		_ = numbers(e.ClaimedMetrics)
	})
}
