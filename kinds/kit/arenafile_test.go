package kit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

func fakes() kit.List {
	return kit.List{{
		Kind: "fake", New: func(kit.Parts) kind.Kind { return kindtest.Fake{} },
		Demo: kit.ShippedArena([]byte(plainArena)),
	}}
}

const plainArena = "id = \"mine\"\nkind = \"fake\"\nsets = [\"small\"]\n"

// An arena that says nothing has two retries; one that says 0 has none.
func TestArenaFileAttempts(t *testing.T) {
	for _, c := range []struct {
		line string
		want int // -1: refused
	}{{"", 2}, {"attempts = 0", 0}, {"attempts = 1", 1}, {"attempts = 5", 5}, {"attempts = 6", -1}, {"attempts = -1", -1}} {
		f, err := kit.ParseArenaFile([]byte(plainArena+c.line), fakes())
		if c.want < 0 {
			if err == nil || !strings.Contains(err.Error(), "attempts: ") {
				t.Errorf("%q: %v", c.line, err)
			}
			continue
		}
		if err != nil || f.Arena().Attempts != c.want {
			t.Errorf("%q: %v, %v", c.line, f.Attempts, err)
		}
	}
}

// What an arena file may choose is what a box takes: no run is planned that
// cannot be played.
func TestArenaFileLimits(t *testing.T) {
	for _, c := range []struct {
		line, field string // field "": taken
	}{
		{"pids = 4", "pids"},
		{"pids = 15", "pids"},
		{"pids = 16", ""},
		{"pids = 0", ""},
		{"pids = -1", "pids"},
		{"memory_bytes = 8388608", "memory_bytes"},
		{"memory_bytes = 33554432", ""},
		{"memory_bytes = 1", "memory_bytes"},
		{"memory_bytes = 9223372036854775807", "memory_bytes"},
		{"wall_ms = 999", "wall_ms"},
		{"wall_ms = 1000", ""},
		{"wall_ms = 86400001", "wall_ms"},
		{"wall_ms = -1", "wall_ms"},
		{"disk_bytes = -1", "disk_bytes"},
		{"inodes = -5", "inodes"},
		{"output_bytes = -1", "output_bytes"},
		{"cpu_milli = -1", "cpu_milli"},
		{"cpu_ms = -1", "cpu_ms"},
		{"cpu_ms = 9223372036854775807", "cpu_ms"},
		{"disk_bytes = 1073741824", ""},
	} {
		for _, part := range []string{"policy.agent", "policy.grader"} {
			f, err := kit.ParseArenaFile(fmt.Appendf(nil, "%s[%s]\n%s\n", plainArena, part, c.line), fakes())
			if c.field == "" {
				if err != nil {
					t.Errorf("%s %s: %v", part, c.line, err)
					continue
				}
				spec := sandbox.Spec{Name: "agent", Rootfs: "/", Limits: f.Policy.Agent}
				if part == "policy.grader" {
					spec.Limits = f.Policy.Grader
				}
				if _, err := spec.Complete(); err != nil {
					t.Errorf("%s %s: passes the file and no box takes it: %v", part, c.line, err)
				}
				continue
			}
			var e *agon.Error
			if !errors.As(err, &e) {
				t.Errorf("%s %s: taken (%v)", part, c.line, err)
				continue
			}
			named := func(f agon.Finding) bool { return f.Field == part+"."+c.field }
			if len(e.Findings) != 1 || !slices.ContainsFunc(e.Findings, named) {
				t.Errorf("%s %s: findings %+v", part, c.line, e.Findings)
			}
		}
	}
}

// KIND.toml and its id mean the arena that a kind ships, unless there is such a file.
func TestShippedArena(t *testing.T) {
	t.Chdir(t.TempDir())
	if f, err := kit.LoadArenaFile("mine", fakes()); err != nil || f.Kind != "fake" {
		t.Errorf("by its id: %+v, %v", f, err)
	}
	if f, err := kit.LoadArenaFile("fake.toml", fakes()); err != nil || f.ID != "mine" || f.Policy.Agent.WallMS == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, path := range []string{"other.toml", "./fake.toml", "fake", "sub/fake.toml"} {
		if _, err := kit.LoadArenaFile(path, fakes()); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.WriteFile("fake.toml", []byte(strings.Replace(plainArena, "mine", "file", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := kit.LoadArenaFile("fake.toml", fakes()); err != nil || f.ID != "file" {
		t.Errorf("%+v, %v", f, err)
	}
	// What a kind ships is checked like any file.
	bad := fakes()
	bad[0].Demo = kit.ShippedArena([]byte("id = \"mine\"\nkind = \"fake\"\nincentive = \"x\""))
	if err := os.Remove("fake.toml"); err != nil {
		t.Fatal(err)
	}
	if _, err := kit.LoadArenaFile("fake.toml", bad); err == nil || !strings.Contains(err.Error(), "incentive: ") || !strings.Contains(err.Error(), "sets: ") {
		t.Errorf("%v", err)
	}
}

func TestListCheck(t *testing.T) {
	one := fakes()[0]
	for _, c := range []struct {
		name string
		list kit.List
		want string
	}{
		{"good", kit.List{one}, ""},
		{"twice", kit.List{one, one}, "two kits"},
		{"no New", kit.List{{Kind: "fake"}}, "no New"},
		{"no name", kit.List{{New: one.New}}, "want 2 to 40"},
		{"upper case", kit.List{{Kind: "Fake", New: one.New}}, "want 2 to 40"},
	} {
		err := c.list.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Every mistake of an arena file is named at once, a line each in the order of
// the file, with its line and column and without the names of Go's types.
func TestArenaFileMistakes(t *testing.T) {
	const text = `titel = "x"
id = "My Coding"
kind = "fake"
netuid = "seven"
sets = ["./mytasks", "small"]
incentive = "nope"

[policy]
usage = "believe"
gateway_key = "5nonsense"
gateway = "https://gateway.example"
[policy.agent]
  pids = 4
wall_ms = true
[polcy]
x = 1
`
	path := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := kit.LoadArenaFile(path, fakes())
	var e *agon.Error
	if !errors.As(err, &e) || e.Message != path+": 10 mistakes" {
		t.Fatal(err)
	}
	for i, want := range []string{
		"1:1  titel: unknown field; did you mean title?", "2:1  id: \"My Coding\": want", "4:10  netuid: want a whole number from 0, this is a string",
		"5:1  sets: \"./mytasks\": there is no folder " + filepath.Join(filepath.Dir(path), "mytasks"), "6:1  incentive: \"nope\"",
		"9:1  policy.usage: \"believe\" is neither report nor refuse", "10:1  policy.gateway_key: \"5nonsense\" is not the address",
		"13:3  policy.agent.pids: 4: want at least 16", "14:11  policy.agent.wall_ms: want a whole number, this is a boolean", "15:2  polcy: unknown field; did you mean policy?",
	} {
		if i >= len(e.Findings) || !strings.HasPrefix(e.Findings[i].Message, want) {
			t.Errorf("mistake %d is %q, want %q", i, e.Findings[min(i, len(e.Findings)-1)].Message, want)
		}
	}
	for text, want := range map[string]string{
		"[sets]\nx = 1\n": "1:2  sets: a table does not belong here: write sets = and a value",
		"[policy]\ngateway = \"https://gateway.example\"\n": "policy.gateway_key: want the address of the key that signs for https://gateway.example",
		"[policy]\ngateway_key = \"5x\"\n":                  "policy.gateway: want the URL",
		"[[title]]\nx = 1\n":                                "1:3  title: a table does not belong here: write title = and a value",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := kit.LoadArenaFile(path, fakes())
		if !errors.As(err, &e) || !strings.Contains(fmt.Sprint(e.Message, e.Findings), want) {
			t.Errorf("%q: %v %v, want %q", text, e.Message, e.Findings, want)
		}
	}
	// Folders of tasks are looked up from the file.
	if err := os.Mkdir(filepath.Join(filepath.Dir(path), "mytasks"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("id = \"mine\"\nkind = \"fake\"\nsets = [\"./mytasks\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := kit.LoadArenaFile(path, fakes())
	if err != nil || f.Sets[0] != filepath.Join(filepath.Dir(path), "mytasks") {
		t.Errorf("%v, %v", f.Sets, err)
	}
}

func FuzzArenaFile(f *testing.F) {
	f.Add([]byte(plainArena))
	f.Add([]byte("id = [\n[x\n=\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = kit.ParseArenaFile(b, fakes()) })
}

// A file that names no rule has the rule paired, with what guessing gets as the
// holder of an empty seat; an arena that is open keeps the rule that it has.
func TestArenaFileRule(t *testing.T) {
	kits := fakes()
	kits[0].Baseline = 0.25
	parse := func(more string) kit.ArenaFile {
		f, err := kit.ParseArenaFile([]byte(plainArena+more), kits)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	old := agon.Arena{Incentive: incentive.WinnerTakesAllRule, IncentiveNumbers: map[string]float64{"x": 1}}
	for _, c := range []struct {
		more, rule, kept string
		baseline         float64
	}{
		{"", incentive.PairedRule, incentive.WinnerTakesAllRule, 0.25},
		{"incentive = \"paired\"\n", incentive.PairedRule, incentive.PairedRule, 0.25},
		{"[incentive_numbers]\nbaseline = 0.5\n", incentive.PairedRule, incentive.WinnerTakesAllRule, 0.5},
		{"[incentive_numbers]\nbaseline = 0.0\n", incentive.PairedRule, incentive.WinnerTakesAllRule, 0},
		{"incentive = \"winner_takes_all\"\n", incentive.WinnerTakesAllRule, incentive.WinnerTakesAllRule, 0},
	} {
		f := parse(c.more)
		if f.Incentive != c.rule || f.IncentiveNumbers[incentive.NumBaseline] != c.baseline {
			t.Errorf("%q: %s, %v", c.more, f.Incentive, f.IncentiveNumbers)
		}
		a := f.Arena()
		if f.KeepRule(&a, old); a.Incentive != c.kept || (a.IncentiveNumbers["x"] == 1) != (c.kept != c.rule) {
			t.Errorf("%q, open by another rule: %s, %v", c.more, a.Incentive, a.IncentiveNumbers)
		}
	}
	kits[0].Coordinator = struct{ platform.Coordinator }{}
	if f := parse(""); f.Incentive != incentive.WinnerTakesAllRule {
		t.Errorf("a kind that decides itself has the rule %s", f.Incentive)
	}
}

// Stages name sets of the arena, and get the keys of their tasks.
func TestArenaFileStages(t *testing.T) {
	const good = plainArena + `
[[stages]]
name = "screener_1"
set = "small"
threshold = 0.3
[[stages]]
name = "validator"
set = "small"
evaluations = 3
consensus = true
`
	f, err := kit.ParseArenaFile([]byte(good), fakes())
	if err != nil {
		t.Fatal(err)
	}
	got := f.StagesOf([]agon.TaskRef{{Key: "small/a"}, {Key: "big/b"}, {Key: "small/c"}})
	if len(got) != 2 || !slices.Equal(got[0].Tasks, []string{"small/a", "small/c"}) || got[0].Bar(0.9) != 0.3 || !got[1].Consensus || got[1].Evaluations != 3 {
		t.Errorf("%+v", got)
	}
	for field, change := range map[string][2]string{
		"stages.1.name": {`"screener_1"`, `"Screener 1"`}, "stages.2.name": {`name = "validator"`, `name = "screener_1"`}, "stages.1.set": {`set = "small"
threshold`, `set = "none"
threshold`},
		"stages.1.threshold": {"0.3", "1.3"}, "stages.2.evaluations": {"= 3", "= 10"},
	} {
		_, err := kit.ParseArenaFile([]byte(strings.Replace(good, change[0], change[1], 1)), fakes())
		var e *agon.Error
		if !errors.As(err, &e) || len(e.Findings) != 1 || !strings.Contains(e.Findings[0].Message, field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// An arena names libraries by a list that ships; its policy has the packages.
func TestArenaFileLibraries(t *testing.T) {
	kits := fakes()
	kits[0].Libraries = fstest.MapFS{"libraries/some.txt": {Data: []byte("pydantic==2.0 --hash=sha256:" + strings.Repeat("a", 64))}}
	f, err := kit.ParseArenaFile([]byte(plainArena+"[policy]\nlibraries = \"some\"\n"), kits)
	if err != nil {
		t.Fatal(err)
	}
	libs := f.Arena().Policy.Libraries
	if libs == nil || libs.List.Validate() != nil || !slices.ContainsFunc(libs.Packages, func(p string) bool { return strings.HasPrefix(p, "pydantic==") }) {
		t.Errorf("%+v", libs)
	}
	for _, name := range []string{"nosuch", "./nosuch.txt"} {
		if _, err := kit.ParseArenaFile([]byte(plainArena+"[policy]\nlibraries = \""+name+"\"\n"), fakes()); err == nil || !strings.Contains(err.Error(), "policy.libraries") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
