package roles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/kit"
)

const (
	// keepTries is how many tries are kept: the oldest go.
	keepTries = 20
	// lastLines is how much of a failed agent's output is shown.
	lastLines = 20
)

// newTry makes the folder of one try below the data directory: what its agent
// printed and did stays there to be read.
func newTry(o kit.Options) (string, error) {
	dir := filepath.Join(o.Data, "try")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep try: %w", err)
	}
	old, err := tries(dir)
	if err != nil {
		return "", err
	}
	next := 1
	if len(old) > 0 {
		next = old[len(old)-1] + 1
	}
	for len(old) >= keepTries {
		if err := os.RemoveAll(filepath.Join(dir, tryName(old[0]))); err != nil {
			return "", fmt.Errorf("keep try: %w", err)
		}
		old = old[1:]
	}
	dir = filepath.Join(dir, tryName(next))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep try: %w", err)
	}
	return dir, nil
}

func tryName(n int) string { return fmt.Sprintf("%04d", n) }

// tries are the numbers of the tries that are kept, in order.
func tries(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("keep try: %w", err)
	}
	var out []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.IsDir() {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// keepRun writes what one run left into dir/NAME: events.jsonl is its trace,
// output.txt what the agent printed, files what the play read from the box. It
// returns the folder and the end of the output.
func keepRun(dir, name string, att *validator.Attempt) (at, output string, err error) {
	at = filepath.Join(dir, name)
	files := filepath.Join(at, "files")
	if err := os.MkdirAll(files, 0o700); err != nil {
		return "", "", fmt.Errorf("keep run: %w", err)
	}
	var trace, printed bytes.Buffer
	enc := json.NewEncoder(&trace)
	for _, e := range att.Events() {
		if err := enc.Encode(e); err != nil {
			return "", "", fmt.Errorf("keep run: %w", err)
		}
		var out struct {
			Stream string `json:"stream"`
			Text   string `json:"text"`
		}
		if e.Type == agon.EventOutput && json.Unmarshal(e.Data, &out) == nil && out.Text != "" {
			printed.WriteString(strings.TrimRight(out.Text, "\n") + "\n")
		}
	}
	err = errors.Join(os.WriteFile(filepath.Join(at, "events.jsonl"), trace.Bytes(), 0o600), os.WriteFile(filepath.Join(at, "output.txt"), printed.Bytes(), 0o600))
	for name, b := range att.Files {
		path := filepath.Join(files, filepath.FromSlash(name))
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			continue // a kind names its files; none leads out
		}
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, b, 0o600))
	}
	if err != nil {
		return "", "", fmt.Errorf("keep run: %w", err)
	}
	return at, endOf(printed.String()), nil
}

// endOf is the end of a text: its last lines, of at most 4 KiB.
func endOf(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	s = strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
	return s[max(0, len(s)-4096):]
}
