//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// TestWheel turns the flywheel once with the trainers' real libraries: the rule-based
// shopper solves what it teaches, and a model of a million weights that saw four of
// its plays is better on tasks that it never saw, at p < 0.01.
func TestWheel(t *testing.T) {
	python, dir := interoptest.Python(t, "trainer"), t.TempDir()
	sdk, err := filepath.Abs("../client/sdk")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-m", "agon.wheel", "--agon", agonBinary(t), "--out", dir, "--seeds", "1", "--plays", "2")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "OMP_WAIT_POLICY=PASSIVE", "TOKENIZERS_PARALLELISM=false", "HF_HUB_OFFLINE=1", "HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := os.ReadFile(filepath.Join(dir, "flywheel.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Base, SFT, RFT, P, Champion float64
		HeldOut                     int `json:"held_out"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Champion < .9 || got.P >= .01 || got.SFT <= got.Base || got.RFT <= got.Base || got.HeldOut != 120 {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "flywheel.svg")); err != nil {
		t.Error(err)
	}
}
