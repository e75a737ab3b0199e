package task

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"strings"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Where the parts of a fetched task stand.
const (
	builtBase     = "environment/repo"
	builtHidden   = "tests/hidden"
	builtSolution = "solution/fix.patch"
)

//go:embed harbor/Dockerfile
var dockerfile []byte

//go:embed harbor/solve.sh
var solveScript []byte

//go:embed harbor/test.sh
var testScript string

// Build makes the complete task of a recipe from the archives of its two versions.
// Pure: the same bytes in give the same task, with the same digest, everywhere.
func Build(recipe *Task, base, fix []byte) (*Task, error) {
	r := recipe.Config.Agon.Released
	before, err := Unpack(r.Index, r.Package, r.Base, base)
	if err != nil {
		return nil, fmt.Errorf("unpack %s %s: %w", r.Package, r.Base, err)
	}
	after, err := Unpack(r.Index, r.Package, r.Fix, fix)
	if err != nil {
		return nil, fmt.Errorf("unpack %s %s: %w", r.Package, r.Fix, err)
	}
	if r.Notes != "" && after[r.Notes] == nil {
		return nil, fmt.Errorf("agon.released.notes: %s %s has no file %s", r.Package, r.Fix, r.Notes)
	}
	for _, p := range r.Drop {
		maps.DeleteFunc(before, func(name string, _ []byte) bool { return name == p || strings.HasPrefix(name, p+"/") })
	}
	config, err := builtConfig(recipe)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		configFile: config, instructionFile: withNotes(recipe.Instruction, r, before, after),
		"environment/Dockerfile": dockerfile, "solution/solve.sh": solveScript, "tests/test.sh": harborTest(recipe),
	}
	for p, b := range before {
		files[path.Join(builtBase, p)] = b
	}
	for from, to := range r.Tests {
		b, ok := after[from]
		if !ok {
			return nil, fmt.Errorf("agon.released.tests: %s %s has no file %s", r.Package, r.Fix, from)
		}
		files[path.Join(builtHidden, to)] = b
	}
	var changes []change
	for _, p := range r.Sources {
		c := change{path: p, before: before[p], after: after[p]}
		if c.before == nil && c.after == nil {
			return nil, fmt.Errorf("agon.released.sources: neither version of %s has a file %s", r.Package, p)
		}
		changes = append(changes, c)
	}
	patch, err := unifiedDiff(changes)
	if err != nil {
		return nil, fmt.Errorf("agon.released.sources: %w", err)
	}
	files[builtSolution] = patch

	list := make([]blob.File, 0, len(files))
	for _, p := range sortedKeys(files) {
		list = append(list, blob.File{Path: p, Mode: blob.ModeFile, Content: files[p]})
	}
	return Load(blob.FS(list), recipe.Key)
}

var (
	agonTable  = lazyregexp.New(`(?m)^\[agon\][ \t]*$`)
	digestLine = lazyregexp.New(`(?m)^digest = ".*"\n`)
)

// builtConfig is the recipe's task.toml as its author wrote it, with the three
// paths added and the pin removed (a file cannot hold the digest of a tree it is in).
func builtConfig(recipe *Task) ([]byte, error) {
	text, err := readLimited(recipe.fsys, configFile, MaxConfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", configFile, err)
	}
	if len(agonTable().FindAll(text, -1)) != 1 {
		return nil, fmt.Errorf("%s: want one line that says [agon]", configFile)
	}
	text = digestLine().ReplaceAll(text, nil)
	text = agonTable().ReplaceAll(text, fmt.Appendf(nil, "[agon]\nbase = %q\nhidden = %q\nsolution = %q", builtBase, builtHidden, builtSolution))
	got, findings, _ := parseConfig(text)
	want, _, _ := parseConfig(text)
	want.Agon = recipe.Config.Agon
	want.Agon.Base, want.Agon.Hidden, want.Agon.Solution = builtBase, builtHidden, builtSolution
	pins := *want.Agon.Released
	pins.Digest = ""
	want.Agon.Released = &pins
	// Load filled in defaults on one side only.
	want.Agon.PythonPath, want.Agon.TestTimeoutSec = got.Agon.PythonPath, got.Agon.TestTimeoutSec
	if len(findings) > 0 || !reflect.DeepEqual(got, want) {
		return nil, errors.New(configFile + `: cannot add the paths; write [agon] and digest = "…" on lines of their own, and each key once`)
	}
	return text, nil
}

// maxNotes is how much of the release notes an instruction has, in bytes.
const maxNotes = 12 << 10

// withNotes is the instruction with the lines that the fixed version's release
// notes have and the base's have not: they are the package's words, so they come
// with its archives and stand in no recipe.
func withNotes(instruction string, r *Released, before, after map[string][]byte) []byte {
	if r.Notes == "" {
		return []byte(instruction)
	}
	old := map[string]bool{}
	for line := range strings.Lines(string(before[r.Notes])) {
		old[strings.TrimSpace(line)] = true
	}
	var added strings.Builder
	blank := true
	for line := range strings.Lines(strings.ToValidUTF8(string(after[r.Notes]), "")) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			if !blank {
				added.WriteString(">\n")
			}
			blank = true
			continue
		case old[strings.TrimSpace(line)]:
			continue
		}
		blank = false
		if added.Len()+len(line) > maxNotes {
			break
		}
		added.WriteString("> " + line + "\n")
	}
	if added.Len() == 0 {
		return []byte(instruction)
	}
	return fmt.Appendf(nil, "%s\n\nFrom the release notes of %s:\n\n%s", strings.TrimRight(instruction, "\n"), r.Fix, added.String())
}

// harborRun is how Harbor's verifier runs one test of a runner: id in $id.
var harborRun = map[string]string{
	"pytest": `python3 -m pytest -q -p no:cacheprovider --override-ini addopts= -- "$id"`,
	"go":     `sh -c 'cd "./${1%%::*}" && go test -count=1 -run "^$(printf %s "${1#*::}" | sed "s,/,\$/^,g")\$" .' sh "$id"`,
	"node":   `sh -c 'n=${1#*::}; node --test --test-name-pattern="${n##* > }" "${1%%::*}"' sh "$id"`,
	"jest":   `sh -c 'npx jest --runTestsByPath "${1%%::*}" -t "$(printf %s "${1#*::}" | sed "s/ > / /g")"' sh "$id"`,
	"cargo":  `sh -c 'cargo test --offline -- --exact "${1#*::}"' sh "$id"`,
	"script": `sh -c 'AGON_REWARD=/tmp/reward sh "$1" && [ "$(cat /tmp/reward)" = 1 ]' sh "$id"`,
}

// harborTest writes Harbor's verifier for the listed tests. Ids and paths were
// checked by Load: no quotes, no shell's characters.
func harborTest(t *Task) []byte {
	a := t.Config.Agon
	var paths, ids bytes.Buffer
	for _, p := range a.PythonPath {
		if p == "" {
			p = "."
		}
		fmt.Fprintf(&paths, " '%s'", p)
	}
	for _, id := range append(append([]string(nil), a.FailToPass...), a.PassToPass...) {
		fmt.Fprintln(&ids, id)
	}
	script := testScript
	if run := harborRun[a.Runner]; run != "" {
		script = strings.Replace(script, `python3 -I -c "$run" "$id" @PATHS@`, run, 1)
	}
	return []byte(strings.NewReplacer(
		"@TIMEOUT@", fmt.Sprint(a.TestTimeoutSec), "@PATHS@", strings.TrimSpace(paths.String()), "@IDS@\n", ids.String(),
	).Replace(script))
}
