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

// layers lists the packages from the bottom up; a package may import only
// packages of lower layers, or its own folder. Same-layer imports point up.
// Longest prefix wins. ARCHITECTURE.md draws the same table.
var layers = [][]string{
	{""}, // the nouns: no I/O
	{"calc", "gitdiff", "internal/served", "plain", "blob", "samples", "tasks", "sdk", "internal/interoptest"},
	{"auth", "score", "incentive", "copycat", "shop", "pack", "merkle", "fetch"},
	{"client", "store", "sandbox", "gateway", "ledger"},
	{"task", "tools", "judge", "trajectory", "consensus", "kind/research/surface", "research/gitserve"},
	{"kind"},
	{"kind/coding", "kind/claim", "kind/research", "kind/pack", "kind/shopping"},
	{"platform", "validator", "supply"},
	{"kind/kindtest", "research"},
	{"wire", "mcp"},
	{"corpus"},
	{"internal/api", "internal/metrics", "internal/tracing", "internal/webhook", "cli", "web"},
	{"internal/run"},
	{"cmd", "bench", "internal/law"},
}

func rank(pkg string) int {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
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

// house is what a package belongs to: its first folder, or the first two below
// kind and internal, whose folders are neighbours and not one house.
func house(pkg string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	parts := strings.SplitN(rel, "/", 3)
	if len(parts) > 1 && (parts[0] == "kind" || parts[0] == "internal") {
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
			if to > from || (to == from && house(imp) != house(p.ImportPath)) {
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
