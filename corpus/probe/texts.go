package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Text is what a task tells, and the canaries that stand in its files.
type Text struct {
	Task     string
	Text     string
	Canaries []Canary
}

// Canary is a mark that nobody writes by chance, with what stands before it where it was found.
type Canary struct {
	Mark   string
	Before string // at most 200 bytes
}

// Limits of what is read.
const (
	maxTexts = 100_000
	maxFile  = 1 << 20 // of a task's file, in bytes; longer ones are not looked at
	minWords = 6       // of a text: shorter ones tell nothing
)

// guid is how canaries of published benchmarks look.
var guid = lazyregexp.New(`(?i)canary[^\n]{0,80}?\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`)

// Read reads texts of a directory of tasks (each with task.toml and instruction.md),
// or of a file of JSON lines: {task or key, and text, prompt or messages}.
func Read(path string) ([]Text, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "tasks", Message: err.Error()}
	}
	if st.IsDir() {
		return readDir(path)
	}
	return readLines(path)
}

func readDir(root string) ([]Text, error) {
	var out []Text
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "instruction.md" {
			return err
		}
		if len(out) >= maxTexts {
			return &agon.Error{Code: "too_large", Status: 413, Field: "tasks", Limit: fmt.Sprint(maxTexts), Message: root + " has more tasks"}
		}
		dir := filepath.Dir(p)
		key, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		b, err := readFile(p)
		if err != nil {
			return err
		}
		t := Text{Task: filepath.ToSlash(key), Text: strings.TrimSpace(string(b))}
		if t.Canaries, err = canariesBelow(dir); err != nil {
			return err
		}
		out = append(out, t)
		return nil
	})
	var e *agon.Error
	if err != nil && !errors.As(err, &e) {
		err = fmt.Errorf("read tasks: %w", err)
	}
	return out, err
}

// readFile reads a plain file; what is none, or is too long, is empty.
func readFile(path string) ([]byte, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, nil
	}
	return os.ReadFile(path)
}

// canariesBelow finds the canaries in all files of a task, each once.
func canariesBelow(dir string) (out []Canary, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := readFile(p)
		if err != nil {
			return err
		}
		out = append(out, canariesIn(string(b))...)
		return nil
	})
	slices.SortStableFunc(out, func(a, b Canary) int { return strings.Compare(a.Mark, b.Mark) })
	return slices.CompactFunc(out, func(a, b Canary) bool { return a.Mark == b.Mark }), err
}

func canariesIn(s string) (out []Canary) {
	for _, m := range guid().FindAllStringSubmatchIndex(s, -1) {
		out = append(out, Canary{Mark: strings.ToLower(s[m[2]:m[3]]), Before: strings.ToValidUTF8(s[max(0, m[2]-200):m[2]], "")})
	}
	return out
}

func readLines(path string) ([]Text, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "tasks", Message: err.Error()}
	}
	defer f.Close()
	in := bufio.NewScanner(io.LimitReader(f, 1<<30))
	in.Buffer(make([]byte, 0, 1<<16), 16<<20)
	var out []Text
	for n := 1; in.Scan(); n++ {
		if len(strings.TrimSpace(in.Text())) == 0 {
			continue
		}
		var r struct {
			Task, Key, Text, Prompt, Query string
			Messages                       []struct{ Role, Content string }
		}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil || len(out) >= maxTexts {
			return nil, &agon.Error{Code: "bad_rows", Status: 422, Field: "tasks", Limit: fmt.Sprintf("%d lines of 16 MiB", maxTexts), Message: fmt.Sprintf("%s line %d: %v", path, n, err)}
		}
		t := Text{Task: r.Task + r.Key, Text: r.Text + r.Prompt + r.Query}
		for _, m := range r.Messages {
			if t.Text == "" && m.Role == "user" {
				t.Text = m.Content
			}
		}
		if t.Task == "" {
			t.Task = fmt.Sprintf("line %d", n)
		}
		t.Canaries = canariesIn(t.Text)
		out = append(out, t)
	}
	if err := in.Err(); err != nil {
		return nil, &agon.Error{Code: "bad_rows", Status: 422, Field: "tasks", Message: path + ": " + err.Error()}
	}
	return out, nil
}
