package play

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// LoadTask reads a task directory: what is public of it, and what is not. The
// caller opens foreign directories through an os.Root.
func LoadTask(fsys fs.FS) (Task, Private, error) {
	b, ok, err := readText(fsys, TaskFile, 1<<20)
	if err != nil || !ok {
		return Task{}, Private{}, errors.Join(err, missing(ok, TaskFile))
	}
	t, err := ParseTask([]byte(b))
	if err != nil {
		return t, Private{}, err
	}
	if t.Brief, _, err = readText(fsys, "instruction.md", MaxBrief); err != nil {
		return t, Private{}, err
	}
	if t.Onboard, _, err = readText(fsys, OnboardFile, MaxOnboard); err != nil {
		return t, Private{}, err
	}
	t.stands(fsys)
	var p Private
	if b, ok, err = readText(fsys, PrivateFile, 8<<20); err == nil && ok {
		p, err = ParsePrivate([]byte(b))
	}
	return t, p, errors.Join(err, t.Validate())
}

func missing(ok bool, name string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s is missing", name)
}

// readText reads a file of at most limit bytes; ok is false where there is none.
func readText(fsys fs.FS, name string, limit int64) (s string, ok bool, err error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return "", false, fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), true, nil
}
