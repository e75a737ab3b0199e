package samples

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kind/coding"
)

// Every sample, and the template, passes the gate that submissions pass.
func TestSamplesPassCheck(t *testing.T) {
	template, err := fs.ReadFile(Templates(), "coding/agent.py")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string][]byte{"template": template}
	for _, name := range Agents {
		src, err := Source(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = src
	}
	for name, src := range sources {
		if f := coding.CheckSource(src); len(f) > 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if _, err := Source("../x"); err == nil {
		t.Error("a sample that is none was found")
	}
}

func TestScriptParses(t *testing.T) {
	s, err := scripted.Parse(Script(), "json")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rules) == 0 || !strings.Contains(s.Fallback, "script") {
		t.Errorf("%d rules, fallback %q", len(s.Rules), s.Fallback)
	}
}
