// Package datasets keeps read-only data sets by digest: trees of files of up to
// 128 GiB that tasks name beside their images and boxes see below /datasets.
//
// A data set is named by the digest of its manifest, which has the digest of each
// chunk of each file. So whoever gives one can only give that one, a fetch that
// was stopped goes on where it was, and one byte that is wrong names its file.
package datasets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

var (
	// ErrDataset is a data set that cannot be used, and why: it is not what its
	// digest, its manifest or its reference says.
	ErrDataset = errors.New("bad data set")
	// ErrNoDataset is a data set that the cache does not hold.
	ErrNoDataset = errors.New("data set is not in the cache")
)

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDataset, fmt.Sprintf(format, args...))
}

// Prefix stands before a data set's reference where images are named, too.
const Prefix = "dataset:"

// MountDir is where boxes see data sets, each below its name.
const MountDir = "/datasets"

// DefaultQuota bounds a cache of data sets, in bytes.
const DefaultQuota = 256 << 30

// MaxRef bounds a reference, in bytes.
const MaxRef = 400

// Ref says which data set a task names: NAME=WHERE@sha256:…, where WHERE is the
// address of a published one (https://…), dir:DIR, or empty: it was added here.
type Ref struct {
	Name   string // below MountDir; empty in references without one
	Where  string
	Digest string // sha256:…
}

var (
	nameForm   = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
)

// Parse reads a reference; Prefix and NAME= may be missing. Errors wrap ErrDataset.
func Parse(s string) (Ref, error) {
	const want = "want NAME=https://…@sha256:…, NAME=dir:DIR@sha256:… or NAME=sha256:… with 64 hex digits (agon dataset add prints it)"
	if len(s) > MaxRef {
		return Ref{}, bad("a reference has %d bytes, at most %d", len(s), MaxRef)
	}
	r, rest := Ref{}, strings.TrimPrefix(s, Prefix)
	if name, after, ok := strings.Cut(rest, "="); ok && nameForm().MatchString(name) {
		r.Name, rest = name, after
	}
	i := strings.LastIndex(rest, "sha256:")
	if i < 0 || !digestForm().MatchString(rest[i:]) {
		return Ref{}, bad("%.200q: %s", s, want)
	}
	r.Where, r.Digest = strings.TrimSuffix(rest[:i], "@"), rest[i:]
	if i > 0 && rest[i-1] != '@' {
		return Ref{}, bad("%.200q: %s", s, want)
	}
	switch {
	case r.Where == "", strings.HasPrefix(r.Where, "dir:"), strings.HasPrefix(r.Where, "https://"), strings.HasPrefix(r.Where, "http://"):
	default:
		return Ref{}, bad("%.200q: %s", s, want)
	}
	if strings.ContainsFunc(r.Where, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return Ref{}, bad("%.200q: %s", s, want)
	}
	return r, nil
}

// String is the reference without its name: WHERE@sha256:….
func (r Ref) String() string { return r.Where + "@" + r.Digest }

func (r Ref) hex() string { return strings.TrimPrefix(r.Digest, "sha256:") }

// maxOfTask is how many data sets a task may name.
const maxOfTask = 16

// ParseAll reads the references of one task: each has a name, and no two the same.
func ParseAll(list []string) ([]Ref, error) {
	if len(list) > maxOfTask {
		return nil, bad("%d data sets, at most %d", len(list), maxOfTask)
	}
	var out []Ref
	for _, s := range list {
		r, err := Parse(s)
		if err != nil {
			return nil, err
		}
		if r.Name == "" {
			return nil, bad("%.200q has no name: write NAME=%.200s", s, s)
		}
		if slices.ContainsFunc(out, func(x Ref) bool { return x.Name == r.Name }) {
			return nil, bad("the name %s is there twice", r.Name)
		}
		out = append(out, r)
	}
	return out, nil
}

// Mount shows a data set's tree to a box.
func Mount(name, tree string) sandbox.Mount {
	return sandbox.Mount{Kind: sandbox.MountReadOnly, Source: tree, Target: MountDir + "/" + name}
}

// Store is a cache of data sets in a directory: each file once however many data
// sets have it, and a tree of each. Processes share it. Safe for concurrent use.
type Store struct {
	dir   string
	log   io.Writer
	quota int64

	mu   sync.Mutex
	used map[string]time.Time // when a data set was asked for here, by hex; guarded by mu
}

// Open opens a cache; it need not be there. log receives progress, one line at a
// time; nil discards it.
func Open(dir string, log io.Writer) *Store {
	if log == nil {
		log = io.Discard
	}
	return &Store{dir: dir, log: log, used: map[string]time.Time{}}
}

// Bounded makes Warm remove data sets beyond so many bytes, those used longest ago first.
func (s *Store) Bounded(bytes int64) *Store {
	s.quota = bytes
	return s
}

// Dataset is one data set of the cache.
type Dataset struct {
	Digest string `json:"digest"` // of its manifest
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"` // of all files together
	// Copied is how many of Bytes came with this call.
	Copied  int64     `json:"copied"`
	Licence string    `json:"licence,omitempty"`
	Names   []string  `json:"names"` // by which it was added
	Used    time.Time `json:"used"`

	manifest *Manifest
}

func (s *Store) tree(hex string) string   { return filepath.Join(s.dir, "trees", hex) }
func (s *Store) index(hex string) string  { return filepath.Join(s.dir, "index", hex+".json") }
func (s *Store) names(hex string) string  { return filepath.Join(s.dir, "index", hex+".names") }
func (s *Store) file(id string) string    { return filepath.Join(s.dir, "files", id) }
func (s *Store) partial(id string) string { return filepath.Join(s.dir, "files", partPrefix+id) }

const partPrefix = ".part-"

// lock keeps other processes from changing the cache.
func (s *Store) lock(ctx context.Context) (func(), error) {
	for _, d := range []string{"files", "index", "trees"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("make the cache of data sets: %w", err)
		}
	}
	return rootfs.Lock(ctx, filepath.Join(s.dir, ".lock"), "data sets")
}

func (s *Store) ready(hex string) bool {
	_, err := os.Lstat(s.tree(hex))
	return err == nil
}

// Ready tells at once whether a data set is here.
func (s *Store) Ready(ref string) bool {
	r, err := Parse(ref)
	return err == nil && s.ready(r.hex())
}

// Ensure returns the tree of a data set, which it fetches where it is not here.
// The tree stays until release is called. Errors wrap ErrDataset and ErrNoDataset
// where the data set is at fault.
func (s *Store) Ensure(ctx context.Context, r Ref) (tree string, release func(), err error) {
	for range 3 { // another process may remove it between two steps
		if tree, release, err = s.hold(r.hex()); err == nil || !errors.Is(err, ErrNoDataset) {
			return tree, release, err
		}
		if _, err := s.Fetch(ctx, r); err != nil {
			return "", nil, err
		}
	}
	return "", nil, err
}

// hold keeps a tree from being removed, in this process and in others.
func (s *Store) hold(hex string) (tree string, release func(), err error) {
	tree = s.tree(hex)
	f, err := os.Open(tree)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("%w: sha256:%s", ErrNoDataset, hex)
	}
	if err != nil {
		return "", nil, fmt.Errorf("open data set: %w", err)
	}
	// Whoever removes it holds it alone, and has moved it away before it lets go.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		_ = f.Close()
		return "", nil, fmt.Errorf("hold data set: %w", err)
	}
	mine, err := f.Stat()
	there, lerr := os.Lstat(tree)
	if err != nil || lerr != nil || !os.SameFile(mine, there) { // removed, and perhaps made again
		_ = f.Close()
		return "", nil, fmt.Errorf("%w: sha256:%s", ErrNoDataset, hex)
	}
	now := time.Now() //nolint:forbidigo // a mark on the disk
	s.mu.Lock()
	s.used[hex] = now
	s.mu.Unlock()
	return tree, sync.OnceFunc(func() { _ = f.Close() }), rootfs.Used(tree, now)
}

// inUse is how long a data set stays after it was asked for here.
const inUse = time.Hour

// Warm brings a data set here before anything needs it. Then it makes room: data
// sets beyond the quota go, but none of needed and none that was asked for within the hour.
func (s *Store) Warm(ctx context.Context, ref string, needed []string) error {
	r, err := Parse(ref)
	if err != nil {
		return err
	}
	_, release, err := s.Ensure(ctx, r)
	if err != nil {
		return err
	}
	defer release()
	if s.quota <= 0 {
		return nil
	}
	keep := []string{r.Digest}
	for _, n := range needed {
		if r, err := Parse(n); err == nil {
			keep = append(keep, r.Digest)
		}
	}
	s.mu.Lock()
	for hex, at := range s.used {
		if time.Since(at) < inUse {
			keep = append(keep, "sha256:"+hex)
		}
	}
	s.mu.Unlock()
	_, err = s.Prune(ctx, s.quota, keep...)
	return err
}

// Get finds a data set of the cache by its digest, the first twelve hex digits of
// it or more, a reference, or a name by which it was added.
func (s *Store) Get(ref string) (*Dataset, error) {
	if r, err := Parse(ref); err == nil {
		return s.dataset(r.hex())
	}
	list, err := s.hexes()
	if err != nil {
		return nil, err
	}
	short := strings.TrimPrefix(ref, "sha256:")
	for _, h := range list {
		if len(short) >= 12 && strings.HasPrefix(h, short) || slices.Contains(s.namesOf(h), ref) {
			return s.dataset(h)
		}
	}
	return nil, fmt.Errorf("%w: %.200q", ErrNoDataset, ref)
}

func (s *Store) hexes() ([]string, error) {
	ents, err := os.ReadDir(filepath.Join(s.dir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cache of data sets: %w", err)
	}
	var out []string
	for _, e := range ents {
		if h, ok := strings.CutSuffix(e.Name(), ".json"); ok && digestForm().MatchString("sha256:"+h) && s.ready(h) {
			out = append(out, h)
		}
	}
	return out, nil
}

func (s *Store) namesOf(hex string) []string {
	out := []string{}
	if b, err := os.ReadFile(s.names(hex)); err == nil {
		_ = json.Unmarshal(b, &out)
	}
	return out
}

func (s *Store) dataset(hex string) (*Dataset, error) {
	if !s.ready(hex) {
		return nil, fmt.Errorf("%w: sha256:%s", ErrNoDataset, hex)
	}
	b, err := os.ReadFile(s.index(hex))
	if err != nil {
		return nil, fmt.Errorf("read data set: %w", err)
	}
	m, err := parseManifest(b, hex)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Digest: "sha256:" + hex, Files: len(m.Files), Bytes: m.bytes(), Licence: m.Licence, Names: s.namesOf(hex), manifest: m}
	if fi, err := os.Stat(rootfs.UsedMark(s.tree(hex))); err == nil {
		d.Used = fi.ModTime().UTC()
	}
	return d, nil
}

// List returns all data sets, the most recently used first.
func (s *Store) List() ([]*Dataset, error) {
	list, err := s.hexes()
	if err != nil {
		return nil, err
	}
	out := []*Dataset{}
	for _, h := range list {
		d, err := s.dataset(h)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(a, b *Dataset) int { return b.Used.Compare(a.Used) })
	return out, nil
}
