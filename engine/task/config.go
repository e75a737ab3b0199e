package task

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Bounds of what task.toml may ask for.
const (
	DefaultTestTimeoutSec = 20
	maxTestTimeoutSec     = 600
	maxTimeoutSec         = 24 * 60 * 60 // agent and verifier
	maxCPUs               = 64
	maxImageRef           = 1000    // bytes
	maxMB                 = 1 << 20 // memory and storage: 1 TiB
	maxList               = 200     // entries of python_path, sources, drop, tests
)

var (
	kindName = lazyregexp.New(`^[a-z][a-z0-9-]{0,39}$`)

	versionText = lazyregexp.New(`^v?[0-9][A-Za-z0-9.!+-]{0,31}$`)
	dayText     = lazyregexp.New(`^20[0-9]{2}-[01][0-9]-[0-3][0-9]$`)
	hexSum      = lazyregexp.New(`^[0-9a-f]{64}$`)

	// Paths that are written into patches and scripts need no quoting there.
	plainPath = lazyregexp.New(`^[A-Za-z0-9_.+/-]+$`)
)

// parseConfig decodes task.toml. Harbor's tables may hold more than we know;
// in [agon] an unknown field is a mistake, since a misspelt one would quietly
// change what is graded.
//
// understood is false if the text could not be decoded to its end.
func parseConfig(b []byte) (cfg Config, findings []agon.Finding, understood bool) {
	add := func(field, format string, args ...any) {
		if len(findings) < maxFindings {
			findings = append(findings, agon.Finding{Code: "invalid_task", Field: field, Message: fmt.Sprintf(format, args...)})
		}
	}
	err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(&cfg)
	var missing *toml.StrictMissingError
	var broken *toml.DecodeError
	switch {
	case err == nil:
		understood = true
	case errors.As(err, &missing):
		understood = true
		for i := range missing.Errors {
			if key := missing.Errors[i].Key(); len(key) > 0 && key[0] == "agon" {
				row, _ := missing.Errors[i].Position()
				add(fmt.Sprintf("%s:%d", configFile, row), "unknown field %.100q", strings.Join(key, "."))
			}
		}
	case errors.As(err, &broken):
		row, col := broken.Position()
		add(fmt.Sprintf("%s:%d:%d", configFile, row, col), "%v", broken)
	default:
		add(configFile, "%v", err)
	}
	return cfg, findings, understood
}

// IsVersion reports whether a text can be a version of a published package.
func IsVersion(s string) bool { return versionText().MatchString(s) }

// check judges the decoded configuration against the tree and fills in defaults.
func (l *loader) check(c *Config) {
	l.seconds("agent.timeout_sec", c.Agent.TimeoutSec, maxTimeoutSec)
	l.seconds("verifier.timeout_sec", c.Verifier.TimeoutSec, maxTimeoutSec)
	l.between("environment.cpus", c.Environment.CPUs, maxCPUs)
	l.between("environment.memory_mb", float64(c.Environment.MemoryMB), maxMB)
	l.between("environment.storage_mb", float64(c.Environment.StorageMB), maxMB)
	for field, s := range map[string]string{
		"version": c.Version, "task.name": c.Task.Name, "metadata.difficulty": c.Metadata.Difficulty, "metadata.licence": c.Metadata.Licence,
	} {
		if len(s) > 200 {
			l.add(field, "200 bytes", "too long")
		}
	}
	if e := c.Environment; e.Image != "" {
		if len(e.Image) > maxImageRef || !rootfs.Pinned(e.Image) {
			l.add("environment.image", fmt.Sprintf("%d bytes", maxImageRef), "%.200q: want an image by its digest: NAME@sha256:… with 64 hex digits (agon image import prints it)", e.Image)
		}
	}
	if _, err := datasets.ParseAll(c.Environment.Datasets); err != nil {
		l.add("environment.datasets", "16 data sets by digest", "%v", err)
	}
	l.between("environment.gpu_memory_mb", float64(c.Environment.GPUMemoryMB), agon.MaxGPUMemory>>20)
	if n := c.Environment.GPU(); n != nil {
		if err := n.Check(); err != nil {
			l.add("environment.gpus", fmt.Sprintf("%d GPUs", agon.MaxTaskGPUs), "%v", err)
		}
	}
	if p := c.Agon.Python; p != "" && (!path.IsAbs(p) || path.Clean(p) != p || len(p) > 500 || c.Environment.Image == "") {
		l.add("agon.python", "500 bytes", "%.200q: want a whole path in the task's image", p)
	}
	a := &c.Agon
	if a.Kind == "" && !a.Repository() {
		return // of no kind of its own: one of them may adopt it
	}
	if !kindName().MatchString(a.Kind) {
		l.add("agon.kind", "40 bytes", "%.40q: want the name of a kind: letters a-z, digits and dashes", a.Kind)
	}
	if !a.Repository() {
		return // what stands in the tree is the kind's business
	}
	l.seconds("agon.test_timeout_sec", a.TestTimeoutSec, maxTestTimeoutSec)
	if a.TestTimeoutSec == 0 {
		a.TestTimeoutSec = DefaultTestTimeoutSec
	}
	if len(a.PythonPath) == 0 {
		a.PythonPath = []string{""}
	}
	l.tests(a)
	if a.Released != nil {
		l.released(a.Released)
	}
	if a.Released != nil && a.Base == "" && a.Hidden == "" && a.Solution == "" {
		l.recipe()
		l.pythonPath(a, nil)
		return
	}
	if l.trees(a) {
		tree := l.merged(a)
		l.pythonPath(a, tree)
		l.modules(a, tree)
	}
}

func (l *loader) seconds(field string, v float64, limit float64) {
	if !(v >= 0 && v <= limit) { // NaN too
		l.add(field, fmt.Sprintf("%v seconds", limit), "%v is out of bounds", v)
	}
}

func (l *loader) between(field string, v, limit float64) {
	if !(v >= 0 && v <= limit) || math.IsInf(v, 0) {
		l.add(field, fmt.Sprintf("%v", limit), "%v is out of bounds", v)
	}
}

func (l *loader) tests(a *Agon) {
	if len(a.FailToPass) == 0 {
		l.add("agon.fail_to_pass", "", "empty: at least one test must fail before the fix and pass after it")
	}
	if n := len(a.FailToPass) + len(a.PassToPass); n > MaxTests {
		l.add("agon.fail_to_pass, agon.pass_to_pass", fmt.Sprintf("%d tests", MaxTests), "%d tests are too many", n)
		return
	}
	r, ok := RunnerOf(a)
	if !ok {
		l.add("agon.runner", "", "%.40q: want one of %s", a.Runner, strings.Join(runnerNames(), ", "))
		return
	}
	seen := map[string]bool{}
	check := func(field string, ids []string) {
		for _, id := range ids {
			switch {
			case len(id) > maxTestID || !r.ID(id):
				l.add(field, fmt.Sprintf("%d bytes", maxTestID), "%.80q: want an id of %s: %s", id, r.Name, r.Form)
			case seen[id]:
				l.add(field, "", "%s is listed twice", id)
			}
			seen[id] = true
		}
	}
	check("agon.fail_to_pass", a.FailToPass)
	check("agon.pass_to_pass", a.PassToPass)
}

// recipe wants nothing but the two texts (and a README) beside [agon.released]:
// other people's bytes are not committed.
func (l *loader) recipe() {
	for _, p := range sortedKeys(l.files) {
		if p != configFile && p != instructionFile && p != "README.md" {
			l.add(p, "", "a released task holds only %s and %s until it is fetched", configFile, instructionFile)
		}
	}
}

func (l *loader) released(r *Released) {
	if x, ok := Indexes[r.Index]; !ok {
		l.add("agon.released.index", "", "%.40q: want one of %s", r.Index, strings.Join(sortedKeys(Indexes)[1:], ", "))
	} else if !x.Name().MatchString(r.Package) {
		l.add("agon.released.package", "", "%.80q is not a package name of %s", r.Package, x.Title)
	}
	if r.Published != "" && !dayText().MatchString(r.Published) {
		l.add("agon.released.published", "", "%.40q: want a day: 2026-11-02", r.Published)
	}
	if r.Notes != "" {
		l.local("agon.released.notes", r.Notes)
	}
	if len(r.Quarantined) > maxList {
		l.add("agon.released.quarantined", fmt.Sprintf("%d entries", maxList), "too many")
	}
	for field, v := range map[string]string{"base": r.Base, "fix": r.Fix} {
		if !versionText().MatchString(v) {
			l.add("agon.released."+field, "32 bytes", "%.80q is not a version", v)
		}
	}
	if r.Base == r.Fix {
		l.add("agon.released.fix", "", "same version as base")
	}
	for field, v := range map[string]string{"base_sha256": r.BaseSHA256, "fix_sha256": r.FixSHA256} {
		if !hexSum().MatchString(v) {
			l.add("agon.released."+field, "", "%.80q: want 64 lower-case hex digits", v)
		}
	}
	if r.Licence == "" || len(r.Licence) > 100 {
		l.add("agon.released.licence", "100 bytes", "want the licence of the package")
	}
	if r.Digest != "" {
		if err := r.Digest.Validate(); err != nil {
			l.add("agon.released.digest", "", "%v", err)
		}
	}
	if len(r.Tests) == 0 || len(r.Sources) == 0 {
		l.add("agon.released", "", "tests and sources must name files")
	}
	to := map[string]bool{}
	for _, from := range sortedKeys(r.Tests) {
		l.local("agon.released.tests", from)
		l.local("agon.released.tests", r.Tests[from])
		if to[r.Tests[from]] {
			l.add("agon.released.tests", "", "%s is the target of two files", r.Tests[from])
		}
		to[r.Tests[from]] = true
	}
	for field, list := range map[string][]string{"sources": r.Sources, "drop": r.Drop} {
		if len(list) > maxList {
			l.add("agon.released."+field, fmt.Sprintf("%d entries", maxList), "too many")
			continue
		}
		for _, p := range list {
			l.local("agon.released."+field, p)
			if field == "sources" && !plainPath().MatchString(p) {
				l.add("agon.released.sources", "", "%.80q: want letters, digits and _.+-/ only", p)
			}
		}
	}
	if len(r.Tests) > maxList {
		l.add("agon.released.tests", fmt.Sprintf("%d entries", maxList), "too many")
	}
}

func (l *loader) local(field, p string) {
	if err := checkPath(p); err != nil {
		l.add(field, "", "%.80q: %v", p, err)
	}
}

// trees checks that base, hidden tests and solution exist and lie apart, so
// that what the agent sees never holds the answers.
func (l *loader) trees(a *Agon) bool {
	before := len(l.findings)
	for _, d := range []struct{ field, value, under string }{
		{"agon.base", a.Base, "environment"},
		{"agon.hidden", a.Hidden, "tests"},
		{"agon.solution", a.Solution, "solution"},
	} {
		if err := checkPath(d.value); err != nil {
			l.add(d.field, "", "%.80q: %v", d.value, err)
			continue
		}
		if !strings.HasPrefix(d.value, d.under+"/") {
			l.add(d.field, "", "%q: want a path below %s/", d.value, d.under)
			continue
		}
		if d.under == "solution" {
			if f, ok := l.files[d.value]; !ok {
				l.add(d.field, "", "%q is missing", d.value)
			} else if f.size > MaxSolution || f.size == 0 {
				l.add(d.field, fmt.Sprintf("%d bytes", MaxSolution), "%d bytes: empty or too large", f.size)
			}
			continue
		}
		if !l.holds(d.value) {
			l.add(d.field, "", "%q is missing or holds no file", d.value)
		}
	}
	if c := a.Canary; c != "" {
		if f, ok := l.files[c]; !ok || f.mode == blob.ModeLink || !strings.HasPrefix(c, "tests/") || strings.HasPrefix(c, a.Hidden+"/") {
			l.add("agon.canary", "", "%.80q: want a file below tests/, beside the hidden tests", c)
		} else if f.size > MaxSolution || f.size == 0 {
			l.add("agon.canary", fmt.Sprintf("%d bytes", MaxSolution), "%d bytes: empty or too large", f.size)
		}
	}
	if _, ok := l.files[symlinksFile]; ok && a.Base != linkBase {
		l.add("agon.base", "", "%s needs the base at %s", symlinksFile, linkBase)
	}
	return len(l.findings) == before
}

// holds reports whether a file stands below dir.
func (l *loader) holds(dir string) bool {
	for p := range l.files {
		if strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

// merged is the tree that is graded: base with the hidden files laid over it.
// A hidden file may replace a file, but neither a directory nor a link, and
// it may not stand below one.
func (l *loader) merged(a *Agon) map[string]bool {
	tree := map[string]bool{}
	for p := range l.files {
		if rel, ok := strings.CutPrefix(p, a.Base+"/"); ok {
			tree[rel] = true
		}
	}
	for _, p := range sortedKeys(l.files) {
		rel, ok := strings.CutPrefix(p, a.Hidden+"/")
		if !ok {
			continue
		}
		on := path.Join(a.Base, rel)
		if f, ok := l.files[on]; (ok && f.mode == blob.ModeLink) || l.dirs[on] {
			l.add(p, "", "a hidden file may not replace a link or a directory of the base")
		}
		parents(rel, func(dir string) bool {
			if _, isFile := l.files[path.Join(a.Base, dir)]; isFile {
				l.add(p, "", "a hidden file may not stand below a file or a link of the base")
				return false
			}
			return true
		})
		tree[rel] = true
	}
	return tree
}

// pythonPath checks the directories; tree is nil where it is not known yet.
func (l *loader) pythonPath(a *Agon, tree map[string]bool) {
	if len(a.PythonPath) > 16 {
		l.add("agon.python_path", "16 entries", "too many")
		return
	}
	for _, dir := range a.PythonPath {
		if dir == "" {
			continue
		}
		if err := checkPath(dir); err != nil {
			l.add("agon.python_path", "", "%.80q: %v", dir, err)
			continue
		}
		if !plainPath().MatchString(dir) {
			l.add("agon.python_path", "", "%.80q: want letters, digits and _.+-/ only", dir)
			continue
		}
		found := tree == nil
		for p := range tree {
			found = found || strings.HasPrefix(p, dir+"/")
		}
		if !found {
			l.add("agon.python_path", "", "%q holds no file", dir)
		}
	}
}

// modules checks that the first part of every test id is a module or a
// package of the tree: the mistake that is made most.
func (l *loader) modules(a *Agon, tree map[string]bool) {
	if r, _ := RunnerOf(a); r.Name != Unittest {
		for field, ids := range map[string][]string{"agon.fail_to_pass": a.FailToPass, "agon.pass_to_pass": a.PassToPass} {
			for _, id := range ids {
				if f := r.File(id); f != "" && r.ID(id) && !tree[f] {
					l.add(field, "", "%.80s: the tree has no file %q", id, f)
				}
			}
		}
		return
	}
	known := map[string]bool{}
	for p := range tree {
		for _, dir := range a.PythonPath {
			rel := p
			if dir != "" {
				var ok bool
				if rel, ok = strings.CutPrefix(p, dir+"/"); !ok {
					continue
				}
			}
			first, _, nested := strings.Cut(rel, "/")
			if !nested {
				first = strings.TrimSuffix(first, ".py")
			}
			known[first] = true
		}
	}
	for field, ids := range map[string][]string{"agon.fail_to_pass": a.FailToPass, "agon.pass_to_pass": a.PassToPass} {
		for _, id := range ids {
			if first, _, _ := strings.Cut(id, "."); unittestID().MatchString(id) && !known[first] {
				l.add(field, "", "%.80s: no module %q on the python path", id, first)
			}
		}
	}
}
