//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Tasks of jest (from npm) and of cargo, in images made here: the reference solves
// them, doing nothing does not, and every deciding test has twins.
func TestRunnersInImages(t *testing.T) {
	agon := func(t *testing.T, v any, args ...string) {
		t.Helper()
		cmd := exec.Command(agonBinary(t), append(args, "-o", "json")...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, _ := cmd.Output() // its status says that a task did not pass
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, errs.String())
		}
	}
	for _, name := range []string{"rle", "wrap"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data := filepath.Join(dir, "data")
			file, err := os.ReadFile(filepath.Join("testdata", "runners", name+".Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			image := filepath.Join(dir, "image")
			if err := os.Mkdir(image, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(image, "Dockerfile"), file, 0o644); err != nil {
				t.Fatal(err)
			}
			var img struct{ Digest string }
			agon(t, &img, "image", "build", image, "--data", data)
			at := filepath.Join(dir, name)
			if err := os.CopyFS(at, os.DirFS(filepath.Join("testdata", "runners", name))); err != nil {
				t.Fatal(err)
			}
			config := filepath.Join(at, "task.toml")
			b, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, bytes.Replace(b, []byte("@IMAGE@"), []byte(img.Digest), 1), 0o644); err != nil {
				t.Fatal(err)
			}
			var x struct {
				OK, Forgeable      bool
				Oracle, Nop, Twins float64
				Reason             string
			}
			agon(t, &x, "task", "check", "--paid", at, "--data", data)
			if !x.OK || x.Oracle != 1 || x.Nop != 0 || x.Forgeable || x.Twins < 4 {
				t.Errorf("%+v", x)
			}
		})
	}
}
