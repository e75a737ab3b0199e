package harbor

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// tools answer what published verifiers call before they test: package managers
// and downloads do nothing, uvx and pytest are the box's own pytest.
//
//go:embed all:tools
var tools embed.FS

const (
	verifierUID = 1001        // in the verifier's box; the contestant's user there is another
	ownDir      = "/verifier" // the verifier's home
	answered    = ownDir + "/.answered"
	rewardDir   = logsDir + "/verifier"
	rewardText  = rewardDir + "/reward.txt"
	rewardJSON  = rewardDir + "/reward.json"
	forgedMark  = rewardDir + "/forged" // what code of an exploiting agent leaves where it could have left a reward
	maxReward   = 64 << 10
)

// Judge lets the task's verifier look at the work, in a fresh box.
func (h harbor) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return nil, err
	}
	s, err := h.stage(ctx, env, t)
	if err != nil {
		return nil, err
	}
	defer s.close()
	value, detail, err := h.judge(ctx, env, r, s, rec.Files)
	if err != nil {
		return nil, err
	}
	return []agon.Score{{Task: t.Key, Value: value, Solved: value >= 1, Detail: detail}}, nil
}

// judge is what all turns are worth together. Steps that were not reached are worth nothing.
func (h harbor) judge(ctx context.Context, env kind.Env, r agon.RunSpec, s *stage, left map[string][]byte) (float64, string, error) {
	if len(s.conf.Steps) == 0 {
		v, err := h.verify(ctx, env, r, s, s.turns[0], left[workFile])
		return v.value, v.detail, err
	}
	var values []float64
	var details []string
	for i, u := range s.turns {
		work, ok := left[u.snapshot()]
		if !ok {
			break
		}
		v, err := h.verify(ctx, env, r, s, u, work)
		if err != nil {
			return 0, "", err
		}
		values, details = append(values, v.value), append(details, u.name+": "+v.detail)
		if why := u.reached(v.rewards); why != "" && i < len(s.turns)-1 {
			details = append(details, "later steps were not played: "+why)
			break
		}
	}
	total := 0.0
	switch {
	case len(values) == 0:
	case s.conf.Strategy == "final":
		if len(values) == len(s.turns) {
			total = values[len(values)-1]
		}
	default:
		for _, v := range values {
			total += v
		}
		total /= float64(len(s.turns))
	}
	return total, plain.Short(strings.Join(details, ", "), 500), nil
}

// verdict is what a verifier said.
type verdict struct {
	value   float64            // 0 to 1
	rewards map[string]float64 // by key
	detail  string
	forged  bool // code of the work could write where the reward is
}

// verify returns what the verifier of a turn says that work is worth. An error is
// never its maker's doing.
func (h harbor) verify(ctx context.Context, env kind.Env, r agon.RunSpec, s *stage, u turn, work []byte) (verdict, error) {
	tmp, err := tempdir.Make("verify")
	if err != nil {
		return verdict{}, fmt.Errorf("make verifier's directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	own, tests := filepath.Join(tmp, "tools"), filepath.Join(tmp, "tests")
	if err := os.Chmod(tmp, 0o755); err != nil {
		return verdict{}, err
	}
	if err := writeTools(own); err != nil {
		return verdict{}, err
	}
	programs, err := s.tests(u, tests)
	if err != nil {
		return verdict{}, err
	}
	archive, dropped, err := s.cleaned(work, programs)
	if err != nil {
		if errors.Is(err, errWork) {
			return verdict{detail: err.Error()}, nil
		}
		return verdict{}, err
	}
	place := s.conf.Environment
	spec := s.spec("verifier", place.limits(r.Policy.Grader, u.verifier.TimeoutSec))
	spec.UID, spec.GID = verifierUID, verifierUID
	spec.Mounts = append(spec.Mounts,
		sandbox.Mount{Kind: sandbox.MountScratch, Target: ownDir},
		sandbox.Mount{Kind: sandbox.MountReadOnly, Source: own, Target: agentDir, Exec: true})
	if programs {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountScratch, Target: testsDir})
	} else {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: tests, Target: testsDir, Exec: true})
	}
	agentPath := s.root.Path
	for i, e := range spec.Env {
		switch k, v, _ := strings.Cut(e, "="); k {
		case "PATH":
			spec.Env[i], agentPath = "PATH="+agentDir+":"+v, v
		case "HOME":
			spec.Env[i] = "HOME=" + ownDir
		}
	}
	spec.Env = append(spec.Env, s.verifierEnv(u, agentPath, programs)...)
	box, err := env.Box(ctx, spec)
	if err != nil {
		return verdict{}, err
	}
	defer box.Close()
	if err := s.replay(ctx, box, archive); err != nil {
		if errors.Is(err, errWork) {
			return verdict{detail: err.Error()}, nil
		}
		return verdict{}, err
	}
	ready := names(nil) + "; chmod 755 /logs && mkdir -p -m 700 " + rewardDir + " " + ownDir + "/.local/bin && : > " + ownDir + "/.local/bin/env && chmod 700 " + ownDir
	if programs {
		ready += "\n" + s.shared()
	}
	if err := prepare(ctx, box, ready); err != nil {
		return verdict{}, err
	}
	if programs {
		if err := hideTests(ctx, box, tests); err != nil {
			return verdict{}, err
		}
		stop, err := startPrograms(ctx, box, s)
		if err != nil {
			return verdict{}, err
		}
		defer stop()
	}
	out := &ending{limit: 4 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"bash", testsDir + "/test.sh"}, Dir: s.dir, Stdout: out, Stderr: out, Untrusted: true})
	if err != nil {
		return verdict{}, fmt.Errorf("run the verifier: %w", err)
	}
	if x.Lost != "" {
		return verdict{}, fmt.Errorf("run the verifier: command was lost: %s", x.Lost)
	}
	calls, _ := box.ReadFile(answered, maxLog)
	env.Progress("verifier", s.task.Key, map[string]any{"step": u.name, "exit": x.Code, "left_out": dropped, "answered": plain.Short(string(calls), 4000)})
	_, err = box.ReadFile(forgedMark, 1)
	forged := err == nil || errors.Is(err, sandbox.ErrUnsafe)
	if x.Limit != "" {
		return verdict{detail: "the verifier reached its " + x.Limit + " limit", forged: forged}, nil
	}
	v, err := reward(box)
	v.forged = forged
	if slices.ContainsFunc(dropped, func(p string) bool { return below(rewardDir, p) }) {
		v.detail += "; the agent left a reward of its own in " + rewardDir + ", which nothing reads"
	}
	return v, err
}

// verifierEnv are the variables of a verifier besides those of its image.
func (s *stage) verifierEnv(u turn, agentPath string, programs bool) []string {
	own := environOf(s.conf.Verifier.Env, u.verifier.Env)
	hidden := make([]string, 0, len(own))
	for _, e := range own {
		name, _, _ := strings.Cut(e, "=")
		hidden = append(hidden, name)
	}
	// A repository's own settings may name programs; the verifier's git runs none of them.
	settings := []string{"core.fsmonitor=false", "core.hooksPath=/dev/null"}
	if !programs {
		settings = append(settings, "safe.directory=*") // else only repositories that no program of the contestant made
	}
	out := append(own, "AGON_PYTHON="+s.root.Python, "AGON_AGENT_PATH="+agentPath, "AGON_HIDDEN="+strings.Join(hidden, ":"), "GIT_CONFIG_NOSYSTEM=1", "GIT_PAGER=cat", fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
	for i, x := range settings {
		k, v, _ := strings.Cut(x, "=")
		out = append(out, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, k), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, v))
	}
	return out
}

// tests lays out the tests of a turn: the task's, and the step's over them. It
// tells whether they run programs as the contestant's user.
func (s *stage) tests(u turn, dir string) (programs bool, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return false, fmt.Errorf("lay out tests: %w", err)
	}
	dst, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer dst.Close()
	src, err := os.OpenRoot(s.task.Dir)
	if err != nil {
		return false, fmt.Errorf("open task: %w", err)
	}
	defer src.Close()
	from := []string{"tests"}
	if u.name != "" {
		from = append(from, stepFile(u.name, "tests"))
	}
	found := false
	for _, f := range from {
		if fi, err := src.Stat(f); err != nil || !fi.IsDir() {
			continue
		}
		found = true
		if err := copyDir(src, f, dst, "", ""); err != nil {
			return false, fmt.Errorf("lay out tests: %w", err)
		}
	}
	if !found {
		return false, fmt.Errorf("task %s has no tests/", s.task.Key)
	}
	err = fs.WalkDir(dst.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !programs {
			var b []byte
			if b, err = dst.ReadFile(p); err == nil {
				programs = bytes.Contains(b, []byte("as-agent"))
			}
		}
		return err
	})
	return programs, err
}

// tarFS is an archive of the regular files of fsys.
func tarFS(fsys fs.FS) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if bytes.HasPrefix(b, []byte("#!")) {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(b))}); err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = w.Close()
	return buf.Bytes(), err
}

// reward reads what the verifier wrote: reward.json, else reward.txt.
func reward(box sandbox.Box) (verdict, error) {
	for _, f := range []struct {
		at    string
		parse func([]byte) (float64, map[string]float64, error)
	}{{rewardJSON, parseJSON}, {rewardText, parseText}} {
		b, err := box.ReadFile(f.at, maxReward)
		switch {
		case errors.Is(err, sandbox.ErrNotExist):
			continue
		case errors.Is(err, sandbox.ErrUnsafe):
			return verdict{detail: fmt.Sprintf("%s is not a file of at most %d bytes", path.Base(f.at), maxReward)}, nil
		case err != nil:
			return verdict{}, fmt.Errorf("read the reward: %w", err)
		}
		v, all, err := f.parse(b)
		if err != nil {
			return verdict{detail: path.Base(f.at) + ": " + plain.Short(err.Error(), 200)}, nil
		}
		return verdict{value: v, rewards: all, detail: fmt.Sprintf("the verifier's reward is %v", v)}, nil
	}
	return verdict{detail: "the verifier left no reward"}, nil
}

func parseText(b []byte) (float64, map[string]float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0, nil, fmt.Errorf("%.60q is not a number", b)
	}
	v, err = within(v)
	return v, map[string]float64{"reward": v}, err
}

func parseJSON(b []byte) (float64, map[string]float64, error) {
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		return 0, nil, err
	}
	all := map[string]float64{}
	for k, v := range m {
		if v, ok := v.(float64); ok {
			all[k] = v
		}
	}
	v, ok := all["reward"]
	if !ok && len(m) == 1 && len(all) == 1 {
		for _, v = range all {
			ok = true
		}
	}
	if !ok {
		return 0, nil, errors.New("want a number `reward`, or one number alone")
	}
	v, err := within(v)
	return v, all, err
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
