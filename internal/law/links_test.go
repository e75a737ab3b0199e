package law

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every relative link of a page leads to a file.
func TestLinks(t *testing.T) {
	seen := 0
	for name, b := range tracked(t, "*.md") {
		if strings.Contains(name, "/data/") {
			continue // tasks and samples: text for agents
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if to == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(name), to)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d links were found", seen)
	}
}

// The house has few rooms: at most 18 folders at the top of a clone.
func TestFewRooms(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-tree", "-d", "--name-only", "HEAD").Output()
	if err != nil {
		t.Fatalf("list folders: %v", err)
	}
	var rooms []string
	for name := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(name, ".") {
			rooms = append(rooms, name)
		}
	}
	if len(rooms) > 18 || len(rooms) < 5 {
		t.Errorf("%d folders at the top, want at most 18: %v", len(rooms), rooms)
	}
}

// What people, engine, gateway and corpus are built of knows no kind.
func TestNoKindsBelow(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"/engine/...", module+"/gateway/...", module+"/ui/...", module+"/corpus/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(pkg, module+"/kinds/") {
			t.Errorf("%s is below what must not know it", pkg)
		}
	}
}
