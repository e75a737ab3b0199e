//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// TestAuditOfModels: three models of a million weights are trained here, one of them on
// held tasks on purpose. The audit catches that one, by what its door tells of tokens, and
// neither the base nor the one that was trained as long on other tasks.
func TestAuditOfModels(t *testing.T) {
	python := interoptest.Python(t, "trainer")
	agon, dir := agonBinary(t), t.TempDir()
	sdk, err := filepath.Abs("../client/sdk")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1", "OMP_WAIT_POLICY=PASSIVE", "TOKENIZERS_PARALLELISM=false", "HF_HUB_OFFLINE=1", "HOME="+dir)
	run := func(name string, args ...string) ([]byte, int) {
		cmd := exec.Command(name, args...)
		var errs bytes.Buffer
		cmd.Env, cmd.Stderr = env, &errs
		out, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != 0 && code != 7 {
			t.Fatalf("%s %v: %v\n%s", name, args, err, errs.String())
		}
		return out, cmd.ProcessState.ExitCode()
	}
	trained, _ := run(python, "audit.py", agon, dir)
	t.Logf("%s", bytes.TrimSpace(trained))
	for model, caught := range map[string]bool{"base": false, "honest": false, "leaky": true} {
		door := exec.Command(python, "-m", "agon.door", filepath.Join(dir, model), "--listen", "127.0.0.1:0")
		door.Env, door.Stderr = env, os.Stderr
		out, err := door.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := door.Start(); err != nil {
			t.Fatal(err)
		}
		var at struct{ URL string }
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &at)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		said, code := run(agon, "corpus", "audit-model", "--door", at.URL, "--held", filepath.Join(dir, "held"), "--public", filepath.Join(dir, "fresh"), "-o", "json")
		_ = door.Process.Signal(os.Interrupt)
		_ = door.Wait()
		var r struct {
			Method string
			P      *float64
			Caught bool
		}
		if err := json.Unmarshal(said, &r); err != nil || r.P == nil {
			t.Fatalf("%s: %v", said, err)
		}
		t.Logf("%s: %s", model, bytes.TrimSpace(said))
		if r.Method != "logprobs" || r.Caught != caught || (code == 7) != caught || caught && *r.P > .001 {
			t.Errorf("%s: exit code %d, %s", model, code, said)
		}
	}
}
