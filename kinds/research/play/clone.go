package play

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // git's object names
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Bounds of a repository's base tree.
const (
	maxCloneFiles = 20_000
	maxCloneBytes = 256 << 20
	cloneWall     = 10 * time.Minute
)

const (
	gitDoor = "127.0.0.1:8080" // leads to the repository's host and nowhere else
	cloned  = "/clone/r.git"
)

// gitSettings keep git from obeying anything but the command line.
var gitSettings = []string{
	"-c", "protocol.allow=never", "-c", "protocol.http.allow=always", "-c", "http.followRedirects=false", "-c", "fetch.fsckObjects=true",
	"-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsync=none",
}

var gitEnv = []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "HOME=/tmp"}

var fullSHA = lazyregexp.New(`^[0-9a-f]{40}$`)

// clone fetches one commit of a foreign repository by git in a box whose only
// way out is a door to the repository's host. What comes out of the box is
// believed because it hashes to the commit. A commit is fetched once where the
// kind has a cache.
func (k *Kind) clone(ctx context.Context, env kind.Env, t *Task, r agon.RunSpec) (*base, func(), error) {
	nothing := func() {}
	if fullSHA().MatchString(t.BaseRef) && k.cfg.Cache != "" {
		if b, err := openClone(filepath.Join(k.cfg.Cache, t.BaseRef)); err == nil {
			return b, nothing, nil
		}
	}
	target, repo, err := k.repository(ctx, t.Repository)
	if err != nil {
		return nil, nil, err
	}
	limits := r.Policy.Agent
	limits.WallMS, limits.OutputBytes = cloneWall.Milliseconds(), maxCloneBytes+64<<20
	limits.DiskBytes, limits.Inodes = max(limits.DiskBytes, 3*maxCloneBytes), max(limits.Inodes, 4*maxCloneFiles)
	limits.MemoryBytes = max(limits.MemoryBytes, 1<<30)
	box, err := env.Box(ctx, sandbox.Spec{
		Name: "clone", Rootfs: k.cfg.Rootfs, Env: append(slices.Clone(baseEnv), gitEnv...), Limits: limits,
		Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/tmp"}, {Kind: sandbox.MountScratch, Target: "/clone"}},
		Doors:  []sandbox.Door{{Listen: gitDoor, Target: target}},
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = box.Close() }()
	g := gitBox{ctx, box}
	if _, err := g.run(nil, "init", "-q", "--bare", cloned); err != nil {
		return nil, nil, err
	}
	if _, err := g.run(nil, "-C", cloned, "fetch", "-q", "--depth=1", "--no-tags", "http://"+gitDoor+repo, t.BaseRef); err != nil {
		return nil, nil, fmt.Errorf("clone %s: %w", t.Repository, err)
	}
	out, err := g.run(nil, "-C", cloned, "rev-parse", "--verify", "FETCH_HEAD^{commit}")
	sha := strings.TrimSpace(string(out))
	if err != nil || !fullSHA().MatchString(sha) {
		return nil, nil, fmt.Errorf("resolve %s of %s: %w", t.BaseRef, t.Repository, cmp.Or(err, errors.New("no commit")))
	}
	if fullSHA().MatchString(t.BaseRef) && sha != t.BaseRef {
		return nil, nil, fmt.Errorf("resolve %s of %s: the server sent commit %s", t.BaseRef, t.Repository, sha)
	}
	if k.cfg.Cache != "" {
		if b, err := openClone(filepath.Join(k.cfg.Cache, sha)); err == nil {
			return b, nothing, nil
		}
	}
	tmp, err := tempdir.Make("clone")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = tempdir.Remove(tmp) }
	dir := filepath.Join(tmp, sha)
	if err = errors.Join(os.Chmod(tmp, 0o755), os.MkdirAll(filepath.Join(dir, "tree"), 0o755)); err == nil {
		err = g.export(sha, dir)
	}
	if err != nil {
		remove()
		return nil, nil, fmt.Errorf("export %s: %w", sha, err)
	}
	if k.cfg.Cache != "" {
		if kept, err := keepClone(dir, k.cfg.Cache, sha); err == nil {
			remove()
			dir, remove = kept, nothing
		}
	}
	b, err := openClone(dir)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return b, remove, nil
}

// keepClone copies a finished export into the cache by one rename.
func keepClone(dir, cache, sha string) (string, error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	to := filepath.Join(cache, sha)
	if err := os.Rename(dir, to); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err // another file system: the clone serves this play only
	}
	return to, nil
}

// repository splits a URL into the door's target and the path behind it.
func (k *Kind) repository(ctx context.Context, raw string) (target, repo string, err error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && !(u.Scheme == "http" && k.cfg.PlainRepositories) {
		return "", "", fmt.Errorf("repository %.200q is not a plain https URL", raw)
	}
	allow := k.cfg.Artifacts.Allow
	if allow == nil {
		allow = fetch.Public
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return "", "", fmt.Errorf("look up the repository's host: %w", err)
	}
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !allow(a.Unmap()) }) {
		return "", "", fmt.Errorf("repository %.200q has an address that is not a public one", raw)
	}
	return u.Scheme + "://" + u.Host, u.EscapedPath(), nil
}

// gitBox runs git in a box.
type gitBox struct {
	ctx context.Context
	b   sandbox.Box
}

func (g gitBox) run(stdin io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := g.stream(stdin, &out, args...)
	return out.Bytes(), err
}

func (g gitBox) stream(stdin io.Reader, out io.Writer, args ...string) error {
	stderr := &tail{limit: 2 << 10}
	x, err := g.b.Exec(g.ctx, sandbox.Cmd{Args: append(append([]string{"git"}, gitSettings...), args...), Dir: "/clone", Stdin: stdin, Stdout: out, Stderr: stderr})
	switch {
	case err != nil:
		return fmt.Errorf("run git: %w", err)
	case x.Lost != "":
		return fmt.Errorf("run git: command was lost: %s", x.Lost)
	case x.Code != 0:
		return fmt.Errorf("git ended with status %d %s: %s", x.Code, x.Limit, plain.Short(string(stderr.bytes()), 300))
	}
	return nil
}

// treeEntry is one file of a commit.
type treeEntry struct {
	mode, id, name string
	size           int64
}

// export writes a commit's files below dir/tree and what they are to
// dir/base.json, after every byte was found to hash to the commit.
func (g gitBox) export(sha, dir string) error {
	raw, err := g.run(nil, "-C", cloned, "cat-file", "commit", sha)
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(string(raw), "\n")
	want, ok := strings.CutPrefix(head, "tree ")
	if !ok || objectID("commit", raw) != sha {
		return errors.New("the commit does not hash to its name")
	}
	list, err := g.run(nil, "-C", cloned, "ls-tree", "-r", "-z", "-l", "--full-tree", sha)
	if err != nil {
		return err
	}
	entries, err := parseTree(list)
	if err != nil {
		return err
	}
	if got := treeID(entries); got != want {
		return fmt.Errorf("the files hash to tree %s, the commit has %s", got, want)
	}
	info, err := g.files(entries, filepath.Join(dir, "tree"))
	if err != nil {
		return err
	}
	info.Commit = sha
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "base.json"), b, 0o644)
}

// parseTree reads the list that git ls-tree -z -l writes.
func parseTree(list []byte) ([]treeEntry, error) {
	var out []treeEntry
	var total int64
	for rec := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		meta, name, ok := strings.Cut(rec, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 4 || !fullSHA().MatchString(f[2]) {
			return nil, errors.New("git's list of files is malformed")
		}
		e := treeEntry{mode: f[0], id: f[2], name: name}
		switch {
		case e.mode == "160000":
			return nil, fmt.Errorf("the repository has a submodule at %.80q", name)
		case e.mode != "100644" && e.mode != "100755" && e.mode != "120000":
			return nil, fmt.Errorf("%.80q has mode %.10s", name, e.mode)
		case !filepath.IsLocal(name) || path.Clean(name) != name || len(name) > surface.MaxPath:
			return nil, fmt.Errorf("bad path %.80q in the repository", name)
		}
		var err error
		if e.size, err = strconv.ParseInt(f[3], 10, 64); err != nil || e.size < 0 {
			return nil, errors.New("git's list of files is malformed")
		}
		if total += e.size; total > maxCloneBytes || len(out) >= maxCloneFiles {
			return nil, fmt.Errorf("the repository has more than %d bytes or %d files", maxCloneBytes, maxCloneFiles)
		}
		out = append(out, e)
	}
	return out, nil
}

// objectID is git's name of an object.
func objectID(kind string, data []byte) string {
	h := sha1.New() //nolint:gosec // git's object names
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// treeID is git's name of the tree that holds the entries.
func treeID(entries []treeEntry) string {
	type row struct{ key, mode, name, id string }
	var rows []row
	dirs := map[string][]treeEntry{}
	for _, e := range entries {
		if d, rest, deep := strings.Cut(e.name, "/"); deep {
			e.name = rest
			dirs[d] = append(dirs[d], e)
			continue
		}
		rows = append(rows, row{e.name, e.mode, e.name, e.id})
	}
	for d, sub := range dirs {
		rows = append(rows, row{d + "/", "40000", d, treeID(sub)})
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	var b bytes.Buffer
	for _, r := range rows {
		id, _ := hex.DecodeString(r.id) // 40 hex digits, checked
		fmt.Fprintf(&b, "%s %s\x00%s", r.mode, r.name, id)
	}
	return objectID("tree", b.Bytes())
}

// cloneInfo is base.json.
type cloneInfo struct {
	Commit string            `json:"commit"`
	Marks  map[string]mark   `json:"marks"`
	Sizes  map[string]int64  `json:"sizes"`
	Modes  map[string]uint32 `json:"modes"`
}

// files reads the content of every entry out of the box and writes it.
func (g gitBox) files(entries []treeEntry, dir string) (*cloneInfo, error) {
	info := &cloneInfo{Marks: map[string]mark{}, Sizes: map[string]int64{}, Modes: map[string]uint32{}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	var ids strings.Builder
	for _, e := range entries {
		ids.WriteString(e.id + "\n")
	}
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := g.stream(strings.NewReader(ids.String()), out, "-C", cloned, "cat-file", "--batch")
		_ = out.CloseWithError(cmp.Or(err, io.EOF))
		done <- err
	}()
	err = func() error {
		r := bufio.NewReaderSize(in, 1<<16)
		for _, e := range entries {
			head, err := r.ReadString('\n')
			if err != nil || head != fmt.Sprintf("%s blob %d\n", e.id, e.size) {
				return fmt.Errorf("git's answer about %.80q is malformed", e.name)
			}
			data := make([]byte, e.size+1)
			if _, err := io.ReadFull(r, data); err != nil {
				return fmt.Errorf("read %.80q: %w", e.name, err)
			}
			data = data[:e.size]
			if surface.BlobID(data) != e.id {
				return fmt.Errorf("%.80q does not hash to its name", e.name)
			}
			if err := info.add(root, e, data); err != nil {
				return err
			}
		}
		return nil
	}()
	_ = in.Close()
	if e := <-done; err == nil {
		err = e
	}
	return info, err
}

// add writes one file. Links are made, never followed: root does not let them lead out.
func (i *cloneInfo) add(root *os.Root, e treeEntry, data []byte) error {
	if d := path.Dir(e.name); d != "." {
		if err := root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	i.Sizes[e.name] = e.size
	sum := sha256.Sum256(data)
	switch e.mode {
	case "120000":
		i.Marks[e.name], i.Modes[e.name] = mark{"link", 0, string(data)}, surface.ModeLink
		return root.Symlink(string(data), e.name)
	case "100755":
		i.Marks[e.name], i.Modes[e.name] = mark{"exec", e.size, hex.EncodeToString(sum[:])}, surface.ModeExec
		return root.WriteFile(e.name, data, 0o755)
	}
	i.Marks[e.name], i.Modes[e.name] = mark{"file", e.size, hex.EncodeToString(sum[:])}, surface.ModeFile
	return root.WriteFile(e.name, data, 0o644)
}

// openClone opens what export has written.
func openClone(dir string) (*base, error) {
	b, err := os.ReadFile(filepath.Join(dir, "base.json"))
	if err != nil {
		return nil, err
	}
	var i cloneInfo
	if err := json.Unmarshal(b, &i); err != nil {
		return nil, fmt.Errorf("read clone: %w", err)
	}
	return (&baseInfo{commit: i.Commit, marks: i.Marks, sizes: i.Sizes, modes: i.Modes}).open(filepath.Join(dir, "tree")), nil
}
