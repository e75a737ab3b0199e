package tune

import (
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

const policy = "# Office\n\n1. Plan first. Read each source once.\n2. Stop early.\n   Then answer.\n3. Send nothing. Read each source once.\n\nFor mail: one line each.\n"

func pack(t *testing.T, policy string, files map[string]string) *packfile.Pack {
	t.Helper()
	p := packfile.Build(packfile.BuildOptions{Policy: policy, Name: "t", Allow: []string{"exec", "slack", "read"}})
	for name, text := range files {
		p = packfile.New(withFile(p.Value, name, &text))
	}
	return p
}

// What is proposed is what it says, each a sound pack of its own that differs in one thing.
func TestChanges(t *testing.T) {
	p := pack(t, policy, map[string]string{"skills/find.md": "---\nmodel: big\n---\nFind it.\n", "skills/never.md": "Unused.\n"})
	list := Changes(p, Used{Tools: []string{"exec"}, Skills: []string{"find"}, Turns: 5}, []string{"exec", "slack", "read"}, []string{"small"})
	got := map[string]*packfile.Pack{}
	seen := map[string]bool{p.Hash: true}
	last := 0
	for _, c := range list {
		got[c.What] = c.Pack
		if seen[c.Pack.Hash] {
			t.Errorf("%s: proposed before", c.What)
		}
		seen[c.Pack.Hash] = true
		if issues := c.Pack.Issues(packfile.SchemaOPP); len(issues) > 0 {
			t.Errorf("%s: %v", c.What, issues)
		}
		at := slices.Index(Moves, c.Move)
		if at < last {
			t.Errorf("%s: out of order", c.What)
		}
		last = at
	}
	for _, c := range []struct{ what, file, want string }{
		{"offer exec only, which is what was called", packfile.PolicyFile, policy},
		{"remove the skill never, which was never asked", packfile.PolicyFile, policy},
		{"stop after 5 turns, the most that were taken", packfile.PolicyFile, policy},
		{"run the skill find on small", "skills/find.md", "---\nmodel: small\n---\nFind it.\n"},
		{"run the skill never on small", "skills/never.md", "---\nmodel: small\n---\nUnused.\n"},
		{`drop "Stop early. Then answer."`, packfile.PolicyFile, strings.Replace(policy, "2. Stop early.\n   Then answer.\n", "", 1)},
		{`drop "For mail: one line each."`, packfile.PolicyFile, strings.Replace(policy, "\nFor mail: one line each.\n", "", 1)},
		// What an earlier rule says already is not said again.
		{`merge "Send nothing. Read each source once." into the rule before`, packfile.PolicyFile, strings.Replace(policy, "   Then answer.\n3. Send nothing. Read each source once.\n", "   Then answer. Send nothing.\n", 1)},
		{`move "Stop early. Then answer." before the rule that it follows`, packfile.PolicyFile, strings.Replace(policy, "1. Plan first. Read each source once.\n2. Stop early.\n   Then answer.\n", "1. Stop early.\n   Then answer.\n2. Plan first. Read each source once.\n", 1)},
	} {
		x, ok := got[c.what]
		if !ok {
			t.Errorf("not proposed: %s", c.what)
			continue
		}
		if text, _ := x.File(c.file); text != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.what, text, c.want)
		}
	}
	tools := got["offer exec only, which is what was called"]
	if _, deny := tools.Tools(); !slices.Contains(deny, "slack") || !slices.Contains(deny, "read") || slices.Contains(deny, "exec") {
		t.Errorf("denied: %v", deny)
	}
	if _, still := got["remove the skill never, which was never asked"].File("skills/never.md"); still {
		t.Error("the skill is still there")
	}
	if got["look things up on small"] != nil {
		t.Error("a step was proposed where there are skills")
	}
}

// A pack without skills may get a step of its own on another model; a bound is only ever lowered.
func TestStepAndStop(t *testing.T) {
	p := pack(t, policy, nil)
	p = packfile.New(withTurns(p.Value, 4))
	for _, c := range Changes(p, Used{Turns: 4}, nil, []string{"small"}) {
		switch c.Move {
		case MoveStep:
			if text, _ := c.Pack.File(StepSkill); !strings.Contains(text, "\nmodel: small\n") {
				t.Errorf("step: %q", text)
			}
			return
		case MoveStop, MoveTool, MoveSkill:
			t.Errorf("proposed: %s", c.What)
		}
	}
	t.Error("no step was proposed")
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{policy, "", "\n\n", "a", "1. a\n1. b\n\n\n# t\nx\n- y\n  z", "\r\n- a\r\n", " \n\t\n1) x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := Join(Split(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
