//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/kinds/shopping/data"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// demoShop serves the demo's public problems to trainers; answers is a file of what is
// right for each, "" where nothing is.
func demoShop(t *testing.T, dir string) (url, answers string) {
	t.Helper()
	right := map[string]string{}
	sets, err := data.FS.ReadDir("tasks/demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range sets {
		if !e.IsDir() {
			continue
		}
		b, err := data.FS.ReadFile("tasks/demo/" + e.Name() + "/" + play.RewardFile)
		if err != nil {
			t.Fatal(err)
		}
		var p shop.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range p.Reward.Items {
			if !p.Unanswerable {
				ids = append(ids, i.ProductID)
			}
		}
		right["demo/"+e.Name()] = strings.Join(ids, ",")
	}
	b, err := json.Marshal(right)
	if err != nil {
		t.Fatal(err)
	}
	answers = filepath.Join(dir, "answers.json")
	if err := os.WriteFile(answers, b, 0o600); err != nil {
		t.Fatal(err)
	}

	agon := exec.Command(agonBinary(t), "env", "serve", "--arena", "demo-shopping", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "-o", "jsonl")
	out, err := agon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	agon.Stderr = os.Stderr
	if err := agon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agon.Process.Signal(os.Interrupt)
		_ = agon.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		URL      string
		Tasks    int
		Withheld int
	}
	if err := json.Unmarshal(line, &ready); err != nil || ready.Tasks != len(right) || ready.Withheld == 0 {
		t.Fatalf("%s: %v", line, err)
	}
	if resp, err := http.Get(ready.URL + "/health"); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	return ready.URL, answers
}

// TestTrainers: the clients of OpenEnv and ORS play ten episodes each of the demo's
// problems: every other answer is right, and earns 1.
func TestTrainers(t *testing.T) {
	dir := t.TempDir()
	url, file := demoShop(t, dir)
	played(t, "trainers", "env.py", url, file, "openenv", "ors")
}

// TestNeMoGym: so does NeMo Gym's own agent, which retries what was lost.
func TestNeMoGym(t *testing.T) {
	url, file := demoShop(t, t.TempDir())
	played(t, "nemo", "nemo.py", url, file, "nemo")
}

// played runs a script that plays ten episodes by each client of the names.
func played(t *testing.T, env, script, url, file string, names ...string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(interoptest.Python(t, env), script, url, file)
	cmd.Env = append(os.Environ(), "HOME="+dir, "PYTHONDONTWRITEBYTECODE=1")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	said = bytes.TrimSpace(said)
	var got map[string]struct {
		Rewards []float64
		Absent  string
	}
	if err := json.Unmarshal(said[bytes.LastIndexByte(said, '\n')+1:], &got); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	want := []float64{1, 0, 1, 0, 1, 0, 1, 0, 1, 0}
	for _, name := range names {
		if got[name].Absent != "" {
			interoptest.Absent(t, got[name].Absent)
		}
		if !slices.Equal(got[name].Rewards, want) {
			t.Errorf("%s: %v, want %v", name, got[name].Rewards, want)
		}
	}
}
