package research_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/research/commands"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// try plays a checkout in boxes of this machine, whose parts lie in the real cache.
func (b *minerBench) try(against string) (code int, got commands.Tried, errOut string) {
	b.q.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		b.q.t.Fatal(err)
	}
	s, o, e := iostreams.Test("")
	home := b.q.t.TempDir()
	getenv := func(k string) string {
		if strings.HasPrefix(k, "AGON_LLM_") {
			return ""
		}
		return os.Getenv(k)
	}
	code = app(s, config.Env{Getenv: getenv, Dir: home, Home: home, UserCacheDir: cache}).Main(b.q.ctx, []string{
		"research", "try", "--task-slug", "quorum", "--repo-dir", b.repo, "--submission-file", b.side, "--against", against, "--coordinator-url", b.q.s.URL(), "-o", "json",
	})
	if err := json.Unmarshal([]byte(o.String()), &got); err != nil && code == 0 {
		b.q.t.Fatalf("%s %v", o, err)
	}
	return code, got, e.String()
}

// A miner learns before it submits what validators would see, and how likely the seat
// is: against the base, against a better patch, and of a patch that gives no number.
func TestTry(t *testing.T) {
	q := openQuorum(t)
	b := q.miner("alice")
	b.write("src/work.py", "size = 9\n-- old\n")
	code, got, errOut := b.try("best") // nobody holds it
	if code != 0 || got.Value == nil || *got.Value != 9 || got.Chance != 1 || len(got.Pairs) != 1 || got.Pairs[0].Incumbent != 100 || got.Incumbent != "the base" {
		t.Fatalf("%d %+v %s", code, got, errOut)
	}
	better := filepath.Join(t.TempDir(), "better.diff")
	if err := os.WriteFile(better, []byte("--- a/src/work.py\n+++ b/src/work.py\n@@ -1,2 +1,2 @@\n-size = 100\n+size = 5\n -- old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, got, errOut = b.try(better); code != 0 || got.Chance != 0 || got.Duel.Wins || len(got.Pairs) != 1 || got.Pairs[0].Incumbent != 5 {
		t.Errorf("against a better one: %d %+v %s", code, got, errOut)
	}
	b.write("src/work.py", "size = none\n-- old\n")
	if code, got, errOut = b.try("base"); code != 7 || got.Value != nil || !strings.Contains(errOut, "the replay ended as error") {
		t.Errorf("no number: %d %+v %s", code, got, errOut)
	}
}
