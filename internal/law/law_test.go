// Package law holds the one rule about imports: they point down.
package law

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/agon-arena/agon"

// layers lists the folders from the bottom up; a package may import only
// packages of lower layers, or of its own room. Longest prefix wins.
// ARCHITECTURE.md draws the same table.
var layers = [][]string{
	{"", "docs"}, // the nouns: no I/O; pages of text
	{"calc", "internal"},
	{"auth/certs"}, // buckets are reached with them, too
	{"auth", "sandbox", "blob"},
	{"client", "gateway", "ledger"},
	{"engine", "corpus"},
	{"ui"},
	{"kinds/kit"},
	{aKind},
	{"kinds"},
	{"cmd", "bench", "interop", "internal/law"},
}

// aKind stands for every folder kinds/NAME but kinds/kit: adding one changes
// nothing here.
const aKind = "kinds/*"

func rank(pkg string) int {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	if strings.HasPrefix(rel, "kinds/") && rel != "kinds/kit" && !strings.HasPrefix(rel, "kinds/kit/") {
		rel = aKind
	}
	best, at := -1, -1
	for i, l := range layers {
		for _, p := range l {
			if (rel == p || (p != "" && strings.HasPrefix(rel, p+"/"))) && len(p) > best {
				best, at = len(p), i
			}
		}
	}
	return at
}

// room is what a package belongs to: its first folder, or the first two below
// kinds, whose folders never import each other.
func room(pkg string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	parts := strings.SplitN(rel, "/", 3)
	if len(parts) > 1 && parts[0] == "kinds" {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		from := rank(p.ImportPath)
		if from < 0 {
			t.Errorf("%s stands in no layer: add it to the table", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			to := rank(imp)
			if to > from || (to == from && room(imp) != room(p.ImportPath)) {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down", p.ImportPath, from, imp, to)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("go list found only %d packages", seen)
	}
}

// The nouns do no I/O.
func TestRootImportsNoIO(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, module).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, banned := range []string{"os", "net", "net/http", "io", "database/sql", "os/exec"} {
		for _, imp := range strings.Fields(string(out)) {
			if imp == banned {
				t.Errorf("the root package imports %s", imp)
			}
		}
	}
}
