package shopping_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/sandbox/netns"
)

func TestMain(m *testing.M) {
	netns.MaybeChild() // a helper process of boxes ends here
	os.Exit(m.Run())
}

// The whole way on this machine: real boxes, the gateway's own catalogue, the
// shipped suite. What the forger makes up has no effect: it is worth what any
// script is, and the model that asked for its searches is credited with them.
func TestTryShoppingSamples(t *testing.T) {
	tasks := []string{"demo/product-medium-04", "demo/shop-easy-06"}
	for name, c := range map[string]struct {
		solved int
		score  float64
		detail string
	}{
		"rules":  {2, .3875, "solved, times 0.3875 for the reasoning behind it: Gate 1: the gateway recorded no model call"},
		"forger": {0, 0, "what it chose is not what was asked for"},
		"react":  {2, 1, "All gates"},
	} {
		file := filepath.Join("data", "samples", name, play.AgentFile)
		r, err := roles.Try(t.Context(), kittest.Options(t.TempDir(), kinds.All()), roles.Trial{File: file, Arena: "demo-shopping", Tasks: tasks})
		if err != nil {
			t.Fatal(name, err)
		}
		if r.Solved != c.solved || r.Score == nil || *r.Score != c.score {
			b, _ := json.Marshal(r)
			t.Errorf("%s: %s", name, b)
			continue
		}
		for _, x := range r.Runs {
			if !strings.HasPrefix(x.Detail, c.detail) {
				t.Errorf("%s: %s says %q", name, x.Task, x.Detail)
			}
		}
	}
}
