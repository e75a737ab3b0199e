package play

import (
	"io/fs"
	"testing"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

func office(t *testing.T) *clawbench.Set {
	t.Helper()
	sub, err := fs.Sub(data.FS, "tasks/office")
	if err != nil {
		t.Fatal(err)
	}
	set, err := clawbench.Load(sub)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Every shipped scenario is whole: fixtures, tools that read them, checks and
// criteria, two policies that may be entered, and a task that loads.
func TestOffice(t *testing.T) {
	set := office(t)
	if len(set.Scenarios) != 6 || set.Scenarios[0].Name != "morning_brief" {
		t.Fatalf("%d scenarios, the first is %s", len(set.Scenarios), set.Scenarios[0].Name)
	}
	for _, sc := range set.Scenarios {
		if len(sc.Scoring.Checks) < 8 || len(sc.Scoring.Criteria) < 4 {
			t.Errorf("%s: %d checks, %d criteria", sc.Name, len(sc.Scoring.Checks), len(sc.Scoring.Criteria))
		}
		fixtures, err := fs.Sub(set.FS, "fixtures")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mock.New(mock.Config{Fixtures: fixtures, Scenario: sc.Name}); err != nil {
			t.Error(err)
		}
		for _, variant := range []string{"baseline", "optimized"} {
			b, err := set.Fixture(sc, sc.Variants[variant])
			if err != nil {
				t.Fatal(err)
			}
			p := packfile.Build(packfile.BuildOptions{Policy: string(b)})
			if is := p.Issues(packfile.SchemaOPP); len(is) > 0 || Refuses(Signs(p)) {
				t.Errorf("%s %s: %v %v", sc.Name, variant, is, Signs(p))
			}
		}
		files, err := Task(set, sc)
		if err != nil {
			t.Fatal(err)
		}
		var list []blob.File
		for name, b := range files {
			list = append(list, blob.File{Path: name, Content: b})
		}
		if _, err := task.Load(blob.FS(list), "office/"+TaskName(sc.Name)); err != nil {
			t.Error(err)
		}
	}
}
