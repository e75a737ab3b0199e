package task

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
)

// Form is what a kind wants of its tasks beyond what Load checks of every task.
type Form struct {
	Files []string // regular files that must be there
	Limit int64    // bytes that each of Files may have
	Dirs  []string // directories that must hold a file
	// Repository wants a repository task (Agon.Repository). Otherwise none of its
	// fields may be set.
	Repository bool
}

// Check says what is wrong with t: nil, or an *InvalidError that lists it all.
func (f Form) Check(t *Task) error {
	bad := &InvalidError{Key: t.Key}
	add := func(field, limit, format string, args ...any) {
		bad.Findings = append(bad.Findings, agon.Finding{Code: "invalid_task", Field: field, Limit: limit, Message: fmt.Sprintf(format, args...)})
	}
	for _, name := range f.Files {
		i, ok := slices.BinarySearchFunc(t.files, name, func(f file, name string) int { return strings.Compare(f.path, name) })
		switch {
		case !ok || t.files[i].mode == blob.ModeLink:
			add(name, "", "missing")
		case t.files[i].size > f.Limit:
			add(name, fmt.Sprintf("%d bytes", f.Limit), "%d bytes are too many", t.files[i].size)
		}
	}
	for _, dir := range f.Dirs {
		if !slices.ContainsFunc(t.files, func(x file) bool { return strings.HasPrefix(x.path, dir+"/") }) {
			add(dir, "", "missing or holds no file")
		}
	}
	switch kind := t.Config.Agon.Kind; {
	case f.Repository && !t.Config.Agon.Repository():
		add("agon", "", "a %s task names base, hidden, solution and fail_to_pass", kind)
	case !f.Repository && t.Config.Agon.Repository():
		add("agon", "", "a %s task has no field but kind", kind)
	}
	if len(bad.Findings) == 0 {
		return nil
	}
	return bad
}
