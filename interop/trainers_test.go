//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// TestShims: the shims of package agon are played by the trainers' own libraries with
// scripted models. Every other of ten answers is right and earns 1; what trains takes two steps.
func TestShims(t *testing.T) {
	dir := t.TempDir()
	url, answers := demoShop(t, dir)
	sdk, err := filepath.Abs("../client/sdk")
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{1, 0, 1, 0, 1, 0, 1, 0, 1, 0}
	for _, c := range []struct{ what, env string }{{"verifiers", "evals"}, {"skyrl", "skyrl"}, {"trl", "trainer"}, {"verl", "verl"}, {"generator", "verl"}} {
		t.Run(c.what, func(t *testing.T) {
			cmd := exec.Command(interoptest.Python(t, c.env), "trainers.py", c.what, url, answers)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk, "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "HF_HUB_OFFLINE=1", "OMP_WAIT_POLICY=PASSIVE", "TOKENIZERS_PARALLELISM=false")
			var errs bytes.Buffer
			cmd.Stderr = &errs
			said, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			said = bytes.TrimSpace(said)
			said = said[bytes.LastIndexByte(said, '\n')+1:]
			var got struct {
				Rewards []float64
				Steps   map[string]int
			}
			if err := json.Unmarshal(said, &got); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			if !slices.Equal(got.Rewards, want) {
				t.Errorf("rewards %v, want %v", got.Rewards, want)
			}
			for name, n := range got.Steps {
				if n != 2 {
					t.Errorf("%s: %d steps", name, n)
				}
			}
		})
	}
}
