package commands_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// A matrix plays each skill on each scenario with the same seeds, keeps what was played,
// and leaves failures that are not the skill's out of the means. A skill that is not the
// pinned one, and a file that says something else, end it before anything is played.
func TestMatrix(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("theirs.md", "# Skill\nBe careful.\n")
	const pin = "9e3e2d0a7d8f8cb0b7ab0c2a5b4ea2b2a9ffac6a0a1cbd1c7d6ba6b6ed02f2f0"
	var played []string
	work := commands.Work{
		Scenarios: func(string) ([]string, error) { return []string{"inbox", "standup"}, nil },
		Episode: func(_ context.Context, o commands.EpisodeOptions) (*commands.Episode, error) {
			b, err := os.ReadFile(o.Pack)
			if err != nil {
				return nil, err
			}
			p, err := packfile.Read(b)
			if err != nil {
				return nil, err
			}
			text, _ := p.Policy()
			played = append(played, o.Scenario)
			if o.Scenario == "standup" && o.Seed == 1 {
				return nil, errors.New("the provider failed")
			}
			return &commands.Episode{Scenario: o.Scenario, Qualified: strings.Contains(text, "careful"), Score: float64(o.Seed+1) / 2, Cost: &commands.EpisodeCost{USD: 0.25}}, nil
		},
	}
	run := func(args ...string) (int, string, string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		app := &cli.App{Extras: []func(*cli.App) []cli.Extra{func(a *cli.App) []cli.Extra { return commands.Of(a, work) }}, IO: &iostreams.IO{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Env: config.Env{Getenv: func(string) string { return "" }}}
		return app.Main(t.Context(), append(append([]string{"pack", "matrix"}, args...), "-o", "json", "--data", filepath.Join(dir, "data"))), stdout.String(), stderr.String()
	}
	good := "run_name: july\nscenarios: [inbox, standup]\nepisodes_per_cell: 2\nrun_dir: " + filepath.Join(dir, "runs") + "\nharnesses: [{name: agon}]\nskills:\n- {name: mine, content: \"# Mine\\nBe quick.\\n\"}\n- {name: theirs, flat_md_path: theirs.md, pin_sha256: PIN}\n"
	sum := "PIN"
	if code, _, errs := run(put("bad.yaml", strings.ReplaceAll(good, "PIN", pin))); code != 7 || !strings.Contains(errs, "nothing is played") || len(played) > 0 {
		t.Fatalf("another digest: exit %d, played %v, %s", code, played, errs)
	} else {
		_, rest, _ := strings.Cut(errs, "has the digest ")
		sum = rest[:64] // what the file really is
	}
	path := put("run.yaml", strings.ReplaceAll(good, "PIN", sum))
	code, out, errs := run(path, "--dry-run")
	var m commands.Matrix
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 0 || len(m.Cells) != 4 || len(played) > 0 {
		t.Fatalf("dry: exit %d, %v, %s %s", code, err, out, errs)
	}
	code, out, errs = run(path)
	m = commands.Matrix{}
	if err := json.Unmarshal([]byte(out), &m); err != nil || code != 3 || len(m.Cells) != 4 || strings.Join(played, " ") != "inbox inbox standup standup inbox inbox standup standup" {
		t.Fatalf("exit %d, %v, played %v, %s %s", code, err, played, out, errs)
	}
	if c := m.Cells[0]; c.Skill != "mine" || c.Qualified != 0 || c.Score != 0.75 || c.USD != 0.25 || c.Failed != 0 {
		t.Errorf("%+v", c)
	}
	if c := m.Cells[3]; c.Skill != "theirs" || c.SHA256 != sum || c.Pack != "e4464376f7452cd69be708f425fc7ba467cda980145c4e43ac4c8e04b035f7d9" || c.Qualified != 1 || c.Failed != 1 || c.Score != 0.5 || !strings.Contains(c.Error, "provider") {
		t.Errorf("%+v", c)
	}
	var kept commands.Matrix
	b, err := os.ReadFile(filepath.Join(dir, "runs", "july", "matrix.json"))
	if err != nil || json.Unmarshal(b, &kept) != nil || len(kept.Cells) != 4 {
		t.Errorf("%v %s", err, b)
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "july", "theirs_inbox_2.json")); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a scenario":     {"[inbox,", "[outbox,", "outbox"},
		"a name":         {"run_name: july", "run_name: ../july", "run_name"},
		"twice":          {"name: theirs", "name: mine", "each once"},
		"no pin":         {", pin_sha256: " + sum, "", "needs pin_sha256"},
		"both":           {"flat_md_path", "content: x, flat_md_path", "give content or flat_md_path"},
		"a harness":      {"{name: agon}", "{name: hermes, image: x}", "harnesses"},
		"too many":       {"per_cell: 2", "per_cell: 100000", "1 to 1000"},
		"a model":        {"scenarios:", "model: {name: glm-5}\nscenarios:", "AGON_LLM_MODEL=glm-5"},
		"unknown fields": {"scenarios:", "sceanrios: 1\nscenarios:", "sceanrios"},
		"blank skill":    {`"# Mine\nBe quick.\n"`, `" "`, "SKILL.md"},
	} {
		played = nil
		if code, _, errs := run(put("bad.yaml", strings.Replace(strings.ReplaceAll(good, "PIN", sum), c.from, c.to, 1))); code != 7 || !strings.Contains(errs, c.want) || len(played) > 0 {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
	}
}
