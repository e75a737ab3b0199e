package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// Registry is where Harbor's public data sets are named.
// Source: harbor 0.25.0, constants.py.
const Registry = "https://raw.githubusercontent.com/laude-institute/harbor/main/registry.json"

const (
	maxRegistry = 64 << 20
	fetchTime   = 20 * time.Minute // of one repository at one commit
)

// set is one data set of a registry, as Harbor writes it (DatasetSpec).
type set struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Tasks   []listed `json:"tasks"`
}

type listed struct {
	Name   string `json:"name"`
	URL    string `json:"git_url"`
	Commit string `json:"git_commit_id"`
	Path   string `json:"path"`
}

var setName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_./-]{0,127}(@[A-Za-z0-9][A-Za-z0-9_.-]{0,63})?$`)

// IsSet tells whether a source can be the name of a data set: it names no file.
func IsSet(source string) bool {
	_, err := os.Lstat(source)
	return errors.Is(err, fs.ErrNotExist) && setName().MatchString(source)
}

// Registry imports a data set NAME or NAME@VERSION that a registry names, a file or
// an address; without a version the last that is listed. Its repositories are
// fetched by git at the commits that the registry pins.
func (w *Writer) Registry(ctx context.Context, registry, source string) error {
	b, local, err := readRegistry(ctx, registry)
	if err != nil {
		return err
	}
	s, err := pick(b, source)
	if err != nil {
		return err
	}
	type repo struct{ url, commit string }
	groups := map[repo][]listed{}
	var order []repo
	for _, t := range s.Tasks {
		r := repo{t.URL, t.Commit}
		if _, ok := groups[r]; !ok {
			order = append(order, r)
		}
		groups[r] = append(groups[r], t)
	}
	for _, r := range order {
		if r.url == "" {
			if local == "" {
				return fmt.Errorf("%s: a task without a repository, in a registry that is not a file", source)
			}
			if err := w.listed(ctx, local, local, groups[r], false); err != nil {
				return err
			}
			continue
		}
		if err := w.repository(ctx, r.url, r.commit, local != "", groups[r]); err != nil {
			return err
		}
	}
	return nil
}

// readRegistry reads a registry; local is the directory of its file.
func readRegistry(ctx context.Context, registry string) (b []byte, local string, err error) {
	if strings.HasPrefix(registry, "https://") || strings.HasPrefix(registry, "http://") {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, registry, nil)
		if err != nil {
			return nil, "", fmt.Errorf("read registry: %w", err)
		}
		c := &http.Client{Transport: fetch.Outward(req.URL.Hostname()), Timeout: fetchTime}
		resp, err := c.Do(req)
		if err != nil {
			return nil, "", fmt.Errorf("read registry: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, "", fmt.Errorf("read registry: %s answers %s", registry, resp.Status)
		}
		b, err = io.ReadAll(io.LimitReader(resp.Body, maxRegistry+1))
		if err != nil {
			return nil, "", fmt.Errorf("read registry: %w", err)
		}
	} else {
		fi, err := os.Stat(registry)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxRegistry {
			return nil, "", fmt.Errorf("read registry: %s is not a file of at most %d bytes", registry, maxRegistry)
		}
		if b, err = os.ReadFile(registry); err != nil {
			return nil, "", fmt.Errorf("read registry: %w", err)
		}
		if local, err = filepath.Abs(filepath.Dir(registry)); err != nil {
			return nil, "", err
		}
	}
	if len(b) > maxRegistry {
		return nil, "", fmt.Errorf("read registry: more than %d bytes", maxRegistry)
	}
	return b, local, nil
}

// pick finds a data set.
func pick(b []byte, source string) (*set, error) {
	var all []set
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	name, version, _ := strings.Cut(source, "@")
	var found *set
	var others []string
	for i, s := range all {
		if s.Name == name && (version == "" || s.Version == version) {
			found = &all[i]
		}
		others = append(others, s.Name+"@"+s.Version)
	}
	switch {
	case found == nil:
		slices.Sort(others)
		return nil, fmt.Errorf("no data set %s; it has %s", source, plain.Short(strings.Join(others, ", "), 1000))
	case len(found.Tasks) > MaxTasks:
		return nil, fmt.Errorf("%s: %d tasks, at most %d", source, len(found.Tasks), MaxTasks)
	}
	for _, t := range found.Tasks {
		if t.URL != "" && !fs.ValidPath(path.Clean(t.Path)) || t.Path == "" {
			return nil, fmt.Errorf("%s: task %.100q has the path %.200q", source, t.Name, t.Path)
		}
	}
	return found, nil
}

// repository fetches one commit and imports tasks of it. That it cannot be had is
// told in the row of each.
func (w *Writer) repository(ctx context.Context, url, commit string, local bool, tasks []listed) error {
	tmp, err := os.MkdirTemp(w.Dir, ".repository-")
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	defer os.RemoveAll(tmp)
	tree := filepath.Join(tmp, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if err := checkout(ctx, tmp, tree, url, commit, local, tasks); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, t := range tasks {
			w.list = append(w.list, Imported{Task: Slug(t.Name), Source: url + "@" + commit, Reason: plain.Short(err.Error(), 300)})
		}
		return nil
	}
	return w.listed(ctx, tree, url+"@"+commit, tasks, true)
}

// listed imports tasks that stand below top. What is below top is foreign where it
// was fetched: no link in it is followed to a directory of this machine.
func (w *Writer) listed(ctx context.Context, top, from string, tasks []listed, foreign bool) error {
	for _, t := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		source := from + ":" + t.Path
		at := t.Path
		if !filepath.IsAbs(at) {
			at = filepath.Join(top, at)
		}
		name := t.Name
		if name == "" {
			name = filepath.Base(t.Path)
		}
		if foreign && !linkless(top, t.Path) {
			w.list = append(w.list, Imported{Task: Slug(name), Source: source, Reason: "its path leads over a link"})
			continue
		}
		if fi, err := os.Lstat(filepath.Join(at, "task.toml")); err != nil || !fi.Mode().IsRegular() {
			w.list = append(w.list, Imported{Task: Slug(name), Source: source, Reason: "it has no task.toml"})
			continue
		}
		files, why, err := read(at)
		if err != nil {
			return err
		}
		if why != "" {
			w.list = append(w.list, Imported{Task: Slug(name), Source: source, Reason: why})
			continue
		}
		if err := w.add(name, source, files); err != nil {
			return err
		}
	}
	return nil
}

// linkless tells whether no part of a path below top is a link. A part that is not
// there is none.
func linkless(top, below string) bool {
	at := top
	for part := range strings.SplitSeq(path.Clean(below), "/") {
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return false
		}
	}
	return true
}

var commitID = lazyregexp.New(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// checkout lays the paths of tasks at a commit out in tree. Nothing of the
// repository is run: no hooks, filters or submodules.
func checkout(ctx context.Context, tmp, tree, url, commit string, local bool, tasks []listed) error {
	if strings.HasPrefix(url, "-") {
		return fmt.Errorf("%.100q is not a repository", url)
	}
	if !commitID().MatchString(commit) {
		return fmt.Errorf("%.60q pins no commit", commit)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	in := gitIn(ctx, tmp, local, "--git-dir", "git", "--work-tree", tree)
	git := func(args ...string) error { _, err := in(args...); return err }
	if err := git("init", "--quiet"); err != nil {
		return err
	}
	if err := git("fetch", "--quiet", "--depth", "1", "--no-tags", "--", url, commit); err != nil {
		return err
	}
	// One that does not exist does not keep the others away: listed says so.
	for chunk := range slices.Chunk(tasks, 200) {
		args := []string{"--literal-pathspecs", "checkout", "--quiet", commit, "--"}
		for _, t := range chunk {
			args = append(args, path.Clean(t.Path))
		}
		if err := git(args...); err == nil {
			continue
		}
		for _, t := range chunk {
			if err := git("--literal-pathspecs", "checkout", "--quiet", commit, "--", path.Clean(t.Path)); err != nil && ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

// gitIn runs git in a directory and returns what it prints. Nothing of a repository
// is run by it: no hooks, filters or monitors. A local one may be any of this
// machine; others are of the net.
func gitIn(ctx context.Context, dir string, local bool, more ...string) func(args ...string) (string, error) {
	allowed := "https:ssh"
	if local {
		allowed += ":http:git:file"
	}
	return func(args ...string) (string, error) {
		c := exec.CommandContext(ctx, "git", slices.Concat([]string{
			"-C", dir, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false", "-c", "core.attributesFile=/dev/null",
			"-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=", "-c", "filter.lfs.required=false", "-c", "submodule.recurse=false", "-c", "advice.detachedHead=false",
		}, more, args)...)
		c.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL="+allowed, "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0")
		var out, said bytes.Buffer
		c.Stdout, c.Stderr = &out, &said
		if err := c.Run(); err != nil {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, plain.Short(strings.TrimSpace(said.String()), 200))
		}
		return strings.TrimSpace(out.String()), nil
	}
}
