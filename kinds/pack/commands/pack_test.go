package commands_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

func runAgon(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	app := &cli.App{Extras: []func(*cli.App) []cli.Extra{func(a *cli.App) []cli.Extra { return commands.Of(a, commands.Work{}) }}, IO: &iostreams.IO{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Env: config.Env{Getenv: func(string) string { return "" }}}
	code = app.Main(t.Context(), args)
	return code, stdout.String() + stderr.String()
}

func TestPackCommands(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at(name)
	}
	policy := put("AGENTS.md", "# Policy\n")
	code, out := runAgon(t, "pack", "build", "--agents-md", policy, "-o", at("p.json"))
	if code != 0 || !strings.Contains(out, "  Hash:  0b176cfaa3f82553162b63f292f36c881911bcb5471f9601a93879a05e2d5107\n  Size:  268 bytes (limit: 32768)\n  Files: ['AGENTS.md']\n  Schema: PASSED") {
		t.Fatalf("%d %s", code, out)
	}
	type checked struct {
		Passed bool
		Issues []string
		Hash   string
		Size   int
	}
	for name, c := range map[string]struct {
		text string
		args []string
		code int
		want string
	}{
		"sound":        {"", nil, 0, ""},
		"empty":        {"{}", nil, 7, "Unsupported schema_version: None"},
		"s1":           {`{"schema_version":1,"files":{"SKILL.md":"x"}}`, []string{"--schema", "s1"}, 0, ""},
		"s1 blank":     {`{"schema_version":1,"files":{"SKILL.md":" \n"}}`, []string{"--schema", "s1"}, 7, "SKILL.md must not be empty"},
		"bom":          {"\ufeff{}", nil, 7, "byte order mark"},
		"nul":          {"{\"a\":\"\x00\"}", nil, 7, "control character"},
		"deep":         {strings.Repeat("[", 60_000), nil, 7, "nested deeper"},
		"twice":        {`{"schema_version":2,"schema_version":1,"files":{"AGENTS.md":"x"},"tool_policy":{},"metadata":{"pack_name":"n","pack_version":"1.0.0","target_suite":"t"}}`, nil, 0, ""},
		"32769 bytes":  {`{"schema_version":1,"files":{"AGENTS.md":"` + strings.Repeat("x", 32_623) + `"},"tool_policy":{},"metadata":{"pack_name":"n","pack_version":"1.0.0","target_suite":"t"}}`, nil, 7, "Pack too large: 32769 bytes (max 32KB)"},
		"huge":         {strings.Repeat(" ", 70_000), nil, 7, "more than 65536 bytes"},
		"policy list":  {`{"schema_version":1,"files":{"AGENTS.md":"x"},"tool_policy":[],"metadata":null}`, nil, 7, "'tool_policy' must be a dict"},
		"allow null":   {`{"schema_version":1,"files":{"AGENTS.md":"x"},"tool_policy":{"allow":null,"deny":3},"metadata":{}}`, nil, 7, "'allow' must be a list"},
		"nested allow": {`{"schema_version":1,"files":{"AGENTS.md":"x"},"tool_policy":{"allow":[["exec"],{"a":1.5}]},"metadata":{}}`, nil, 7, "'allow' item must be string: ['exec']"},
		"root":         {`[1]`, nil, 7, "pack must be a JSON object"},
	} {
		path := at("p.json")
		if c.text != "" {
			path = put("x.json", c.text)
		}
		code, out := runAgon(t, append([]string{"pack", "check", path, "-o", "json"}, c.args...)...)
		var got checked
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != c.code || got.Passed != (c.code == 0) || !strings.Contains(strings.Join(got.Issues, "\n"), c.want) {
			t.Errorf("%s: %d %v %.300s", name, code, err, out)
		}
	}
	code, out = runAgon(t, "pack", "similarity", at("p.json"), at("p.json"), "-o", "json")
	var sim struct {
		Similarity float64            `json:"similarity"`
		AB         float64            `json:"ncd_ab"`
		Excluded   bool               `json:"excluded"`
		Measures   map[string]float64 `json:"measures"`
	}
	if err := json.Unmarshal([]byte(out), &sim); err != nil || code != 0 || !sim.Excluded || sim.Similarity != 1-sim.AB || len(sim.Measures) != 5 {
		t.Errorf("%d %v %s", code, err, out)
	}
	if code, out := runAgon(t, "pack", "check", at("nowhere"), "-o", "json"); code != 5 {
		t.Errorf("%d %s", code, out)
	}
	if code, out := runAgon(t, "pack", "lint", put("g.json", `{"schema_version":1,"files":{"AGENTS.md":"Open inbox.json."},"tool_policy":{},"metadata":{"pack_name":"n","pack_version":"1.0.0","target_suite":"t"}}`), "-o", "json"); code != 7 || !strings.Contains(out, "fixture_shortcut") {
		t.Errorf("%d %s", code, out)
	}
}
