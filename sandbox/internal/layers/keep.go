package layers

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/agon-arena/agon/sandbox"
)

// find returns the mount that holds p and the path within it, or -1.
func (sp *Space) find(p string, writable bool) (int, string) {
	best := -1
	for i, m := range sp.mounts {
		if m.inside || p != m.Target && !strings.HasPrefix(p, m.Target+"/") {
			continue
		}
		if best < 0 || len(m.Target) > len(sp.mounts[best].Target) {
			best = i
		}
	}
	if best < 0 || writable && sp.mounts[best].upper == "" {
		return -1, ""
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(p, sp.mounts[best].Target), "/")
	if rel == "" {
		rel = "."
	}
	return best, rel
}

// Layer hands the writable layer at target on. The space stays usable for
// further Layer calls until the last layer is removed; Close may come first.
func (sp *Space) Layer(target string) (*sandbox.Layer, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	target = path.Clean(target)
	mounts := sp.mounts
	if target == "/" && sp.root != "" {
		mounts = []entry{{Mount: sandbox.Mount{Target: target}, upper: sp.root}}
	}
	for _, m := range mounts {
		if m.Target != target || m.upper == "" {
			continue
		}
		if m.inside {
			if err := sp.stillThere(target); err != nil {
				return nil, err
			}
		}
		st := sp.pool
		sp.s.mu.Lock()
		defer sp.s.mu.Unlock()
		if st.refs == 0 {
			return nil, fmt.Errorf("%w: the layer at %s is gone: the box was closed", sandbox.ErrSpec, target)
		}
		st.refs++
		var once sync.Once
		var rerr error
		return &sandbox.Layer{
			Target: target, Lower: m.lower,
			Dir:    strings.Join(append([]string{m.upper}, m.below...), ":"),
			Remove: func() error { once.Do(func() { rerr = sp.s.release(st) }); return rerr },
		}, nil
	}
	return nil, fmt.Errorf("%w: no writable mount at %s", sandbox.ErrSpec, target)
}

// stillThere demands that a directory inside another mount was not replaced.
// The box's processes must be gone.
func (sp *Space) stillThere(target string) error {
	i, rel := sp.find(target, true)
	if i < 0 {
		return fmt.Errorf("%w: no writable mount at %s", sandbox.ErrSpec, target)
	}
	root, err := os.OpenRoot(sp.mounts[i].path)
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrHost, err)
	}
	defer func() { _ = root.Close() }()
	for p := rel; p != "."; p = path.Dir(p) {
		if fi, err := root.Lstat(p); err != nil || !fi.IsDir() {
			return fmt.Errorf("%w: %s was replaced", sandbox.ErrUnsafe, target)
		}
	}
	return nil
}

// adopt keeps the storages of foreign layer directories alive while sp is.
func (sp *Space) adopt(dirs []string) error {
	sp.s.mu.Lock()
	defer sp.s.mu.Unlock()
	for _, d := range dirs {
		var st *storage
		for dir, p := range sp.s.pool {
			if strings.HasPrefix(d, dir+"/") {
				st = p
			}
		}
		if st == nil || st.refs == 0 {
			return fmt.Errorf("%w: the layer is gone or of another driver", sandbox.ErrSpec)
		}
		if st != sp.pool && !slices.Contains(sp.pool.deps, st) {
			st.refs++
			sp.pool.deps = append(sp.pool.deps, st)
		}
	}
	return nil
}
