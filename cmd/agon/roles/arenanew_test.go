package roles

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
)

// What agon arena new writes is an arena that agon arena check takes, for
// every kind; mistakes are named all at once.
func TestArenaTemplates(t *testing.T) {
	for _, k := range kinds.All().Names() {
		text, err := arenaTemplate(kinds.All(), k)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "arena.toml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := checkArena(kit.Options{Kits: kinds.All(), Getenv: os.Getenv}, path)
		if err != nil {
			t.Errorf("%s: %v\n%s", k, err, text)
			continue
		}
		if got.ID != "my-"+k || got.Kind != k {
			t.Errorf("%+v", got)
		}
		broken := strings.NewReplacer(`id = "my-`, `id = "My_`, "wall_ms = ", "wall_ms = -", "netuid = ", "max_leases = 5000\nnetuid = ").Replace(string(text))
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = checkArena(kit.Options{Kits: kinds.All(), Getenv: os.Getenv}, path)
		if err == nil {
			t.Fatalf("%s: a broken file was let in", k)
		}
		for _, want := range []string{"id:", "wall_ms", "max_leases"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not named in %v", k, want, err)
			}
		}
	}
	if _, err := arenaTemplate(kinds.All(), "chess"); err == nil {
		t.Error("a kind that is none")
	}
	if _, err := arenaTemplate(kit.List{{Kind: "chess"}}, "chess"); err == nil || !strings.Contains(err.Error(), "ships no arena") {
		t.Errorf("a kind without Demo: %v", err)
	}
}

// The check refuses what would not open: no task, and one that would count twice.
func TestArenaCheckReadsTasks(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := arenaTemplate(kinds.All(), "harbor")
	must(err)
	path := filepath.Join(dir, "arena.toml")
	must(os.WriteFile(path, regexp.MustCompile(`(?m)^sets = .*`).ReplaceAll(text, []byte(`sets = ["./tasks"]`)), 0o600))
	must(os.Mkdir(filepath.Join(dir, "tasks"), 0o700))
	check := func(want string) {
		t.Helper()
		_, err := checkArena(kit.Options{Kits: kinds.All(), Getenv: os.Getenv}, path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check("sets: the arena has no task")
	hello := os.DirFS(filepath.FromSlash("../../../kinds/harbor/tasks/basic/hello"))
	must(os.CopyFS(filepath.Join(dir, "tasks", "one"), hello))
	check("")
	must(os.CopyFS(filepath.Join(dir, "tasks", "two"), hello))
	check("sets: tasks tasks/one and tasks/two have the same content")
}

// The check reads a supply: a generator needs no set, a folder has enough for the first set and the next.
func TestArenaCheckReadsSupplies(t *testing.T) {
	dir := t.TempDir()
	basic := filepath.FromSlash("../../../kinds/harbor/tasks/basic/")
	for _, name := range []string{"hello", "totals"} {
		if err := os.CopyFS(filepath.Join(dir, "stock", name), os.DirFS(filepath.Join(basic, name))); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		kind, supply string
		tasks        int
		want         string
	}{
		"a generator":        {"shopping", "from = \"generator\"\ntasks = 3", 3, ""},
		"levels":             {"pack", "from = \"generator\"\ntasks = 6\n[supply.difficulty]\nleast = 1\nmost = 5\ntarget = 0.7", 6, ""},
		"too high a level":   {"pack", "from = \"generator\"\ntasks = 6\n[supply.difficulty]\nleast = 1\nmost = 6\ntarget = 0.7", 0, "supply.difficulty.most: 6: want 1 (least) to 5"},
		"no levels":          {"shopping", "from = \"generator\"\ntasks = 3\n[supply.difficulty]\nleast = 1\nmost = 5\ntarget = 0.7", 0, "supply.difficulty: only the tasks of a generator with levels have one"},
		"a folder":           {"harbor", "from = \"directory\"\npath = \"./stock\"\ntasks = 1", 1, ""},
		"a folder too short": {"harbor", "from = \"directory\"\npath = \"./stock\"\ntasks = 2", 0, "supply.path: it has 2 tasks; the first set and the next are drawn before the arena opens, which takes 4"},
		"no folder":          {"harbor", "from = \"bank\"\npath = \"./away\"\ntasks = 1", 0, "supply.path: "},
	} {
		text, err := arenaTemplate(kinds.All(), c.kind)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "arena.toml")
		text = append(regexp.MustCompile(`(?m)^sets = .*`).ReplaceAll(text, []byte("sets = []")), "\n[period]\nhours = 1\n\n[supply]\n"+c.supply+"\n"...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := checkArena(kit.Options{Kits: kinds.All(), Getenv: os.Getenv}, path)
		if c.want == "" && (err != nil || got.Tasks != c.tasks) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %+v %v, want %q", name, got, err, c.want)
		}
	}
}

// Several files are several arenas; two of one id are refused by both names.
func TestSeveralArenaFiles(t *testing.T) {
	write := func(id string) string {
		t.Helper()
		text, err := arenaTemplate(kinds.All(), "claim")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), id+".toml")
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), `id = "my-claim"`, `id = "`+id+`"`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two := write("one"), write("two")
	got, err := arenaFiles(kit.Options{Kits: kinds.All(), Arenas: []string{one, two, "demo-pack"}})
	if err != nil || len(got) != 3 || got[0].ID != "one" || got[1].ID != "two" || got[2].ID != "demo-pack" {
		t.Errorf("%+v %v", got, err)
	}
	again := write("one")
	if _, err := arenaFiles(kit.Options{Kits: kinds.All(), Arenas: []string{one, two, again}}); err == nil || !strings.Contains(err.Error(), one+" and "+again+" have the same id, one") {
		t.Error(err)
	}
}
