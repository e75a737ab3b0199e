package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/task/leak"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// The unpatched base is replayed three times with one seed, which tells what
// machines do, and once with each of four more, which tells what seeds do.
const (
	preflightRuns  = 3
	preflightSeeds = 5
)

// PreflightCheck is one thing that preflight looked at.
type PreflightCheck struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
}

// PreflightReport is what is known of a task before it goes live.
type PreflightReport struct {
	Task   string           `json:"task"`
	OK     bool             `json:"ok"` // no check failed
	Checks []PreflightCheck `json:"checks"`
	// Values are the metric of the unpatched base, replayed with one seed.
	// Baseline is their middle and Band their spread: what the task's
	// "baseline" and "band" should say.
	Values   []float64 `json:"values"`
	Baseline float64   `json:"baseline"`
	Band     float64   `json:"band"`
	// BySeed are the values with different seeds, the first of which is Baseline's.
	// Noise is their spread.
	BySeed []SeedValue `json:"by_seed"`
	Noise  float64     `json:"noise"`
	// Leaks are places that contestants can read and that hold hidden bytes.
	Leaks []leak.Leak `json:"leaks"`
	// The longest of the replays.
	SetupMS     int64 `json:"setup_ms"`
	BenchmarkMS int64 `json:"benchmark_ms"`
	MaxRSS      int64 `json:"max_rss_bytes"`
}

// SeedValue is what the base came to with one seed.
type SeedValue struct {
	Seed  int64   `json:"seed"`
	Value float64 `json:"value"`
}

func (r *PreflightReport) add(name, status, format string, args ...any) {
	r.Checks = append(r.Checks, PreflightCheck{name, status, plain.Short(fmt.Sprintf(format, args...), 600)})
	if status == "fail" {
		r.OK = false
	}
}

// Preflight replays the unpatched base of a task from clean trees, looks for its
// hidden data in all that contestants can read, and tries the surface with attacks. r names the task. An error means that it
// could not be tried; what is wrong with the task is in the report.
func (k *Kind) Preflight(ctx context.Context, env kind.Env, r agon.RunSpec) (PreflightReport, error) {
	rep := PreflightReport{OK: true, Leaks: []leak.Leak{}, BySeed: []SeedValue{}}
	if len(r.Tasks) == 1 {
		rep.Task = r.Tasks[0].Key
	}
	p, done, err := k.player(ctx, env, r)
	if err != nil {
		if ctx.Err() != nil {
			return rep, ctx.Err()
		}
		rep.add("clean base", "fail", "%v", err)
		return rep, nil
	}
	defer done()
	p.resume = resume{} // a preflight has no attempt before it
	commit := p.base.commit
	if commit == "" {
		commit = "the task's own tree"
	}
	rep.add("clean base", "ok", "%d files, %s", len(p.base.marks), commit)
	p.preflightSurface(&rep)
	if err := p.preflightHidden(ctx, &rep); err != nil {
		return rep, err
	}
	if !rep.OK {
		rep.add("benchmark", "warn", "not replayed: mend what stands above first")
		return rep, nil
	}
	return rep, p.preflightRuns(ctx, &rep)
}

// preflightRuns measures the base.
func (p *player) preflightRuns(ctx context.Context, rep *PreflightReport) error {
	seed := seedOf(p.digest, "replay", 0)
	shortest := int64(math.MaxInt64)
	for range preflightRuns {
		var obs Observed
		m, err := p.measureBase(ctx, seed, &obs)
		var e *ended
		if errors.As(err, &e) {
			rep.add("benchmark", "fail", "the unpatched base gives no number: %s; the end of its output: %s", e.notes, lastLines(p.redacted()))
			return nil
		}
		if err != nil {
			return err
		}
		rep.Values = append(rep.Values, m[p.t.MetricName])
		shortest = min(shortest, obs.BenchmarkMS)
		rep.SetupMS, rep.BenchmarkMS, rep.MaxRSS = max(rep.SetupMS, obs.SetupMS), max(rep.BenchmarkMS, obs.BenchmarkMS), max(rep.MaxRSS, obs.MaxRSS)
	}
	sorted := slices.Sorted(slices.Values(rep.Values))
	low, high := sorted[0], sorted[len(sorted)-1]
	rep.Band, rep.Baseline = high-low, sorted[len(sorted)/2]
	rep.add("benchmark", "ok", "%s of the base: %v", p.t.MetricName, rep.Values)
	rules := p.t.Rules
	rules.Band = quorum.BandAt(rules, rep.Baseline)
	if err := p.preflightNoise(ctx, rep, seed, rules.Band); err != nil {
		return err
	}
	within := rules.Absolute + rules.Relative*max(abs(low), abs(high))
	switch {
	case rep.Band == 0:
		rep.add("determinism", "ok", "three replays give the same number")
	case rep.Band > within:
		rep.add("determinism", "fail", "three replays differ by %v, rules.absolute and rules.relative allow %v: replays of honest validators would not agree", rep.Band, within)
	case rep.Band > rules.Band:
		rep.add("determinism", "fail", "three replays differ by %v, rules.band says %v: noise would pass for a gain", rep.Band, rules.Band)
	default:
		rep.add("determinism", "ok", "three replays differ by %v, rules.band says %v", rep.Band, rules.Band)
	}
	if err := p.preflightResume(ctx, rep, seed, time.Duration(shortest)*time.Millisecond/2, max(within, rules.Band, rep.Band)); err != nil {
		return err
	}
	if off := abs(rep.Baseline - p.t.Baseline); off > max(rep.Band, rules.Band, within, 1e-9*abs(rep.Baseline)) && off > 1e-6*abs(rep.Baseline) {
		rep.add("baseline", "warn", "baseline says %v, the base gives %v", p.t.Baseline, rep.Baseline)
	} else {
		rep.add("baseline", "ok", "%v", p.t.Baseline)
	}
	status, detail := timeVerdict(rep.SetupMS, rep.BenchmarkMS, int64(p.t.TimeBudgetSeconds)*1000)
	rep.add("time", status, "%s", detail)
	if l := p.run.Policy.Agent.MemoryBytes; l > 0 && rep.MaxRSS*10 > l*8 {
		rep.add("memory", "warn", "%d bytes of %d", rep.MaxRSS, l)
	} else {
		rep.add("memory", "ok", "%d bytes at most", rep.MaxRSS)
	}
	return nil
}

// timeVerdict compares the slowest setup and benchmark of the base with the
// task's budget, all in milliseconds. A validator may be half as fast as this
// machine, so a base that needs over half of the budget is a warning; over
// nine tenths is a failure.
func timeVerdict(setupMS, benchmarkMS, budgetMS int64) (status, detail string) {
	switch used := setupMS + benchmarkMS; {
	case used*10 > budgetMS*9:
		return "fail", fmt.Sprintf("%d ms of a budget of %d ms: a slower validator would run out of it", used, budgetMS)
	case used*2 > budgetMS:
		return "warn", fmt.Sprintf("%d ms of a budget of %d ms: less than twice as much as the base needs", used, budgetMS)
	default:
		return "ok", fmt.Sprintf("setup %d ms, benchmark %d ms, budget %d ms", setupMS, benchmarkMS, budgetMS)
	}
}

func abs(x float64) float64 { return max(x, -x) }

func lastLines(log []byte) string {
	if n := len(log) - 300; n > 0 {
		log = log[n:]
	}
	return string(log)
}

// measureBase is one whole replay without a patch.
func (p *player) measureBase(ctx context.Context, seed int64, obs *Observed) (map[string]float64, error) {
	x := &side{name: "base", changes: &surface.Result{OK: true}}
	defer func() {
		if x.layer != nil {
			_ = x.layer.Remove()
		}
	}()
	if err := p.setup(ctx, x, obs); err != nil {
		return nil, err
	}
	return p.benchmark(ctx, x, seed, obs)
}

// preflightSurface tries patches that no task may accept.
func (p *player) preflightSurface(rep *PreflightReport) {
	rule := p.t.Rule()
	allowed, locked := "", ""
	for _, name := range sortedKeys(p.base.modes) {
		in := surface.Match(rule.Style, rule.Allowed, name)
		switch {
		case in && allowed == "" && p.base.modes[name] == surface.ModeFile:
			allowed = name
		case !in && locked == "":
			locked = name
		}
	}
	if allowed == "" {
		rep.add("surface", "warn", "no file of the base matches allowed_patch_paths: only new files can be sent")
	}
	var open []string
	for _, word := range strings.Fields(p.t.SetupCommand + " " + p.t.BenchmarkCommand) {
		word = path.Clean(strings.Trim(word, `"';&|()`))
		if p.base.modes[word] != 0 && surface.Match(rule.Style, rule.Allowed, word) {
			open = append(open, word)
		}
	}
	if p.t.ResultPath != "" && surface.Match(rule.Style, rule.Allowed, p.t.ResultPath) {
		open = append(open, p.t.ResultPath+" (the result)")
	}
	if len(open) > 0 {
		rep.add("benchmark protected", "fail", "a patch may change what measures it: %s", list(open))
	} else {
		rep.add("benchmark protected", "ok", "no command's file may be patched")
	}
	dir := path.Dir(allowed)
	add := func(name, mode, text string) string {
		return fmt.Sprintf("diff --git a/%s b/%s\nnew file mode %s\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+%s\n", name, name, mode, name, text)
	}
	attacks := map[string]string{
		"symlink": add(path.Join(dir, "agon-link"), "120000", "/etc/passwd"), "submodule": add(path.Join(dir, "agon-sub"), "160000", "Subproject commit 0"),
		"attributes": add(path.Join(dir, ".gitattributes"), "100644", "* text"), "hook": add(".git/hooks/post-checkout", "100644", "#!/bin/sh"),
		"outside": add("../agon", "100644", "x"), "startup file": add("sitecustomize.py", "100644", "x"), "bytecode": add(path.Join(dir, "__pycache__", "x.pyc"), "100644", "x"),
	}
	if allowed != "" {
		attacks["mode"] = fmt.Sprintf("diff --git a/%s b/%s\nold mode 100644\nnew mode 100755\n", allowed, allowed)
		attacks["other case"] = add(path.Join(dir, strings.ToUpper(path.Base(allowed))+"x"), "100644", "x") + add(path.Join(dir, strings.ToLower(path.Base(allowed))+"x"), "100644", "x")
	}
	if allowed != "" && locked != "" {
		attacks["rename"] = fmt.Sprintf("diff --git a/%s b/%s\nsimilarity index 100%%\nrename from %s\nrename to %s\n", allowed, allowed, locked, allowed)
	}
	tried := 0
	for _, name := range sortedKeys(attacks) {
		res, err := p.t.CheckPatch(p.base.tree, []byte(attacks[name]))
		if err != nil || res.OK {
			rep.add("surface", "fail", "the attack %q is let in: %v", name, err)
			return
		}
		tried++
	}
	rep.add("surface", "ok", "%d attacks are refused", tried)
}

// preflightNoise replays the base with other seeds: a task is not deterministic
// because one seed gives one number.
func (p *player) preflightNoise(ctx context.Context, rep *PreflightReport, first int64, band float64) error {
	rep.BySeed = append(rep.BySeed, SeedValue{first, rep.Baseline})
	low, high := rep.Baseline, rep.Baseline
	for i := 1; i < preflightSeeds; i++ {
		var obs Observed
		seed := seedOf(p.digest, "replay", i)
		m, err := p.measureBase(ctx, seed, &obs)
		var e *ended
		if errors.As(err, &e) {
			rep.add("seeds", "fail", "the unpatched base gives no number with the seed %d: %s", seed, e.notes)
			return nil
		}
		if err != nil {
			return err
		}
		v := m[p.t.MetricName]
		rep.BySeed = append(rep.BySeed, SeedValue{seed, v})
		low, high = min(low, v), max(high, v)
		rep.SetupMS, rep.BenchmarkMS, rep.MaxRSS = max(rep.SetupMS, obs.SetupMS), max(rep.BenchmarkMS, obs.BenchmarkMS), max(rep.MaxRSS, obs.MaxRSS)
	}
	rep.Noise = high - low
	switch {
	case rep.Noise == 0:
		rep.add("seeds", "ok", "%d seeds give the same number", preflightSeeds)
	case rep.Noise > rep.Band && rep.Noise > band:
		rep.add("seeds", "fail", "%d seeds give numbers that differ by %v, one seed by %v, and rules.band says %v: luck with a seed would pass for a gain", preflightSeeds, rep.Noise, rep.Band, band)
	default:
		rep.add("seeds", "ok", "%d seeds give numbers that differ by %v, rules.band says %v", preflightSeeds, rep.Noise, band)
	}
	return nil
}

// preflightHidden looks for hidden bytes in what contestants can read: the
// repository, the public part of the task, the root file system and the package
// mirrors that are cached here.
func (p *player) preflightHidden(ctx context.Context, rep *PreflightReport) error {
	x := leak.New()
	for k, v := range p.priv.BenchmarkEnv {
		if err := x.Add("variable "+k, []byte(v)); err != nil {
			return err
		}
	}
	if p.hidden != "" {
		root, err := os.OpenRoot(p.hidden)
		if err != nil {
			return fmt.Errorf("open hidden data: %w", err)
		}
		defer func() { _ = root.Close() }()
		err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := root.ReadFile(name)
			if err != nil {
				return err
			}
			return x.Add(filepath.ToSlash(name), b)
		})
		if err != nil {
			return fmt.Errorf("read hidden data: %w", err)
		}
	}
	if x.Files() == 0 {
		rep.add("hidden data", "ok", "the task has none")
		return nil
	}
	if err := p.plainHidden(rep); err != nil || !rep.OK {
		return err
	}
	var found leak.Report
	places := []struct{ label, dir string }{{"repository", p.base.dir}, {"root file system", p.root.Dir}}
	sets, err := task.DatasetsIn(p.dir)
	if err != nil {
		return err
	}
	for _, r := range sets {
		store := p.k.cfg.Datasets
		if store == nil {
			found.Unread = append(found.Unread, "data set "+r.Name)
			continue
		}
		dir, release, err := store.Ensure(ctx, r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			rep.add("data set "+r.Name, "fail", "it cannot be had: %v", err)
			return nil
		}
		defer release()
		if d, err := store.Get(r.Digest); err != nil {
			return err
		} else if d.Bytes > leak.MaxSearched {
			found.Unread = append(found.Unread, fmt.Sprintf("data set %s of %d MB", r.Name, d.Bytes>>20))
			continue
		}
		places = append(places, struct{ label, dir string }{"data set " + r.Name, dir})
	}
	for _, m := range p.k.cfg.Mirrors {
		places = append(places, struct{ label, dir string }{"package mirror", m})
	}
	for _, at := range places {
		if at.dir == "" {
			continue
		}
		if _, err := os.Stat(at.dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := x.Dir(ctx, at.label, at.dir, &found); err != nil {
			return err
		}
	}
	if rep.Leaks = append(rep.Leaks, found.Leaks...); len(found.Leaks) > 0 {
		l := found.Leaks[0]
		rep.add("hidden data", "fail", "%s holds %d bytes of %s, and every submission can read it; %d places in all", l.Where, l.Bytes, l.What, len(found.Leaks))
		return nil
	}
	note := ""
	if len(found.Unread) > 0 {
		note = "; not opened: " + strings.Join(found.Unread, ", ")
	}
	rep.add("hidden data", "ok", "no %d bytes of %d hidden files and variables are in %d files (%d MB) that submissions can read%s", leak.Piece, x.Files(), found.Files, found.Bytes>>20, note)
	return nil
}

// plainHidden looks for what is too short for package leak, a variable or a file
// of few bytes, in the repository.
func (p *player) plainHidden(rep *PreflightReport) error {
	needles := map[string][][]byte{}
	for k, v := range p.priv.BenchmarkEnv {
		if len(v) >= 8 {
			needles["variable "+k] = [][]byte{[]byte(v)}
		}
	}
	if p.hidden != "" {
		root, err := os.OpenRoot(p.hidden)
		if err != nil {
			return fmt.Errorf("open hidden data: %w", err)
		}
		defer func() { _ = root.Close() }()
		err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := root.ReadFile(name)
			if err != nil || len(bytes.TrimSpace(b)) < 4 {
				return err
			}
			needles[name] = pieces(b)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read hidden data: %w", err)
		}
	}
	for _, name := range sortedKeys(p.base.modes) {
		if p.base.modes[name] == surface.ModeLink {
			continue
		}
		b, err := readRegular(p.base.dir, name, p.base.sizes[name])
		if err != nil {
			return fmt.Errorf("read base: %w", err)
		}
		for _, what := range sortedKeys(needles) {
			for _, n := range needles[what] {
				if bytes.Contains(b, n) {
					rep.add("hidden data", "fail", "%s of the repository has bytes of %s: %.40q", name, filepath.ToSlash(what), n)
					return nil
				}
			}
		}
	}
	return nil
}

// pieces are parts of a hidden file that must not be found elsewhere: all of a
// short one, 96 bytes from sixteen places of a long one.
func pieces(b []byte) [][]byte {
	const size, most = 96, 16
	b = bytes.TrimSpace(b)
	if len(b) <= 2*size {
		return [][]byte{b}
	}
	var out [][]byte
	for i := range most {
		at := (len(b) - size) * i / (most - 1)
		out = append(out, b[at:at+size])
	}
	return out
}
