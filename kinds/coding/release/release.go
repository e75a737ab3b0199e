// Package release makes tasks of two releases of a package: what changed in its
// sources is the solution, its own later tests are hidden, and both lists of
// tests are found by running them. A task holds names, versions and digests of
// the package, none of its text (see engine/task on recipes).
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/ui/cli"
)

// Request says which releases make a task.
type Request struct {
	Index, Package, Old, New string
	Runner                   string // "" is the index's usual one
	Out                      string // directory that the tasks' directories are made in
	Name                     string // of the task; "" is package and version
	// Run plays every test of files after a patch and says which passed.
	Run func(ctx context.Context, t *task.Task, files []string, patch []byte) (map[string]bool, error)
	// Repeats is how often the tests are run with the solution, and without; 0 is 3.
	Repeats int
	Say     func(format string, args ...any)
}

// Made is a task that was made, or why not.
type Made = cli.TaskMade

// Bounds of what a made task lists.
const (
	maxFail = 100
	maxPass = 40
)

// ErrNoTask is a pair of releases that makes no task.
var ErrNoTask = errors.New("these releases make no task")

// Make makes one task. An error that wraps ErrNoTask is about the releases.
func Make(ctx context.Context, src *task.Source, r Request) (*Made, error) {
	x, ok := task.Indexes[r.Index]
	if !ok {
		return nil, fmt.Errorf("no index %q", r.Index)
	}
	if r.Runner == "" {
		r.Runner = x.Runner
	}
	if r.Repeats == 0 {
		r.Repeats = 3
	}
	m := &Made{Package: r.Package, Old: r.Old, New: r.New, Quarantined: []string{}, Task: "made/" + slug(r)}
	no := func(format string, args ...any) (*Made, error) {
		m.Reason = fmt.Sprintf(format, args...)
		return m, fmt.Errorf("%w: %s", ErrNoTask, m.Reason)
	}
	old, err := src.Archive(ctx, r.Index, r.Package, r.Old)
	if err != nil {
		return nil, err
	}
	fix, err := src.Archive(ctx, r.Index, r.Package, r.New)
	if err != nil {
		return nil, err
	}
	before, err := task.Unpack(r.Index, r.Package, r.Old, old)
	if err != nil {
		return no("%s %s: %v", r.Package, r.Old, err)
	}
	after, err := task.Unpack(r.Index, r.Package, r.New, fix)
	if err != nil {
		return no("%s %s: %v", r.Package, r.New, err)
	}
	rel := task.Released{
		Index: r.Index, Package: r.Package, Base: r.Old, BaseSHA256: agon.Sum(old).Hex(), Fix: r.New, FixSHA256: agon.Sum(fix).Hex(),
		Licence: licenceOf(after), Tests: map[string]string{}, Notes: notesOf(before, after), Published: task.Day(ctx, r.Index, r.Package, r.New),
	}
	if r.Index == "pypi" {
		rel.Index = ""
	}
	if rel.Published == "" {
		rel.Published = newest(fix)
	}
	m.Licence, m.Published = rel.Licence, rel.Published
	probe := task.Agon{Runner: r.Runner}
	runner, ok := task.RunnerOf(&probe)
	if !ok {
		return nil, fmt.Errorf("no runner %q", r.Runner)
	}
	var suites []string
	for _, p := range slices.Sorted(maps.Keys(after)) {
		if !isTest(p, runner) {
			continue
		}
		rel.Tests[p] = p
		if isSuite(p, r.Runner) {
			suites = append(suites, p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(joined(before, after))) {
		if !isTest(p, runner) && !bytes.Equal(before[p], after[p]) && isSource(p, x.Suffixes) {
			rel.Sources = append(rel.Sources, p)
		}
	}
	m.Files = len(rel.Sources)
	switch {
	case len(suites) == 0:
		return no("the archive of %s %s holds no tests for %s", r.Package, r.New, r.Runner)
	case len(rel.Tests) > 200:
		return no("%d files of tests, limit 200", len(rel.Tests))
	case len(rel.Sources) == 0:
		return no("no source changed")
	case len(rel.Sources) > 200:
		return no("%d sources changed, limit 200", len(rel.Sources))
	}
	var roots []string
	if r.Index == "" || r.Index == "pypi" {
		roots = []string{""}
		for _, d := range []string{"src", "lib", "Lib"} {
			for p := range after {
				if strings.HasPrefix(p, d+"/") && strings.HasSuffix(p, ".py") {
					roots = []string{"", d}
					break
				}
			}
		}
	}
	// A task that names some test, so that it can be read and its tree laid out.
	first := suites[0] + "::test"
	if r.Runner == "go" {
		first = ".::Test"
	}
	tmp, err := os.MkdirTemp("", "agon-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	t, err := build(m.Task, text(r, rel, roots, []string{first}, nil), instruction(r, rel, []string{first}), old, fix, filepath.Join(tmp, "probe"))
	if err != nil {
		return no("%v", err)
	}
	patch, err := t.SolutionPatch()
	if err != nil {
		return nil, err
	}
	seen := map[string][2][]bool{}
	for n := range r.Repeats {
		for side, diff := range [][]byte{nil, patch} {
			if n > 0 && side == 0 && n+1 < r.Repeats { // the base is run twice, first and last
				continue
			}
			got, err := r.Run(ctx, t, suites, diff)
			if err != nil {
				return no("run tests: %v", err)
			}
			for id, passed := range got {
				s := seen[id]
				s[side] = append(s[side], passed)
				seen[id] = s
			}
		}
		r.Say("%s %s: run %d of %d: %d tests", r.Package, r.New, n+1, r.Repeats, len(seen))
	}
	var fail, pass []string
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		s := seen[id]
		switch {
		case mixed(s[0]) || mixed(s[1]) || len(s[1]) > 0 && len(s[1]) < r.Repeats:
			m.Quarantined = append(m.Quarantined, id)
		case len(s[1]) == 0 || !s[1][0]:
		case len(s[0]) == 0 || !s[0][0]:
			fail = append(fail, id)
		default:
			pass = append(pass, id)
		}
	}
	rel.Quarantined = m.Quarantined[:min(len(m.Quarantined), 200)]
	if len(fail) == 0 {
		return no("of %d tests none fails before %s and passes in it", len(seen), r.New)
	}
	fail, pass = fail[:min(len(fail), maxFail)], near(pass, fail)
	m.FailToPass, m.PassToPass = len(fail), len(pass)
	dir := filepath.Join(r.Out, slug(r))
	config := text(r, rel, roots, fail, pass)
	t, err = build(m.Task, config, instruction(r, rel, fail), old, fix, filepath.Join(tmp, "made"))
	if err != nil {
		return no("%v", err)
	}
	rel.Digest = t.Digest
	if err := write(dir, text(r, rel, roots, fail, pass), instruction(r, rel, fail)); err != nil {
		return nil, err
	}
	m.Dir, m.OK = dir, true
	return m, nil
}

// build makes the complete task of a recipe's text.
func build(key, config, instruction string, old, fix []byte, dir string) (*task.Task, error) {
	recipe, err := task.Load(blob.FS([]blob.File{
		{Path: "task.toml", Mode: blob.ModeFile, Content: []byte(config)},
		{Path: "instruction.md", Mode: blob.ModeFile, Content: []byte(instruction)},
	}), key)
	if err != nil {
		return nil, err
	}
	t, err := task.Build(recipe, old, fix)
	if err != nil {
		return nil, err
	}
	if err := task.Materialise(t, dir); err != nil {
		return nil, err
	}
	return task.LoadDir(dir, key)
}

func write(dir, config, instruction string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "task.toml"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, "instruction.md"), []byte(instruction), 0o644))
}

// instruction tells an agent what is wanted. What the release notes say is put
// below it when the task is made.
func instruction(r Request, rel task.Released, fail []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The repository is %s %s. Change it so that it does what version %s does:\nsome of its behaviour was wrong or missing, and tests of the next version find that.\n\nTests that must pass, and do not yet, are among others:\n\n", r.Package, r.Old, r.New)
	for _, id := range fail[:min(len(fail), 20)] {
		fmt.Fprintf(&b, "- %s\n", id)
	}
	b.WriteString("\nThe test files themselves are those of the next version; those in the repository may be older. Keep all else as it is.\n")
	if rel.Notes != "" {
		b.WriteString("What the next version says of its changes stands below.\n")
	}
	return b.String()
}

// text is the task.toml of a recipe.
func text(r Request, rel task.Released, roots, fail, pass []string) string {
	var b strings.Builder
	name := slug(r)
	fmt.Fprintf(&b, "version = \"1.0\"\n\n[task]\nname = %q\ndescription = %q\n\n[metadata]\ndifficulty = %q\nsource = %q\nlicence = %q\n\n", "agon/"+name,
		"what "+r.New+" mends", difficulty(rel), fmt.Sprintf("%s %s and %s, %s", r.Package, r.Old, r.New, task.Indexes[r.Index].Title), rel.Licence)
	b.WriteString("[agent]\ntimeout_sec = 120.0\n\n[verifier]\ntimeout_sec = 600.0\n\n[environment]\ncpus = 1.0\nmemory_mb = 1024\nstorage_mb = 256\nworkdir = \"/repo\"\n\n")
	fmt.Fprintf(&b, "[agon]\nkind = \"coding\"\nrunner = %q\n", r.Runner)
	if len(roots) > 0 {
		list(&b, "python_path", roots)
	}
	list(&b, "fail_to_pass", fail)
	list(&b, "pass_to_pass", pass)
	b.WriteString("test_timeout_sec = 30.0\n\n[agon.released]\n")
	if rel.Index != "" {
		fmt.Fprintf(&b, "index = %q\n", rel.Index)
	}
	fmt.Fprintf(&b, "package = %q\nbase = %q\nbase_sha256 = %q\nfix = %q\nfix_sha256 = %q\nlicence = %q\n", rel.Package, rel.Base, rel.BaseSHA256, rel.Fix, rel.FixSHA256, rel.Licence)
	if rel.Published != "" {
		fmt.Fprintf(&b, "published = %q\n", rel.Published)
	}
	if rel.Notes != "" {
		fmt.Fprintf(&b, "notes = %q\n", rel.Notes)
	}
	list(&b, "sources", rel.Sources)
	if len(rel.Quarantined) > 0 {
		list(&b, "quarantined", rel.Quarantined)
	}
	if rel.Digest != "" {
		fmt.Fprintf(&b, "digest = %q\n", rel.Digest)
	}
	b.WriteString("\n[agon.released.tests]\n")
	for _, p := range slices.Sorted(maps.Keys(rel.Tests)) {
		fmt.Fprintf(&b, "%s = %s\n", quote(p), quote(rel.Tests[p]))
	}
	return b.String()
}

func list(b *strings.Builder, key string, l []string) {
	fmt.Fprintf(b, "%s = [\n", key)
	for _, s := range l {
		fmt.Fprintf(b, "  %s,\n", quote(s))
	}
	b.WriteString("]\n")
}

// quote writes a TOML string: Go's quoting but for escapes that TOML lacks.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func difficulty(rel task.Released) string {
	switch n := len(rel.Sources); {
	case n == 1:
		return "medium"
	default:
		return "hard"
	}
}

var notSlug = lazyregexp.New(`[^a-z0-9]+`)

func slug(r Request) string {
	if r.Name != "" {
		return r.Name
	}
	p := r.Package
	if r.Index == "go" { // the host and the owner are not part of a name
		parts := strings.Split(p, "/")
		p = parts[len(parts)-1]
		if versionDir().MatchString(p) && len(parts) > 1 {
			p = parts[len(parts)-2]
		}
		p = "go-" + strings.TrimPrefix(p, "go-")
	} else if r.Index == "npm" {
		p = "js-" + strings.TrimPrefix(p, "@")
	}
	s := strings.Trim(notSlug().ReplaceAllString(strings.ToLower(p+"-"+r.New), "-"), "-")
	return s[:min(len(s), 60)]
}

var versionDir = lazyregexp.New(`^v[0-9]+$`)

func joined(a, b map[string][]byte) map[string]bool {
	out := map[string]bool{}
	for p := range a {
		out[p] = true
	}
	for p := range b {
		out[p] = true
	}
	return out
}

// isTest reports whether a file belongs to the tests, and so to the hidden files.
func isTest(p string, runner task.Runner) bool {
	for _, d := range strings.Split(path.Dir(p), "/") {
		switch d {
		case "test", "tests", "testing", "__tests__", "testdata":
			return true
		}
	}
	base := path.Base(p)
	switch runner.Name {
	case "pytest":
		return base == "conftest.py" || strings.HasPrefix(base, "test_") && strings.HasSuffix(base, ".py") || strings.HasSuffix(base, "_test.py")
	case "go":
		return strings.HasSuffix(base, "_test.go")
	}
	return scriptSuite().MatchString(base)
}

var scriptSuite = lazyregexp.New(`[.-](test|spec)\.[cm]?js$|^test\.[cm]?js$`)

// isSuite reports whether a runner finds tests in a file.
func isSuite(p, runner string) bool {
	base := path.Base(p)
	switch runner {
	case "pytest":
		return strings.HasSuffix(base, ".py") && (strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py") || base == "tests.py" || base == "test.py") && plain().MatchString(p)
	case "go":
		return strings.HasSuffix(base, "_test.go") && !strings.Contains(p, "testdata/")
	}
	return (scriptSuite().MatchString(base) || strings.HasPrefix(p, "test/") || strings.HasPrefix(p, "tests/")) && scriptFile().MatchString(base) &&
		!strings.Contains(p, "/fixtures/") && plain().MatchString(p)
}

var (
	scriptFile = lazyregexp.New(`\.[cm]?js$`)
	plain      = lazyregexp.New(`^[A-Za-z0-9_.+/-]+$`)
)

func isSource(p string, suffixes []string) bool {
	switch path.Base(p) {
	case "setup.py", "noxfile.py", "tasks.py", "conf.py":
		return false
	}
	switch strings.Split(p, "/")[0] {
	case "docs", "doc", "examples", "example", "benchmark", "benchmarks", "bench", "tools", "scripts", ".github":
		return false
	}
	return plain().MatchString(p) && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(p, s) })
}

var notesName = lazyregexp.New(`(?i)^(change(s|log)?|history|news|releases?|release[-_]notes)(\.(md|rst|txt))?$`)

// notesOf finds the release notes: a file at the top, or one below docs, that
// both versions have and that has grown.
func notesOf(before, after map[string][]byte) string {
	for _, p := range slices.SortedFunc(maps.Keys(after), func(a, b string) int {
		return strings.Count(a, "/")*1000 + len(a) - strings.Count(b, "/")*1000 - len(b)
	}) {
		dir := path.Dir(p)
		if (dir == "." || dir == "docs" || dir == "doc") && notesName().MatchString(path.Base(p)) && len(after[p]) > len(before[p]) && before[p] != nil {
			return p
		}
	}
	return ""
}

var (
	licenceLine = lazyregexp.New(`(?m)^License(?:-Expression)?: (.+)$`)
	classifier  = lazyregexp.New(`(?m)^Classifier: License :: OSI Approved :: (.+)$`)
	npmLicence  = lazyregexp.New(`"license"\s*:\s*"([^"]+)"`)
	known       = []struct{ text, name string }{
		{"Apache License", "Apache-2.0"},
		{"Mozilla Public License", "MPL-2.0"},
		{"Permission is hereby granted, free of charge", "MIT"},
		{"Neither the name", "BSD-3-Clause"},
		{"Redistributions of source code", "BSD-2-Clause"},
		{"Permission to use, copy, modify, and/or distribute", "ISC"},
		{"PYTHON SOFTWARE FOUNDATION", "PSF-2.0"},
		{"GNU LESSER GENERAL PUBLIC", "LGPL"},
		{"GNU GENERAL PUBLIC", "GPL"},
	}
)

// licenceOf is what an archive says of its licence.
func licenceOf(files map[string][]byte) string {
	if b := files["package.json"]; b != nil {
		if m := npmLicence().FindSubmatch(b); m != nil {
			return short(string(m[1]))
		}
	}
	if b := files["PKG-INFO"]; b != nil {
		for _, x := range []*regexp.Regexp{licenceLine(), classifier()} {
			if m := x.FindSubmatch(b); m != nil && len(m[1]) < 60 {
				return short(strings.TrimSpace(string(m[1])))
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		base := strings.ToUpper(path.Base(p))
		if !strings.Contains(p, "/") && (strings.HasPrefix(base, "LICEN") || strings.HasPrefix(base, "COPYING")) {
			flat := strings.Join(strings.Fields(string(files[p])), " ")
			for _, k := range known {
				if strings.Contains(flat, k.text) {
					return k.name
				}
			}
		}
	}
	return "unknown"
}

func short(s string) string { return s[:min(len(s), 80)] }

// newest is the day of the newest file of a tar archive, where it can be one.
func newest(b []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	var last time.Time
	for r := tar.NewReader(io.LimitReader(z, task.MaxBytes)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		if h.ModTime.After(last) {
			last = h.ModTime
		}
	}
	if last.Year() < 2021 || last.After(time.Now().Add(24*time.Hour)) { //nolint:forbidigo // builds that are alike have a made-up time
		return ""
	}
	return last.UTC().Format("2006-01-02")
}

func mixed(l []bool) bool { return slices.Contains(l, true) && slices.Contains(l, false) }

// near picks tests that must go on passing: those of the files first that the
// failing ones stand in.
func near(pass, fail []string) []string {
	files := map[string]bool{}
	for _, id := range fail {
		f, _, _ := strings.Cut(id, "::")
		files[f] = true
	}
	rank := func(id string) int {
		if f, _, _ := strings.Cut(id, "::"); files[f] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(pass, func(a, b string) int { return rank(a) - rank(b) })
	// Of a table of cases one is enough while there are others.
	seen, out := map[string]int{}, []string{}
	for round := 0; round < 3 && len(out) < maxPass; round++ {
		for _, id := range pass {
			u, _, _ := strings.Cut(id, "[")
			if seen[u] == round && !slices.Contains(out, id) && len(out) < maxPass {
				seen[u]++
				out = append(out, id)
			}
		}
	}
	slices.Sort(out)
	return out
}
