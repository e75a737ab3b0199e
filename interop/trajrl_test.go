//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// command finds the commands that the CLI's help lists.
var command = regexp.MustCompile(`(?m)^│ ([a-z][a-z-]*) {2,}`)

// resting is an answer without the heights of blocks, the times that follow from them, which
// are counted back from the newest one and may be off by one at the next look, and the time at
// which the server read what it answers from.
func resting(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if k != "blockHeight" && k != "block_height" && k != "lastSetWeightsAt" && k != "updatedAt" {
				out[k] = resting(x)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, resting(x))
		}
		return out
	}
	return v
}

// Every command of the field's newest observer CLI against `agon serve`, over a demo
// that was played and decided before: piped it prints what the server answers, on a
// terminal nothing falls over. A command that a later help lists, and that is not
// run here, fails.
func TestTrajrl(t *testing.T) {
	dir := t.TempDir()
	up := exec.Command(agonBinary(t), "up", "--arena", "pack.toml", "--once", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "-o", "json")
	var said bytes.Buffer
	up.Stderr = &said
	if out, err := up.Output(); err != nil {
		t.Fatalf("agon up: %v\n%s\n%s", err, out, said.String())
	}
	url := serve(t, dir, "serve")
	bin := interoptest.File(t, "trajrl-newest", "bin", "trajrl")
	run := func(cmd *exec.Cmd) (string, error) {
		t.Helper()
		var out, errs bytes.Buffer
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TRAJRL_BASE_URL=" + url, "COLUMNS=220", "LINES=60", "TERM=xterm", "LC_ALL=C.UTF-8", "PYTHONUTF8=1", "NO_PROXY=*"}
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || err == nil && strings.Contains(out.String()+errs.String(), "Traceback") {
			t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out.String(), errs.String())
		}
		return out.String(), err
	}
	get := func(path string) (v map[string]any) {
		t.Helper()
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || json.Unmarshal(b, &v) != nil {
			t.Fatalf("%s: %v %.300s", path, err, b)
		}
		return v
	}
	first := func(path, list, field string) string {
		t.Helper()
		for _, x := range get(path)[list].([]any) {
			if s, _ := x.(map[string]any)[field].(string); s != "" {
				return s
			}
		}
		t.Fatalf("%s: nothing in %s has %s", path, list, field)
		return ""
	}
	validator := first("/api/validators", "validators", "hotkey")
	won, _ := get("/api/v2/winner/current")["winner"].(map[string]any)
	var miner, hash string
	if won != nil {
		miner, hash = won["hotkey"].(string), won["pack_hash"].(string)
	} else { // nobody has won: some miner with a pack
		for _, x := range get("/api/miners")["miners"].([]any) {
			row := x.(map[string]any)
			if s, _ := row["packHash"].(string); s != "" {
				miner, hash = row["hotkey"].(string), s
			}
		}
	}
	// Where a path is given, what is printed is what the server answers there.
	plays := []struct{ path, args string }{
		{"", "challenge"}, // its block moves
		{"", "winner --history 5"},
		{"/api/queue", "queue"},
		{"/api/queue?limit=1", "queue -l 1 --eligible-only"},
		{"/api/validators", "validators --detail"},
		{"/api/miners/" + miner, "miner " + miner},
		{"/api/miners/" + miner + "/packs/" + hash, "pack " + miner + " " + hash},
		{"/api/submissions", "submissions"},
		{"", "submissions --failed"},
		{"", "analyze"},
		{"", "analyze --deep"},
		{"/api/eval-logs?limit=50", "logs"},
		{"", "logs --show"},
		{"", "logs -t miner --show"},
		{"", "logs -t miner --dump-to " + filepath.Join(dir, "dump")},
		{"/api/stats", "stats"},
		{"/api/epoch/1", "epoch 1"},
		{"", "leaderboard"},
		{"/api/v2/scores/recent?limit=5", "events -l 5"},
		{"/api/scores/by-validator?validator=" + validator, "scores " + validator},
		{"", "progress"},
		{"/api/validator/" + validator + "/activity?limit=50", "activity " + validator},
		{"/api/winners", "winners"},
		{"", "nodes"},
		{"", "nodes -t miner"},
		{"/api/prices", "prices"},
		{"/api/bench", "bench"},
		{"/api/bench/miner-scores?hotkey=" + miner, "bench-miner " + miner},
	}
	help, err := run(exec.Command(bin, "--help"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, p := range plays {
		args := strings.Fields(p.args)
		ran[args[0]] = true
		out, err := run(exec.Command(bin, args...))
		if err != nil || strings.TrimSpace(out) == "" {
			t.Errorf("trajrl %s: %v, %.300s", p.args, err, out)
		}
		var got map[string]any
		if p.path != "" {
			if want := get(p.path); json.Unmarshal([]byte(out), &got) != nil || !reflect.DeepEqual(resting(got), resting(want)) {
				t.Errorf("trajrl %s prints\n%.600s\nthe server has\n%v", p.args, out, want)
			}
		}
		if shown, err := run(exec.Command("script", "-qec", "stty cols 220; '"+bin+"' "+p.args, "/dev/null")); err != nil || len(strings.TrimSpace(shown)) < 20 {
			t.Errorf("trajrl %s on a terminal: %v\n%s", p.args, err, shown)
		}
	}
	listed := command.FindAllStringSubmatch(help, -1)
	if len(listed) < 20 {
		t.Errorf("the help lists %d commands:\n%s", len(listed), help)
	}
	for _, m := range listed {
		if !ran[m[1]] {
			t.Errorf("trajrl %s is not run here", m[1])
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "dump", "validator.log")); err != nil {
		t.Errorf("dump: %v", err)
	}
	for _, args := range [][]string{{"miner", "5Nobody"}, {"epoch", "999999"}, {"nodes", "-t", "other"}} {
		if out, err := run(exec.Command(bin, args...)); err == nil {
			t.Errorf("trajrl %s succeeds: %s", strings.Join(args, " "), out)
		}
	}
}
