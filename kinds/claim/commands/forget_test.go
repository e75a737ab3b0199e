package commands_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// The command deletes a text of an arena's rounds, and says by its exit code what no
// round had and which arena has no rounds.
func TestForgetCommand(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(rounds.Folder(data, "news"), "000000-aa")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	items := filepath.Join(dir, "items.json")
	if err := os.WriteFile(items, []byte(`[{"id":"a","url":"https://n.example/a","text":"delete me"},{"id":"b","url":"https://n.example/b","text":"stay"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	forget := func(want int, args ...string) (r rounds.Forgot) {
		t.Helper()
		env, err := config.System()
		if err != nil {
			t.Fatal(err)
		}
		s, out, errOut := iostreams.Test("")
		a := &cli.App{IO: s, Env: env, Extras: kit.List{claim.Kit()}.Commands()}
		if code := a.Main(t.Context(), append([]string{"claim", "forget", "-o", "json", "--data", data}, args...)); code != want {
			t.Fatalf("exit %d, want %d: %s%s", code, want, errOut, out)
		}
		if want == cli.CodeOK || want == cli.CodePartly {
			if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		return r
	}
	if r := forget(cli.CodeOK, "news", "https://n.example/a"); r.Texts != 1 || len(r.Unknown) != 0 || r.Arena != "news" {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(items); err != nil || strings.Contains(string(b), "delete me") || !strings.Contains(string(b), "stay") {
		t.Errorf("%s %v", b, err)
	}
	if r := forget(cli.CodePartly, "news", "https://n.example/nowhere"); r.Texts != 0 || len(r.Unknown) != 1 {
		t.Errorf("%+v", r)
	}
	forget(cli.CodeNotFound, "other", "https://n.example/a")
	forget(cli.CodeUsage, "news")
}
