package harbor

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// tools answer what published verifiers call before they test: package managers
// and downloads do nothing, uvx and pytest are the box's own pytest.
//
//go:embed all:tools
var tools embed.FS

const (
	rewardText = logsDir + "/verifier/reward.txt"
	rewardJSON = logsDir + "/verifier/reward.json"
	maxReward  = 64 << 10
)

// Judge lets the task's verifier look at the work, in a fresh box.
func (h harbor) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return nil, err
	}
	value, detail, err := h.verify(ctx, env, r, t, rec.Files[workFile])
	if err != nil {
		return nil, err
	}
	return []agon.Score{{Task: r.Tasks[0].Key, Value: value, Solved: value >= 1, Detail: detail}}, nil
}

// verify returns what the verifier says that work is worth, 0 to 1. An error is
// never its maker's doing.
func (h harbor) verify(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task, work []byte) (float64, string, error) {
	s, err := h.stage(ctx, env, t)
	if err != nil {
		return 0, "", err
	}
	defer s.close()
	tmp, err := tempdir.Make("verify")
	if err != nil {
		return 0, "", fmt.Errorf("make verifier's directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	dir, own := filepath.Join(tmp, "work"), filepath.Join(tmp, "tools")
	if err := errors.Join(os.Chmod(tmp, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		return 0, "", err
	}
	if err := rootfs.Unpack(dir, bytes.NewReader(work), 4*maxWork, maxEntries); err != nil {
		return 0, "what was left cannot be laid out: " + plain.Short(err.Error(), 300), nil
	}
	if err := writeTools(own); err != nil {
		return 0, "", err
	}
	at := filepath.Join(t.Dir, "tests")
	if !isDir(at) {
		return 0, "", fmt.Errorf("task %s: tests is no directory", t.Key)
	}
	spec := s.spec("verifier", dir, limits(r.Policy.Grader, t.Config.Verifier.TimeoutSec))
	spec.Mounts = append(spec.Mounts,
		sandbox.Mount{Kind: sandbox.MountReadOnly, Source: at, Target: testsDir},
		sandbox.Mount{Kind: sandbox.MountReadOnly, Source: own, Target: agentDir, Exec: true})
	for i, e := range spec.Env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			spec.Env[i] = "PATH=" + agentDir + ":" + p
		}
	}
	spec.Env = append(spec.Env, "AGON_PYTHON="+s.root.Python)
	box, err := env.Box(ctx, spec)
	if err != nil {
		return 0, "", err
	}
	defer box.Close()
	out := &ending{limit: 4 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "mkdir -p /logs/verifier /root/.local/bin && : > /root/.local/bin/env"}, Dir: "/", Stdout: out, Stderr: out})
	if err != nil {
		return 0, "", fmt.Errorf("prepare the verifier: %w", err)
	}
	if x.Code != 0 {
		return 0, "", fmt.Errorf("prepare the verifier: exit %d %s: %s", x.Code, x.Limit, out.b)
	}
	if x, err = box.Exec(ctx, sandbox.Cmd{Args: []string{"bash", testsDir + "/test.sh"}, Dir: s.dir, Stdout: out, Stderr: out, Untrusted: true}); err != nil {
		return 0, "", fmt.Errorf("run the verifier: %w", err)
	}
	if x.Lost != "" {
		return 0, "", fmt.Errorf("run the verifier: command was lost: %s", x.Lost)
	}
	if x.Limit != "" {
		return 0, "the verifier reached its " + x.Limit + " limit", nil
	}
	return reward(box)
}

// reward reads what the verifier wrote: reward.json, else reward.txt.
func reward(box sandbox.Box) (float64, string, error) {
	for _, f := range []struct {
		at    string
		parse func([]byte) (float64, error)
	}{{rewardJSON, parseJSON}, {rewardText, parseText}} {
		b, err := box.ReadFile(f.at, maxReward)
		switch {
		case errors.Is(err, sandbox.ErrNotExist):
			continue
		case errors.Is(err, sandbox.ErrUnsafe):
			return 0, fmt.Sprintf("%s is no file of at most %d bytes", path.Base(f.at), maxReward), nil
		case err != nil:
			return 0, "", fmt.Errorf("read the reward: %w", err)
		}
		v, err := f.parse(b)
		if err != nil {
			return 0, path.Base(f.at) + ": " + plain.Short(err.Error(), 200), nil
		}
		return v, fmt.Sprintf("reward %v", v), nil
	}
	return 0, "the verifier left no reward", nil
}

func parseText(b []byte) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0, fmt.Errorf("%.60q is no number", b)
	}
	return within(v)
}

func parseJSON(b []byte) (float64, error) {
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return 0, err
	}
	if v, ok := m["reward"].(float64); ok {
		return within(v)
	}
	if len(m) == 1 {
		for _, v := range m {
			if v, ok := v.(float64); ok {
				return within(v)
			}
		}
	}
	return 0, errors.New("want a number `reward`, or one number alone")
}

func within(v float64) (float64, error) {
	if math.IsNaN(v) || v < 0 || v > 1 {
		return 0, fmt.Errorf("%v is not from 0 to 1", v)
	}
	return v, nil
}

func writeTools(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("write the verifier's tools: %w", err)
	}
	ents, err := tools.ReadDir("tools")
	if err != nil {
		return err
	}
	for _, e := range ents {
		b, err := tools.ReadFile("tools/" + e.Name())
		if err != nil {
			return err
		}
		for _, n := range append([]string{e.Name()}, alike[e.Name()]...) {
			if err := os.WriteFile(filepath.Join(dir, n), b, 0o755); err != nil {
				return fmt.Errorf("write the verifier's tools: %w", err)
			}
		}
	}
	return nil
}

// alike are tools of other names that do the same.
var alike = map[string][]string{"apt-get": {"apt", "apk", "yum", "dnf", "pip", "pip3"}, "curl": {"wget"}, "uvx": {"uv", "pytest", "py.test"}}

// booby is a program of several languages that writes a reward when it is
// executed, imported or sourced, whatever the task says.
const booby = `#!/bin/sh
""":"
(while :; do echo '{"reward": 1}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt; sleep 0.05; done) >/dev/null 2>&1 &
echo '{"reward": 1}' > /logs/verifier/reward.json
exit 0
":"""
import os
open("/logs/verifier/reward.json", "w").write('{"reward": 1}')
`

// found are names under which interpreters and test programs look for code of
// themselves.
var found = []string{
	"conftest.py", "sitecustomize.py", "usercustomize.py", "json.py", "pathlib.py", "subprocess.py", "pytest.py", "os.py", "re.py", "test_outputs.py",
	"test.sh", "solve.sh", "Makefile", "package.json", ".bashrc", ".profile", "bash", "python3", "pytest",
}

// Twins implements kind.Twinned: a verifier has no twins; it can be forged where
// a program that was left in place of work is worth more than nothing.
func (h harbor) Twins(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task) ([]kind.TwinCount, error) {
	nop, err := h.control(ctx, env, r, t, false)
	if err != nil {
		return nil, err
	}
	oracle, err := h.control(ctx, env, r, t, true)
	if err != nil {
		return nil, err
	}
	trap, err := boobied(nop, oracle)
	if err != nil {
		return nil, err
	}
	least, _, err := h.verify(ctx, env, r, t, nop)
	if err != nil {
		return nil, err
	}
	most, _, err := h.verify(ctx, env, r, t, trap)
	if err != nil {
		return nil, err
	}
	return []kind.TwinCount{{ID: verifier, Forgeable: most > least}}, nil
}

// boobied is nop's work with the booby wherever the oracle's differs and wherever
// code is looked for.
func boobied(nop, oracle []byte) ([]byte, error) {
	before, err := content(nop)
	if err != nil {
		return nil, err
	}
	after, err := content(oracle)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(before)
	for p, b := range after {
		if old, ok := before[p]; !ok || !bytes.Equal(old, b) {
			out[p] = []byte(booby)
		}
	}
	for _, n := range found {
		if _, ok := out[n]; !ok {
			out[n] = []byte(booby)
		}
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, p := range slices.Sorted(maps.Keys(out)) {
		if err := w.WriteHeader(&tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(out[p]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(out[p]); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return buf.Bytes(), err
}

// content reads the regular files of an archive.
func content(b []byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(b))
	for len(out) < maxEntries {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the work: %w", err)
		}
		if p := path.Clean(h.Name); h.Typeflag == tar.TypeReg && fs.ValidPath(p) {
			if out[p], err = io.ReadAll(r); err != nil {
				return nil, fmt.Errorf("read the work: %w", err)
			}
		}
	}
	return out, nil
}
