// Package gitrepo answers search_repo and get_repo_file. Foreign repositories
// are hostile: git runs only inside a throw-away box that holds nothing of
// ours, without hooks, helpers, submodules or a checkout; what comes out is a
// stream of blobs, which is parsed here within limits and indexed.
package gitrepo

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox"
)

// Limits of one commit. What is beyond a limit of one file is left out; a
// commit beyond the others is refused.
const (
	maxFile  = 512 << 10
	maxFiles = 20_000
	maxTotal = 64 << 20
	maxPath  = 1000
	keep     = 8 // commits in memory
)

// Config is what repositories are read with. Driver and Rootfs are needed.
type Config struct {
	Driver sandbox.Driver
	Rootfs string // has git
	// Hosts may be fetched from; default github.com, gitlab.com and codeberg.org.
	// The box has the machine's network then, so no other address may be named.
	Hosts []string
	// Local maps addresses to bare or plain repositories on this machine (a
	// mirror): they are mounted read-only in a box without any network.
	Local map[string]string
}

// Repos implements tools.Repo.
type Repos struct {
	cfg Config
	one singleflight.Group

	mu   sync.Mutex
	have map[string]*list.Element // of *commit; guarded by mu
	used *list.List               // most recent first; guarded by mu
}

// commit is one indexed commit.
type commit struct {
	key   string
	files []file
	index index.Inverted
}

type file struct {
	path, text string
}

// New returns an empty cache.
func New(c Config) *Repos {
	if c.Hosts == nil {
		c.Hosts = []string{"github.com", "gitlab.com", "codeberg.org"}
	}
	return &Repos{cfg: c, have: map[string]*list.Element{}, used: list.New()}
}

// Name implements tools.Repo.
func (*Repos) Name() string { return "git" }

// SearchRepo implements tools.Repo.
func (r *Repos) SearchRepo(ctx context.Context, q tools.RepoQuery) ([]tools.RepoHit, error) {
	c, err := r.commit(ctx, q.URL, q.Commit)
	if err != nil {
		return nil, err
	}
	var glob *regexp.Regexp
	if q.Glob != "" {
		glob = globRE(q.Glob)
	}
	found := c.index.Search(q.Query, q.Limit, func(d int) bool { return glob == nil || glob.MatchString(c.files[d].path) })
	out := make([]tools.RepoHit, 0, len(found))
	for _, m := range found {
		f := c.files[m.Doc]
		score := -m.Score // ascending, as full-text indexes of SQL databases give it
		ex, title := index.Excerpt(f.text, q.Query, tools.ExcerptLen), f.path
		out = append(out, tools.RepoHit{Path: f.path, URL: fileURL(q.URL, q.Commit, f.path, 0, 0), BM25: &score, Excerpt: &ex, Title: &title})
	}
	slices.SortStableFunc(out, func(a, b tools.RepoHit) int {
		switch {
		case *a.BM25 < *b.BM25:
			return -1
		case *a.BM25 > *b.BM25:
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	return out, nil
}

// GetFile implements tools.Repo.
func (r *Repos) GetFile(ctx context.Context, q tools.FileQuery) (*tools.RepoFile, error) {
	c, err := r.commit(ctx, q.URL, q.Commit)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.files, func(f file) bool { return f.path == q.Path })
	if i < 0 {
		return nil, &tools.Failure{Class: "not_found", Own: true}
	}
	text := c.files[i].text
	if q.Start > 0 || q.End > 0 {
		lines := strings.SplitAfter(text, "\n")
		from := min(max(q.Start-1, 0), len(lines))
		to := len(lines)
		if q.End > 0 {
			to = min(q.End, len(lines))
		}
		text = strings.Join(lines[from:max(to, from)], "")
	}
	ex, title := text, q.Path
	if utf8.RuneCountInString(ex) > tools.ExcerptLen {
		ex = string([]rune(ex)[:tools.ExcerptLen])
	}
	return &tools.RepoFile{Path: q.Path, URL: fileURL(q.URL, q.Commit, q.Path, q.Start, q.End), Text: text, Excerpt: &ex, Title: &title}, nil
}

// fileURL is where a person reads the file.
func fileURL(repo, sha, p string, start, end int) string {
	base := strings.TrimSuffix(strings.TrimSuffix(repo, "/"), ".git")
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	u := base + "/blob/" + sha + "/" + strings.Join(parts, "/")
	switch {
	case start > 0 && end > 0:
		u += fmt.Sprintf("#L%d-L%d", start, end)
	case start > 0:
		u += fmt.Sprintf("#L%d", start)
	}
	return u
}

// globRE reads a pattern in which * also crosses "/".
func globRE(g string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for _, r := range g {
		switch r {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile(b.String() + `$`)
}

// commit returns the indexed commit, fetching it once however many ask.
func (r *Repos) commit(ctx context.Context, repo, sha string) (*commit, error) {
	if err := tools.CheckRepo(repo, sha); err != nil {
		return nil, &tools.Failure{Class: "refused", Own: true}
	}
	key := repo + "@" + sha
	r.mu.Lock()
	if e := r.have[key]; e != nil {
		r.used.MoveToFront(e)
		r.mu.Unlock()
		return e.Value.(*commit), nil
	}
	r.mu.Unlock()
	ch := r.one.DoChan(key, func() (any, error) {
		// Not one caller's context: others wait for the same commit.
		c, err := r.fetch(context.WithoutCancel(ctx), repo, sha)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.have[key] = r.used.PushFront(c)
		for r.used.Len() > keep {
			last := r.used.Back()
			delete(r.have, last.Value.(*commit).key)
			r.used.Remove(last)
		}
		return c, nil
	})
	select {
	case got := <-ch:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*commit), nil
	case <-ctx.Done():
		return nil, &tools.Failure{Class: "timeout"}
	}
}

const work = "/work"

// fetch reads a commit in a box.
func (r *Repos) fetch(ctx context.Context, repo, sha string) (*commit, error) {
	local, isLocal := r.cfg.Local[repo]
	u, err := url.Parse(repo)
	if err != nil || (!isLocal && !slices.Contains(r.cfg.Hosts, u.Host)) {
		return nil, &tools.Failure{Class: "refused", Own: true, Detail: "host is not allowed"}
	}
	spec := sandbox.Spec{
		Name: "repo", Rootfs: r.cfg.Rootfs, Network: !isLocal,
		Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: work}},
		Limits: agon.Limits{WallMS: 100_000, CPUMilli: 1000, MemoryBytes: 768 << 20, Pids: 64, DiskBytes: 512 << 20, Inodes: 50_000, OutputBytes: maxTotal + maxTotal/2},
		Env: []string{
			"HOME=" + work, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_ALLOW_PROTOCOL=https",
			"GIT_CONFIG_COUNT=4", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_CONFIG_KEY_1=core.hooksPath", "GIT_CONFIG_VALUE_1=/dev/null",
			"GIT_CONFIG_KEY_2=fetch.fsckObjects", "GIT_CONFIG_VALUE_2=true", "GIT_CONFIG_KEY_3=http.followRedirects", "GIT_CONFIG_VALUE_3=false",
		},
	}
	gitDir := work + "/r"
	if isLocal {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: local, Target: "/src"})
		gitDir = "/src"
		if filepath.Ext(local) != ".git" {
			gitDir = "/src/.git"
		}
	}
	box, err := r.cfg.Driver.Start(ctx, spec)
	if err != nil {
		return nil, &tools.Failure{Class: "server", Detail: err.Error()}
	}
	defer func() { _ = box.Close() }() // the box holds nothing that we need
	if !isLocal {
		if _, err := r.git(ctx, box, nil, 1<<20, "init", "-q", "--bare", gitDir); err != nil {
			return nil, err
		}
		if _, err := r.git(ctx, box, nil, 1<<20, "--git-dir", gitDir, "fetch", "-q", "--depth", "1", "--no-tags", "--no-recurse-submodules", "--", repo, sha); err != nil {
			return nil, err
		}
	}
	tree, err := r.git(ctx, box, nil, 16<<20, "--git-dir", gitDir, "ls-tree", "-r", "-z", "-l", "--full-tree", sha+"^{commit}")
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(tree)
	if err != nil {
		return nil, &tools.Failure{Class: "refused", Own: true, Detail: err.Error()}
	}
	var want bytes.Buffer
	for _, e := range entries {
		want.WriteString(e.blob + "\n")
	}
	blobs, err := r.git(ctx, box, &want, maxTotal+maxTotal/2, "--git-dir", gitDir, "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	files, err := parseBlobs(entries, blobs)
	if err != nil {
		return nil, &tools.Failure{Class: "bad_reply", Detail: err.Error()}
	}
	c := &commit{key: repo + "@" + sha, files: files}
	for _, f := range files {
		c.index.Add(index.Field{Text: f.path, Weight: 2}, index.Field{Text: f.text, Weight: 1})
	}
	return c, nil
}

// git runs one command in the box and returns what it printed.
func (r *Repos) git(ctx context.Context, box sandbox.Box, stdin io.Reader, limit int, args ...string) ([]byte, error) {
	var out, errs capped
	out.limit, errs.limit = limit, 8<<10
	exit, err := box.Exec(ctx, sandbox.Cmd{Args: append([]string{"git"}, args...), Dir: work, Stdin: stdin, Stdout: &out, Stderr: &errs})
	switch {
	case err != nil:
		return nil, &tools.Failure{Class: "server", Detail: err.Error()}
	case exit.Lost != "":
		return nil, &tools.Failure{Class: "server", Detail: "box ended: " + exit.Lost}
	case exit.Limit == "wall":
		return nil, &tools.Failure{Class: "timeout"}
	case out.over || exit.Limit != "":
		return nil, &tools.Failure{Class: "refused", Own: true, Detail: "repository is too large"}
	case exit.Code != 0:
		said := errs.buf.String()
		for _, s := range []string{"resolve host", "onnection", "timed out", "unable to access"} {
			if strings.Contains(said, s) && !strings.Contains(said, "not found") {
				return nil, &tools.Failure{Class: "server", Detail: "git cannot reach the host"}
			}
		}
		return nil, &tools.Failure{Class: "not_found", Own: true, Detail: fmt.Sprintf("git exited %d", exit.Code)}
	}
	return out.buf.Bytes(), nil
}

// capped keeps the first limit bytes.
type capped struct {
	buf   bytes.Buffer
	limit int
	over  bool
}

func (c *capped) Write(b []byte) (int, error) {
	if room := c.limit - c.buf.Len(); len(b) > room {
		c.over = true
		c.buf.Write(b[:max(room, 0)])
	} else {
		c.buf.Write(b)
	}
	return len(b), nil
}

type entry struct {
	path, blob string
	size       int64
}

// parseTree reads `git ls-tree -r -z -l`: "mode type sha size\tpath" records
// that end in NUL. Links, submodules, large files and odd paths are left out.
func parseTree(b []byte) ([]entry, error) {
	var out []entry
	total := int64(0)
	for len(b) > 0 {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return nil, errors.New("tree listing breaks off")
		}
		rec := string(b[:i])
		b = b[i+1:]
		head, p, ok := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 4 || !shaForm().MatchString(f[2]) {
			return nil, errors.New("tree listing has a bad record")
		}
		if f[1] != "blob" || (f[0] != "100644" && f[0] != "100755") || !plainPath(p) {
			continue
		}
		var size int64
		if _, err := fmt.Sscanf(f[3], "%d", &size); err != nil || size < 0 {
			return nil, errors.New("tree listing has a bad size")
		}
		if size > maxFile {
			continue
		}
		if total += size; total > maxTotal || len(out) == maxFiles {
			return nil, fmt.Errorf("commit has more than %d files or %d bytes", maxFiles, maxTotal)
		}
		out = append(out, entry{p, f[2], size})
	}
	return out, nil
}

var shaForm = lazyregexp.New(`^[0-9a-f]{40}$`)

func plainPath(p string) bool {
	if p == "" || len(p) > maxPath || !utf8.ValidString(p) || strings.HasPrefix(p, "/") {
		return false
	}
	for _, part := range strings.Split(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// parseBlobs reads `git cat-file --batch` for the entries, in order. Files
// that are not text are left out.
func parseBlobs(entries []entry, b []byte) ([]file, error) {
	var out []file
	for _, e := range entries {
		i := bytes.IndexByte(b, '\n')
		if i < 0 || string(b[:i]) != fmt.Sprintf("%s blob %d", e.blob, e.size) {
			return nil, errors.New("blobs break off")
		}
		b = b[i+1:]
		if int64(len(b)) < e.size+1 || b[e.size] != '\n' {
			return nil, errors.New("blobs break off")
		}
		text := b[:e.size]
		b = b[e.size+1:]
		if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
			out = append(out, file{e.path, string(text)})
		}
	}
	if len(b) > 0 {
		return nil, errors.New("bytes after the blobs")
	}
	return out, nil
}
