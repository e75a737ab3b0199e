package play

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/kind"
)

// An arena may want scripts without reflection; the error names line and place.
func TestTransparentScripts(t *testing.T) {
	query := "from harnyx_miner_sdk.query import Query, Response\n@entrypoint(\"query\")\nasync def query(q):\n    return Response(text=\"x\")\n"
	claim := "@entrypoint(\"" + Entrypoint + "\")\nasync def " + Entrypoint + "(r):\n    return {}\n"
	for _, c := range []struct {
		name, src, option, want string
		k                       kind.Kind
	}{
		{"query", query, ScriptsTransparent, "", &QueryKind{}},
		{"query with eval", query + "eval(\"1\")\n", ScriptsTransparent, FindOpaque, &QueryKind{}},
		{"query with globals, where all may enter", query + "globals()\n", "", "", &QueryKind{}},
		{"query with globals, by word", query + "globals()\n", ScriptsAny, "", &QueryKind{}},
		{"query with match", query + "match 1:\n    case 1:\n        pass\n", ScriptsTransparent, FindOpaque, &QueryKind{}},
		{"claim", claim, ScriptsTransparent, "", &Kind{}},
		{"claim with eval", claim + "x = [eval]\n", ScriptsTransparent, FindOpaque, &Kind{}},
		{"not Python", claim + "def\n", ScriptsTransparent, FindSyntax, &Kind{}},
	} {
		a := &agon.Arena{Options: map[string]string{OptionScripts: c.option}}
		if c.option == "" {
			a.Options = nil
		}
		if err := kind.CheckOptions(c.k, a.Options); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		f, err := c.k.Check(t.Context(), a, fstest.MapFS{AgentFile: {Data: []byte(c.src)}})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want == "" && len(f) > 0:
			t.Errorf("%s: %+v", c.name, f)
		case c.want != "" && (len(f) != 1 || f[0].Code != c.want || f[0].Warning):
			t.Errorf("%s: %+v, want %s", c.name, f, c.want)
		}
	}
	agents, err := filepath.Glob("../data/*/agent.py")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../data/*/*/agent.py")
	if err != nil {
		t.Fatal(err)
	}
	deep, err := filepath.Glob("../data/*/*/*/agent.py")
	if err != nil {
		t.Fatal(err)
	}
	agents = append(append(agents, more...), deep...)
	if len(agents) < 7 {
		t.Fatalf("%d agents", len(agents))
	}
	for _, name := range agents {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := copycat.Opacities(string(src)); err != nil || len(got) > 0 {
			t.Errorf("%s, which we ship: %+v %v", name, got, err)
		}
	}
}
