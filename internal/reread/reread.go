// Package reread keeps a value that is made of files, and makes it again when one
// of them changes. Operators renew certificates and policies without a restart.
package reread

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Config says which files make a value, and how.
type Config[T any] struct {
	Paths []string
	Most  int64 // bytes of a file
	// Make makes the value of what the files hold, in their order.
	Make func([][]byte) (T, error)
	Log  *slog.Logger
	// Said describes the value for the log; it may be nil.
	Said func(T) []any
}

// Files holds the value. It is safe for concurrent use.
type Files[T any] struct {
	cfg Config[T]

	mu   sync.Mutex
	seen []stamp // of the files when they were read last, also in vain; guarded by mu
	now  T       // guarded by mu
}

// stamp tells one state of a file from the next.
type stamp struct {
	id   os.FileInfo // which file: a link may lead elsewhere
	size int64
	at   time.Time
	err  string
}

func (s stamp) same(x stamp) bool {
	if s.err != "" || x.err != "" {
		return s.err == x.err
	}
	return s.size == x.size && s.at.Equal(x.at) && os.SameFile(s.id, x.id)
}

// Open reads the files. An error here is the caller's; later ones are logged, and
// the last good value stays.
func Open[T any](c Config[T]) (*Files[T], error) {
	f := &Files[T]{cfg: c, seen: stamps(c.Paths)}
	v, err := f.read()
	if err != nil {
		return nil, err
	}
	f.now = v
	return f, nil
}

// Get returns the value as the files have it now, or the last good one.
func (f *Files[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := stamps(f.cfg.Paths)
	changed := false
	for i := range now {
		changed = changed || !now[i].same(f.seen[i])
	}
	if !changed {
		return f.now
	}
	f.seen = now
	v, err := f.read()
	if err != nil {
		f.cfg.Log.Error("changed files cannot be used: what they held before stays in force", "files", f.cfg.Paths, "err", err)
		return f.now
	}
	f.now = v
	var more []any
	if f.cfg.Said != nil {
		more = f.cfg.Said(v)
	}
	f.cfg.Log.Info("changed files are in force", append([]any{"files", f.cfg.Paths}, more...)...)
	return v
}

func stamps(paths []string) []stamp {
	out := make([]stamp, len(paths))
	for i, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			out[i].err = err.Error()
			continue
		}
		out[i] = stamp{info, info.Size(), info.ModTime(), ""}
	}
	return out
}

func (f *Files[T]) read() (v T, err error) {
	all := make([][]byte, len(f.cfg.Paths))
	for i, p := range f.cfg.Paths {
		if all[i], err = readMost(p, f.cfg.Most); err != nil {
			return v, err
		}
	}
	return f.cfg.Make(all)
}

func readMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s: over %d bytes", path, most)
	}
	return b, nil
}
