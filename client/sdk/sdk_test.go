package sdk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The pins stand in two files, which say the same.
func TestRequirements(t *testing.T) {
	b, err := os.ReadFile("pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	if want := `train = ["` + strings.Join(Requirements, `", "`) + `"]`; !strings.Contains(string(b), want) {
		t.Errorf("pyproject.toml has no line %s", want)
	}
}

// The parts of the package that need no trainer, by the python3 that is here.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.Command(python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() != nil {
		t.Fatalf("make setup brings python3; want 3.10 or newer: %v", err)
	}
	dir := t.TempDir()
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "agon", "env.py")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-m", "unittest", "discover", "-s", "tests")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
