// Package canary tells answers that are known by heart. A canary is a task whose
// statement is another task's, word for word, while its tree has other names: who
// looks up the statement in a table gives an answer that names what is not there.
package canary

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

const (
	// MinLines is how many lines of the other task's answer an answer must hold to
	// be one that is known by heart: one line could be luck.
	MinLines = 2
	maxKnown = 1 << 20 // bytes of the list of lines
	maxText  = 4 << 20 // bytes of a file that is read for its names
)

var word = lazyregexp.New(`[A-Za-z_][A-Za-z0-9_]*`)

// Is reports whether a task is a canary.
func Is(t *task.Task) bool { return t.Config.Agon.Canary != "" }

// Known returns the lines of answer that belong to the other task's answer, in
// order and each once; nil where they are fewer than MinLines, or t is not a canary.
// Each of them holds a name that neither the tree nor the statement shows, and that
// the task's own solution has not.
func Known(t *task.Task, answer []byte) ([]string, error) {
	if !Is(t) {
		return nil, nil
	}
	b, err := t.ReadFile(t.Config.Agon.Canary, maxKnown)
	if err != nil {
		return nil, err
	}
	left := map[string]bool{}
	for _, l := range lines(b) {
		left[l] = true
	}
	var found []string
	for _, l := range lines(answer) {
		if l = content(l); left[l] {
			delete(left, l)
			found = append(found, l)
		}
	}
	if len(found) < MinLines {
		return nil, nil
	}
	return found, nil
}

// lines are the lines of a text without the space around them; empty ones are left out.
func lines(b []byte) (out []string) {
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// content is a line of a diff without its mark.
func content(l string) string {
	if l != "" && (l[0] == '+' || l[0] == '-') {
		l = l[1:]
	}
	return strings.TrimSpace(l)
}

// Check says what is wrong with a canary: lines that an honest answer could hold.
func Check(t *task.Task) error {
	if !Is(t) {
		return nil
	}
	b, err := t.ReadFile(t.Config.Agon.Canary, maxKnown)
	if err != nil {
		return err
	}
	list := lines(b)
	shown, err := names(t)
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return &task.InvalidError{Key: t.Key, Findings: []agon.Finding{{Code: "invalid_task", Field: "agon.canary", Message: fmt.Sprintf(format, args...)}}}
	}
	if len(list) < MinLines {
		return bad("%s has %d lines, at least %d are needed", t.Config.Agon.Canary, len(list), MinLines)
	}
	for _, l := range list {
		if !foreign(l, shown) {
			return bad("line %.100q holds no name of the other task alone: the tree, the statement or the solution has them", l)
		}
	}
	return nil
}

// foreign reports whether a line holds a name that is not shown.
func foreign(line string, shown map[string]bool) bool {
	return slices.ContainsFunc(word().FindAllString(line, -1), func(w string) bool { return len(w) >= minName && !shown[w] })
}

// names are those that an agent is shown, of the tree, its paths and the statement,
// and those that the task's own solution makes up.
func names(t *task.Task) (map[string]bool, error) {
	out := map[string]bool{}
	add := func(s string) {
		for _, w := range word().FindAllString(s, -1) {
			out[w] = true
		}
	}
	add(t.Instruction)
	fix, err := t.SolutionPatch()
	if err != nil {
		return nil, err
	}
	add(string(fix))
	for _, f := range t.Manifest().Files {
		rel, ok := strings.CutPrefix(f.Path, t.Config.Agon.Base+"/")
		if !ok {
			continue
		}
		add(rel)
		if f.Mode == blob.ModeLink {
			continue // what it leads to is read by its own name
		}
		b, err := t.ReadFile(f.Path, max(maxText, f.Size))
		if err != nil {
			return nil, err // a name that is not known here would count as by heart
		}
		add(string(b))
	}
	return out, nil
}

// sorted are the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
