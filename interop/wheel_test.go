//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// TestWheel turns the flywheel once with the trainers' real libraries: the rule-based
// shopper solves what it teaches, and a model of a million weights that saw four of
// its plays is better on tasks that it never saw, at p < 0.01. It is killed while it
// samples, and goes on where it was. The model then enters an arena in which the
// rule-based sample sits, and the arena's rule decides.
func TestWheel(t *testing.T) {
	python, dir := interoptest.Python(t, "trainer"), t.TempDir()
	sdk, err := filepath.Abs("../client/sdk")
	if err != nil {
		t.Fatal(err)
	}
	binary := agonBinary(t)
	turn := func() *exec.Cmd {
		cmd := exec.Command(python, "-m", "agon.wheel", "--agon", binary, "--out", dir, "--seeds", "1", "--plays", "2", "--champion", "../kinds/shopping/data/samples/rules/agent.py")
		cmd.Env = append(os.Environ(), "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "OMP_WAIT_POLICY=PASSIVE", "TOKENIZERS_PARALLELISM=false", "HF_HUB_OFFLINE=1", "HOME="+dir)
		return cmd
	}
	killed := turn()
	errs, err := killed.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	said, sampled := bufio.NewScanner(errs), false
	var all []string
	for said.Scan() {
		all = append(all, said.Text())
		if sampled = strings.Contains(said.Text(), `"stage": "plays"`); sampled {
			break
		}
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	if !sampled {
		t.Fatalf("it sampled nothing: %s", strings.Join(all, "\n"))
	}
	whole := turn()
	var words bytes.Buffer
	whole.Stderr = &words
	if err := whole.Run(); err != nil {
		t.Fatalf("%v: %s", err, words.String())
	}
	if s := words.String(); strings.Contains(s, `"stage": "base"`) || strings.Contains(s, `"stage": "plays", "step": 64,`) || !strings.Contains(s, `"stage": "plays"`) {
		t.Errorf("what was done is done again: %s", s)
	}
	out, err := os.ReadFile(filepath.Join(dir, "flywheel.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Base, SFT, RFT, P, Champion float64
		HeldOut                     int `json:"held_out"`
		Arena                       []struct {
			Outcome, Rule   string
			Champion, Model struct{ Solved, Total int }
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Champion < .9 || got.P >= .01 || got.SFT <= got.Base || got.RFT <= got.Base || got.HeldOut != 120 {
		t.Errorf("%+v", got)
	}
	if len(got.Arena) != 1 || got.Arena[0].Rule != "paired" || got.Arena[0].Outcome == "" || got.Arena[0].Champion.Total != 120 || got.Arena[0].Model.Total != 120 || got.Arena[0].Model.Solved == 0 {
		t.Errorf("in the arena: %+v", got.Arena)
	}
	if _, err := os.Stat(filepath.Join(dir, "flywheel.svg")); err != nil {
		t.Error(err)
	}
}
