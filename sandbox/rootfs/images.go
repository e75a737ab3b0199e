package rootfs

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/agon-arena/agon/sandbox/internal/entry"
)

// Bounds of an imported image.
const (
	maxImageBytes   = 32 << 30 // unpacked, all layers together
	maxImageEntries = 2_000_000
	maxRatio        = 1000 // of a layer's plain bytes to its stored ones, beyond a MiB
	maxConfigItems  = 1000 // variables, words and labels of a configuration
)

// Images is a cache of images in a directory: the layers as they came, by
// digest, each once; the documents; and a finished tree for each image in use.
// Processes share it. Safe for concurrent use.
type Images struct {
	dir string
	log io.Writer
}

// OpenImages opens a cache; it need not be there. log receives progress, one
// line at a time; nil discards it.
func OpenImages(dir string, log io.Writer) *Images {
	if dir == "" {
		dir = filepath.Join(filepath.Dir(DefaultDir()), "images")
	}
	if log == nil {
		log = io.Discard
	}
	return &Images{dir, log}
}

// ImageConfig is what an image says of the processes that run in it.
type ImageConfig struct {
	Env        []string          `json:"env"`
	WorkingDir string            `json:"working_dir"`
	User       string            `json:"user"`
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Image is one image of the cache.
type Image struct {
	Digest string `json:"digest"` // of its manifest
	Layers int    `json:"layers"`
	Bytes  int64  `json:"bytes"` // of layers and documents, as they are stored
	// Copied is how many of Bytes an import brought that the cache had not.
	Copied  int64       `json:"copied"`
	Config  ImageConfig `json:"config"`
	Licence string      `json:"licence,omitempty"` // as the image says
	Names   []string    `json:"names"`             // by which it was asked for
	Used    time.Time   `json:"used"`
	Tree    bool        `json:"tree"` // it is unpacked

	layers []layer
	config []byte
}

// record is what the cache keeps of an image beside its blobs.
type record struct {
	Digest string   `json:"digest"`
	Names  []string `json:"names"`
}

func (s *Images) blob(digest string) string {
	return filepath.Join(s.dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

func (s *Images) recordAt(digest string) string {
	return filepath.Join(s.dir, "index", strings.TrimPrefix(digest, "sha256:")+".json")
}

// trees is where finished trees stand, each under its image's digest.
func (s *Images) trees() string { return filepath.Join(s.dir, "trees") }

func (s *Images) tree(digest string) string {
	return filepath.Join(s.trees(), fmt.Sprintf("%s-%d", strings.TrimPrefix(digest, "sha256:"), recipeVersion))
}

func (s *Images) lock(ctx context.Context) (func(), error) {
	for _, d := range []string{"blobs/sha256", "index", "trees"} {
		if err := os.MkdirAll(filepath.Join(s.dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("make image cache: %w", err)
		}
	}
	return entry.Lock(ctx, filepath.Join(s.dir, ".lock"), "the image cache")
}

// Import brings an image into the cache: ref is a registry's NAME@sha256:…,
// oci:DIR[:TAG] or archive:FILE.tar. Layers that the cache has are not read
// again. All of it is checked against its digests before it counts; an image
// that cannot be used is an error that says why (ErrImage, ErrTooLarge), and
// leaves nothing behind.
func (s *Images) Import(ctx context.Context, ref string) (*Image, error) {
	if strings.HasPrefix(ref, bootstrapped) {
		return s.bootstrap(ctx, ref)
	}
	src, err := openSource(ctx, ref)
	if err != nil {
		return nil, err
	}
	defer src.close() //nolint:errcheck // it was only read
	if err := src.check(); err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var copied int64
	var fresh []string // blobs that this import made
	done := false
	defer func() {
		for _, d := range fresh {
			if !done {
				_ = os.Remove(s.blob(d))
			}
		}
	}()
	for i, l := range src.layers {
		if _, err := os.Stat(s.blob(l.digest)); err == nil {
			continue
		}
		fmt.Fprintf(s.log, "layer %d of %d, %d bytes\n", i+1, len(src.layers), l.size)
		if err := s.keep(ctx, src, i); err != nil {
			return nil, err
		}
		fresh = append(fresh, l.digest)
		copied += l.size
	}
	digest := src.digest()
	for d, b := range map[string][]byte{digestOf(src.config): src.config, digest: src.manifest} {
		if _, err := os.Stat(s.blob(d)); err == nil {
			continue
		}
		if err := writeFile(s.blob(d), b); err != nil {
			return nil, err
		}
		fresh = append(fresh, d)
		copied += int64(len(b))
	}
	rec := record{Digest: digest}
	if old, err := s.record(digest); err == nil {
		rec = old
	}
	if !slices.Contains(rec.Names, ref) {
		rec.Names = append(rec.Names, ref)
		b, _ := json.Marshal(rec) // plain strings
		if err := writeFile(s.recordAt(digest), b); err != nil {
			return nil, err
		}
	}
	img, err := s.image(rec)
	if err != nil {
		return nil, err
	}
	done = true
	img.Copied = copied
	return img, nil
}

// check looks at what the documents say, before a layer is read.
func (s *source) check() error {
	if len(s.layers) > maxLayers {
		return fmt.Errorf("%w: %d layers, at most %d", ErrTooLarge, len(s.layers), maxLayers)
	}
	var sum int64
	for i, l := range s.layers {
		if l.size < 0 || l.size > maxImageBytes {
			return fmt.Errorf("%w: layer %d has %d bytes, at most %d", ErrTooLarge, i, l.size, int64(maxImageBytes))
		}
		if sum += l.size; sum > maxImageBytes {
			return fmt.Errorf("%w: its layers have more than %d bytes", ErrTooLarge, int64(maxImageBytes))
		}
	}
	ids, err := diffIDs(s.config)
	if err != nil {
		return err
	}
	if len(ids) != len(s.layers) {
		return badImage("the configuration names %d layers, the manifest %d", len(ids), len(s.layers))
	}
	if _, err := configOf(s.config); err != nil {
		return err
	}
	return platform(s.config)
}

// keep stores the bytes of one layer under its digest, or nothing.
func (s *Images) keep(ctx context.Context, src *source, i int) error {
	l := src.layers[i]
	r, err := src.open(ctx, i)
	if err != nil {
		return badImage("layer %d: %v", i, err)
	}
	defer r.Close()
	f, err := os.CreateTemp(filepath.Dir(s.blob(l.digest)), ".new-")
	if err != nil {
		return fmt.Errorf("store layer: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), &stopping{ctx, io.LimitReader(r, l.size+1)})
	if err != nil {
		return fmt.Errorf("read layer %d: %w", i, err)
	}
	if n != l.size || "sha256:"+hex.EncodeToString(h.Sum(nil)) != l.digest {
		return badImage("layer %d does not have the size or digest that is said of it", i)
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.blob(l.digest))
}

// stopping reads until its context ends.
type stopping struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopping) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

func writeFile(at string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(at), ".new-")
	if err != nil {
		return fmt.Errorf("store image: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("store image: %w", err)
	}
	return os.Rename(f.Name(), at)
}

func (s *Images) record(digest string) (r record, err error) {
	b, err := os.ReadFile(s.recordAt(digest))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

// configOf reads an image's configuration.
func configOf(b []byte) (ImageConfig, error) {
	var doc struct {
		Config struct {
			Env        []string
			WorkingDir string
			User       string
			Entrypoint []string
			Cmd        []string
			Labels     map[string]string
		} `json:"config"`
	}
	if err := parse(b, &doc, "configuration"); err != nil {
		return ImageConfig{}, err
	}
	c := doc.Config
	if len(c.Env)+len(c.Entrypoint)+len(c.Cmd)+len(c.Labels) > maxConfigItems {
		return ImageConfig{}, badImage("its configuration has more than %d variables, words and labels", maxConfigItems)
	}
	for _, e := range c.Env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" || strings.ContainsRune(e, 0) {
			return ImageConfig{}, badImage("its environment has %.100q, which is not a NAME=VALUE", e)
		}
	}
	if c.WorkingDir != "" && (!path.IsAbs(c.WorkingDir) || strings.ContainsRune(c.WorkingDir, 0)) {
		return ImageConfig{}, badImage("its working directory %.200q is not an absolute path", c.WorkingDir)
	}
	return ImageConfig{Env: orEmpty(c.Env), WorkingDir: c.WorkingDir, User: c.User, Entrypoint: orEmpty(c.Entrypoint), Cmd: orEmpty(c.Cmd), Labels: c.Labels}, nil
}

func orEmpty(l []string) []string {
	if l == nil {
		return []string{}
	}
	return l
}

func (s *Images) image(r record) (*Image, error) {
	img := &Image{Digest: r.Digest, Names: orEmpty(r.Names)}
	manifest, err := os.ReadFile(s.blob(r.Digest))
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", r.Digest, err)
	}
	var doc manifestDoc
	if err := parse(manifest, &doc, "manifest"); err != nil {
		return nil, err
	}
	if img.config, err = os.ReadFile(s.blob(doc.Config.Digest)); err != nil {
		return nil, fmt.Errorf("read image %s: %w", r.Digest, err)
	}
	if img.Config, err = configOf(img.config); err != nil {
		return nil, err
	}
	img.Bytes = int64(len(manifest) + len(img.config))
	for _, l := range doc.Layers {
		img.layers = append(img.layers, layer{l.Digest, l.Size})
		img.Bytes += l.Size
	}
	img.Layers = len(img.layers)
	img.Licence = img.Config.Labels["org.opencontainers.image.licenses"]
	trees, _ := filepath.Glob(s.tree(r.Digest) + "*")
	marks := []string{s.recordAt(r.Digest)}
	for _, t := range trees {
		img.Tree = img.Tree || ready(t)
		marks = append(marks, usedMark(t))
	}
	for _, p := range marks {
		if fi, err := os.Stat(p); err == nil && fi.ModTime().After(img.Used) {
			img.Used = fi.ModTime().UTC()
		}
	}
	return img, nil
}

// ErrNoImage is an image that the cache does not hold.
var ErrNoImage = errors.New("image is not in the cache")

// Get finds an image of the cache by its digest, the first twelve hex digits of
// it or more, or a name by which it was imported.
func (s *Images) Get(ref string) (*Image, error) {
	list, err := s.records()
	if err != nil {
		return nil, err
	}
	want := ref
	if i := strings.LastIndex(ref, "@sha256:"); i > 0 {
		want = ref[i+1:]
	}
	hexPart := strings.TrimPrefix(want, "sha256:")
	for _, r := range list {
		if r.Digest == want || slices.Contains(r.Names, ref) || len(hexPart) >= 12 && strings.HasPrefix(strings.TrimPrefix(r.Digest, "sha256:"), hexPart) {
			return s.image(r)
		}
	}
	return nil, fmt.Errorf("%w: %.200q", ErrNoImage, ref)
}

// Ensure is Get, and Import of what is not there. A reference with a digest
// gives that image or none. Of a layout or an archive without one, what it holds
// today counts.
func (s *Images) Ensure(ctx context.Context, ref string) (*Image, error) {
	local := strings.HasPrefix(ref, "oci:") || strings.HasPrefix(ref, "archive:")
	pinned := strings.Contains(ref, "@sha256:")
	img, err := s.Get(ref)
	if err == nil && (pinned || !local) || err != nil && !errors.Is(err, ErrNoImage) {
		return img, err
	}
	if img, err = s.Import(ctx, ref); err != nil {
		return nil, err
	}
	return img, nil
}

func (s *Images) records() ([]record, error) {
	ents, err := os.ReadDir(filepath.Join(s.dir, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read image cache: %w", err)
	}
	var out []record
	for _, e := range ents {
		if h, ok := strings.CutSuffix(e.Name(), ".json"); ok && isHex(h) {
			r, err := s.record("sha256:" + h)
			if err != nil {
				return nil, fmt.Errorf("read image cache: %w", err)
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// List returns all images, the most recently used first.
func (s *Images) List() ([]*Image, error) {
	list, err := s.records()
	if err != nil {
		return nil, err
	}
	out := []*Image{}
	for _, r := range list {
		img, err := s.image(r)
		if err != nil {
			return nil, err
		}
		out = append(out, img)
	}
	slices.SortFunc(out, func(a, b *Image) int { return b.Used.Compare(a.Used) })
	return out, nil
}

// Open returns the root file system of an image, unpacked once and made neutral
// like every tree of boxes; it notes the use.
func (s *Images) Open(ctx context.Context, img *Image) (string, error) {
	return s.openWith(ctx, img, s.tree(img.Digest), func(string) error { return nil })
}

// openWith makes the tree dir of an image: unpacked, then as more makes it.
func (s *Images) openWith(ctx context.Context, img *Image, dir string, more func(tree string) error) (string, error) {
	if !ready(dir) {
		if err := s.unpack(ctx, img, dir, more); err != nil {
			return "", err
		}
	}
	return dir, Used(dir, time.Now()) //nolint:forbidigo // a mark on the disk
}

func (s *Images) unpack(ctx context.Context, img *Image, dir string, more func(tree string) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if ready(dir) {
		return nil
	}
	if err := sweepTemp(s.trees()); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(s.trees(), ".new-")
	if err != nil {
		return fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = removeAll(tmp) }()
	ids, err := diffIDs(img.config)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.log, "unpacking %s, %d layers\n", img.Digest, img.Layers)
	tree := filepath.Join(tmp, "root")
	if err := flatten(len(img.layers), func(i int) (io.ReadCloser, error) { return s.plain(ctx, img.layers[i], ids[i]) }, tree, bounded(maxImageBytes, maxImageEntries)); err != nil {
		return ofImage(err)
	}
	if err := more(tree); err != nil {
		return ofImage(err)
	}
	if err := finish(tree, recipe{Version: recipeVersion, Arch: runtime.GOARCH, Image: img.Digest}); err != nil {
		return ofImage(fmt.Errorf("finish root file system: %w", bare(err)))
	}
	return os.Rename(tree, dir)
}

// ofImage marks what went wrong with an image's tree as the image's fault, whose
// content decides what its files meet, unless this machine lacks something.
func ofImage(err error) error {
	for _, own := range []error{
		ErrImage, ErrTooLarge, ErrUnsupported, context.Canceled, context.DeadlineExceeded,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EROFS,
	} {
		if errors.Is(err, own) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrImage, err)
}

// plain reads a stored layer as the archive it is. Close says whether it was the
// one that the configuration names.
func (s *Images) plain(ctx context.Context, l layer, diffID string) (io.ReadCloser, error) {
	f, err := os.Open(s.blob(l.digest))
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(&stopping{ctx, f}, 1<<16)
	head, _ := in.Peek(4)
	out := &plainLayer{file: f, hash: sha256.New(), want: diffID, most: maxRatio*l.size + 1<<20}
	switch compressed(head) {
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			_ = f.Close()
			return nil, badImage("a layer's compression: %v", err)
		}
		out.r = z
	case "zstd":
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(256<<20), zstd.WithDecoderConcurrency(1))
		if err != nil {
			_ = f.Close()
			return nil, badImage("a layer's compression: %v", err)
		}
		out.r, out.end = z, z.Close
	default:
		out.r = in
	}
	return out, nil
}

type plainLayer struct {
	file *os.File
	r    io.Reader
	end  func()
	hash hash.Hash
	want string
	n    int64
	most int64
	err  error
	once sync.Once
}

func (p *plainLayer) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.hash.Write(b[:n])
	if p.n += int64(n); p.n > p.most {
		p.err = fmt.Errorf("%w: a layer grows to more than %d times its size", ErrTooLarge, maxRatio)
		return n, p.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

func (p *plainLayer) Close() error {
	p.once.Do(func() {
		if p.err == nil {
			_, p.err = io.Copy(io.Discard, readerFunc(p.Read)) // what stands behind the archive's end
		}
		if p.end != nil {
			p.end()
		}
		_ = p.file.Close()
		if got := "sha256:" + hex.EncodeToString(p.hash.Sum(nil)); p.err == nil && got != p.want {
			p.err = badImage("a layer is not the one that the configuration names")
		}
	})
	return p.err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Needs are what agon's boxes run in an image, and where it may stand.
var Needs = map[string][]string{
	"git":     {"usr/bin/git", "bin/git", "usr/local/bin/git"},
	"python3": {"usr/bin/python3"},
	"sh":      {"bin/sh", "usr/bin/sh"},
}
