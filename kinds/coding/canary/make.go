package canary

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

const (
	minName   = 4 // letters of a name that is changed
	knownFile = "tests/canary.txt"
)

// ErrNone says that no canary can be made of a task: its solution has too few
// names that the tree itself defines.
var ErrNone = errors.New("its solution has too few names of its own")

// defined finds names where the tree defines them: Python, Go, JavaScript, Rust.
var defined = lazyregexp.New(`\b(?:def|class|func|function|type|struct|enum|trait|fn|const|let|var|interface)\s+(?:\([^()\n]*\)\s*)?([A-Za-z_]\w*)` +
	`|\b(?:self|this|exports)\.([A-Za-z_]\w*)\s*=[^=]` + `|(?m:^\s*([A-Za-z_]\w*)\s*(?::=|=[^=]))`)

// imported finds Python's lines that bring in names, and the first part of the module.
var imported = lazyregexp.New(`(?m)^\s*(?:from|import)\s+(\w+)[^\n]*`)

// usual are names that mean something to the languages' own libraries: as
// attributes they may be of objects that the tree does not define.
var usual = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`
append clear copy count extend index insert remove reverse sort items keys values update popitem setdefault fromkeys
encode decode format join split splitlines strip lstrip rstrip replace startswith endswith lower upper title find rfind partition rpartition
isdigit isalpha isspace read write readline readlines close open seek tell flush name names path exists mkdir parent stem suffix
match search group groups groupdict start compile pattern finditer findall send throw next iter
self None True False return yield while else elif break continue pass raise from import class with async await lambda assert global nonlocal except finally
print range list dict tuple bytes bytearray frozenset type object super len isinstance hasattr getattr setattr sorted reversed enumerate filter
ValueError TypeError KeyError IndexError Exception StopIteration RuntimeError AttributeError
args kwargs main test tests setUp tearDown cls
func struct interface package string error bool float64 int64 uint64 byte rune make append map chan switch case default const
Error String Errorf Sprintf Println Printf Read Write Close Len Less Swap
function const let this null undefined true false new export exports require module default constructor prototype
length push shift unshift slice splice concat includes indexOf forEach reduce some every toString valueOf then catch
data message code value key`) {
		out[w] = true
	}
	return out
}()

// Make writes a canary of t into dir, which must not be there, and returns the names
// that it changed, old to new. The statement stays as it is. The same seed makes the
// same canary. It wraps ErrNone where t has too little to change.
func Make(t *task.Task, dir, seed string) (map[string]string, error) {
	a := t.Config.Agon
	if t.Recipe() {
		return nil, fmt.Errorf("task %s is a recipe: fetch it first", t.Key)
	}
	if !a.Repository() || Is(t) {
		return nil, fmt.Errorf("task %s has no repository with a solution, or is a canary already", t.Key)
	}
	fix, err := t.SolutionPatch()
	if err != nil {
		return nil, err
	}
	to, err := renames(t, fix, seed)
	if err != nil {
		return nil, err
	}
	if err := task.Materialise(t, dir); err != nil {
		return nil, err
	}
	if err = rewrite(t, dir, to); err == nil {
		err = finish(t, dir, fix)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("make a canary of %s: %w", t.Key, err)
	}
	return to, nil
}

// renames chooses the names of the solution that become others.
func renames(t *task.Task, fix []byte, seed string) (map[string]string, error) {
	a := t.Config.Agon
	shown, err := names(t)
	if err != nil {
		return nil, err
	}
	own, kept, modules := map[string]bool{}, map[string]bool{}, map[string]bool{}
	keep := func(s string) {
		for _, w := range word().FindAllString(s, -1) {
			kept[w] = true
		}
	}
	for _, id := range slices.Concat(a.FailToPass, a.PassToPass) {
		keep(id)
	}
	keep(strings.Join(a.PythonPath, " "))
	for _, f := range t.Manifest().Files {
		if rel, ok := strings.CutPrefix(f.Path, a.Base+"/"); ok {
			for _, w := range word().FindAllString(rel, -1) {
				modules[w] = true
			}
		}
	}
	for _, f := range t.Manifest().Files {
		rel, ok := strings.CutPrefix(f.Path, a.Base+"/")
		if !ok {
			continue
		}
		keep(path.Dir(rel)) // directories keep their names
		if f.Mode == blob.ModeLink {
			continue
		}
		b, err := t.ReadFile(f.Path, max(maxText, f.Size))
		if err != nil {
			return nil, err
		}
		for _, m := range defined().FindAllStringSubmatch(string(b), -1) {
			own[m[1]+m[2]+m[3]] = true
		}
		for _, m := range imported().FindAllStringSubmatch(string(b), -1) {
			if !modules[m[1]] {
				keep(m[0])
			}
		}
	}
	to := map[string]string{}
	for _, w := range solutionWords(fix) {
		if len(strings.Trim(w, "_")) < minName || !own[w] || kept[w] || usual[w] || strings.HasPrefix(w, "__") {
			continue
		}
		for n := 0; to[w] == ""; n++ {
			if made := invent(seed, w, n); !shown[made] && !usual[made] {
				to[w] = made
				shown[made] = true
			}
		}
	}
	if len(to) == 0 {
		return nil, fmt.Errorf("make a canary of %s: %w", t.Key, ErrNone)
	}
	return to, nil
}

// solutionWords are the names in a patch: of its lines, and of the files it changes.
func solutionWords(fix []byte) []string {
	seen := map[string]bool{}
	for l := range strings.Lines(string(fix)) {
		for _, w := range word().FindAllString(l, -1) {
			seen[w] = true
		}
	}
	return sorted(seen)
}

// invent makes a name in the form of another: its underscores, its capitals.
func invent(seed, old string, n int) string {
	h := hmac.New(sha256.New, []byte(seed))
	fmt.Fprintf(h, "%s %d", old, n)
	sum := h.Sum(nil)
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	var b strings.Builder
	for i := range 3 {
		b.WriteByte(consonants[int(sum[2*i])%len(consonants)])
		b.WriteByte(vowels[int(sum[2*i+1])%len(vowels)])
	}
	made := b.String()
	body := strings.TrimLeft(old, "_")
	switch {
	case strings.ToUpper(body) == body:
		made = strings.ToUpper(made)
	case unicode.IsUpper(rune(body[0])):
		made = strings.ToUpper(made[:1]) + made[1:]
	}
	return old[:len(old)-len(body)] + made
}

// rewrite puts the new names into what dir holds, but for the statement and the
// dependencies, and gives files named like them new names.
func rewrite(t *task.Task, dir string, to map[string]string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	a := t.Config.Agon
	for _, f := range t.Manifest().Files {
		if !strings.HasPrefix(f.Path, a.Base+"/") && !strings.HasPrefix(f.Path, a.Hidden+"/") && f.Path != a.Solution {
			continue
		}
		b, err := t.ReadFile(f.Path, max(maxText, f.Size))
		if err != nil || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
			continue // a link, or no text
		}
		if err := root.WriteFile(f.Path, replace(b, to), 0o644); err != nil {
			return err
		}
		if f.Path == a.Solution {
			continue
		}
		stem, ext, _ := strings.Cut(path.Base(f.Path), ".")
		if other := to[stem]; other != "" {
			name := path.Join(path.Dir(f.Path), other+"."+ext)
			if err := root.Rename(f.Path, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func replace(text []byte, to map[string]string) []byte {
	return word().ReplaceAllFunc(text, func(w []byte) []byte {
		if made := to[string(w)]; made != "" {
			return []byte(made)
		}
		return w
	})
}

// finish writes the lines that give a table away, and names them in task.toml.
func finish(t *task.Task, dir string, fix []byte) error {
	made, err := task.LoadDir(dir, t.Key)
	if err != nil {
		return err
	}
	shown, err := names(made)
	if err != nil {
		return err
	}
	var known []string
	for l := range strings.Lines(string(fix)) {
		if strings.HasPrefix(l, "--- ") || strings.HasPrefix(l, "+++ ") || strings.HasPrefix(l, "@@ ") || strings.HasPrefix(l, "diff ") || strings.HasPrefix(l, "index ") {
			continue
		}
		if l = content(strings.TrimSpace(l)); foreign(l, shown) && !slices.Contains(known, l) {
			known = append(known, l)
		}
	}
	if len(known) < MinLines {
		return fmt.Errorf("%w: %d lines of it would give a table away, %d are needed", ErrNone, len(known), MinLines)
	}
	config := filepath.Join(dir, "task.toml")
	b, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	at := regexp.MustCompile(`(?m)^solution *= *.*$`)
	if !at.Match(b) {
		return errors.New("task.toml has no line of its solution")
	}
	b = at.ReplaceAllFunc(b, func(l []byte) []byte { return append(slices.Clone(l), "\ncanary = \""+knownFile+"\""...) })
	for name, text := range map[string][]byte{config: b, filepath.Join(dir, filepath.FromSlash(knownFile)): []byte(strings.Join(known, "\n") + "\n")} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	if made, err = task.LoadDir(dir, t.Key); err != nil {
		return err
	}
	return Check(made)
}
