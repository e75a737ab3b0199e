package datasets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/internal/disk"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// A published data set is a directory, behind a web server or not, with the
// manifest and the files as they are.
const (
	manifestName = "dataset.json"
	filesName    = "files"
)

func sortFiles(list []File) {
	slices.SortFunc(list, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
}

// source gives the bytes of a data set's files.
type source interface {
	// open reads a file from a byte on. It says so where the file has another size.
	open(ctx context.Context, f File, from int64) (io.ReadCloser, error)
	// again tells whether asking again may help.
	again(err error) bool
}

// Add makes a data set of a directory or a file and keeps it: a directory's files
// and the links that stay inside. What changes meanwhile is an error.
func (s *Store) Add(ctx context.Context, at, licence string) (*Dataset, error) {
	m, root, err := manifestOf(ctx, filepath.Clean(at), licence)
	if root != nil {
		defer root.Close()
	}
	if err != nil {
		return nil, err
	}
	return s.bring(ctx, m, dirSource{root, ""}, at)
}

// Fetch brings a published data set into the cache. Chunks that an earlier call
// brought are not asked for again.
func (s *Store) Fetch(ctx context.Context, r Ref) (*Dataset, error) {
	if d, err := s.dataset(r.hex()); err == nil {
		return d, nil
	}
	switch dir, local := strings.CutPrefix(r.Where, "dir:"); {
	case r.Where == "":
		return nil, fmt.Errorf("%w: %s; its reference says not where it is", ErrNoDataset, r.Digest)
	case local:
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, fmt.Errorf("open data set: %w", err)
		}
		defer root.Close()
		f, fi, err := openRegular(root, manifestName)
		if err != nil {
			return nil, fmt.Errorf("open data set: %w", err)
		}
		defer f.Close()
		if fi.Size() > maxManifest {
			return nil, bad("its manifest has more than %d bytes", maxManifest)
		}
		b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
		if err != nil {
			return nil, fmt.Errorf("read data set: %w", err)
		}
		m, err := parseManifest(b, r.hex())
		if err != nil {
			return nil, err
		}
		return s.bring(ctx, m, dirSource{root, filesName}, r.String())
	}
	u, err := url.Parse(r.Where)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return nil, bad("%.200q is not an address", r.Where)
	}
	w := webSource{base: strings.TrimSuffix(r.Where, "/"), client: &http.Client{Transport: fetch.Outward(u.Hostname())}}
	b, err := w.manifest(ctx)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(b, r.hex())
	if err != nil {
		return nil, err
	}
	return s.bring(ctx, m, w, r.String())
}

// dirSource is a directory on this machine.
type dirSource struct {
	root *os.Root
	sub  string
}

func (d dirSource) open(_ context.Context, x File, from int64) (io.ReadCloser, error) {
	f, fi, err := openRegular(d.root, path.Join(d.sub, x.Path))
	if err != nil {
		return nil, err
	}
	if fi.Size() == x.Size {
		_, err = f.Seek(from, io.SeekStart)
	} else {
		err = bad("%.200q has %d bytes, not %d: it is another one, or it changed while it was read", x.Path, fi.Size(), x.Size)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (dirSource) again(error) bool { return false }

// webSource is a directory behind a web server.
type webSource struct {
	base   string
	client *http.Client
}

// stalled is how long a server may be silent.
const stalled = time.Minute

var errCut = errors.New("the answer broke off")

// get asks for a document from a byte on. The body of what it returns ends the request.
func (w webSource) get(ctx context.Context, at string, from int64) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(stalled, func() { cancel(fmt.Errorf("%w: no byte came in %s", errCut, stalled)) })
	end := func() { watch.Stop(); cancel(nil) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		end()
		return nil, bad("%.200q is not an address", at)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := w.client.Do(req)
	if err != nil {
		err = fmt.Errorf("%w: %w", errCut, cmp.Or(context.Cause(ctx), err))
		end()
		return nil, err
	}
	resp.Body = &watchedBody{resp.Body, watch, end}
	switch {
	case resp.StatusCode == http.StatusOK && from == 0, resp.StatusCode == http.StatusPartialContent && from > 0:
		return resp, nil
	case resp.StatusCode == http.StatusOK: // it knows no ranges
		_, err = io.CopyN(io.Discard, resp.Body, from)
		if err == nil {
			return resp, nil
		}
		err = fmt.Errorf("%w: %w", errCut, err)
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		err = fmt.Errorf("%w: %s answers %d", errCut, at, resp.StatusCode)
	default:
		err = fmt.Errorf("fetch data set: %s answers %d", at, resp.StatusCode)
	}
	_ = resp.Body.Close()
	return nil, err
}

// watchedBody notes that bytes come.
type watchedBody struct {
	io.ReadCloser
	watch *time.Timer
	end   func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.Reset(stalled)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (w webSource) manifest(ctx context.Context) ([]byte, error) {
	resp, err := w.get(ctx, w.base+"/"+manifestName, 0)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("fetch data set: %w: %w", errCut, err)
	}
	if len(b) > maxManifest {
		return nil, bad("its manifest has more than %d bytes", maxManifest)
	}
	return b, nil
}

func (w webSource) open(ctx context.Context, x File, from int64) (io.ReadCloser, error) {
	parts := strings.Split(x.Path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	resp, err := w.get(ctx, w.base+"/"+filesName+"/"+strings.Join(parts, "/"), from)
	if err != nil {
		return nil, err
	}
	size := resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		size = -1
		begin, all, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Content-Range"), "bytes "), "/")
		if !strings.HasPrefix(begin, strconv.FormatInt(from, 10)+"-") {
			_ = resp.Body.Close()
			return nil, bad("%.200q was asked for from byte %d on, the server answers with %.100q", x.Path, from, begin)
		}
		if n, err := strconv.ParseInt(all, 10, 64); err == nil {
			size = n
		}
	}
	if size >= 0 && size != x.Size {
		_ = resp.Body.Close()
		return nil, bad("%.200q has %d bytes there, the manifest says %d", x.Path, size, x.Size)
	}
	return resp.Body, nil
}

func (webSource) again(err error) bool { return errors.Is(err, errCut) }

// Fetching.
const (
	atOnce   = 4 // files
	attempts = 5 // to go on with a file that breaks off, without a chunk between two
)

// bring makes sure that all of a data set is in the cache, from src where it is not.
func (s *Store) bring(ctx context.Context, m *Manifest, src source, name string) (*Dataset, error) {
	text := m.canonical()
	hex := hexOf(text)
	if len(text) > maxManifest {
		return nil, bad("its manifest has %d bytes, at most %d", len(text), maxManifest)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var copied int64
	if !s.ready(hex) {
		need := map[string]File{} // by id
		for _, f := range m.Files {
			if f.Link != "" {
				continue
			}
			if fi, err := os.Lstat(s.file(f.id())); err != nil || fi.Size() != f.Size {
				need[f.id()] = f
			}
		}
		if err := s.room(need); err != nil {
			return nil, err
		}
		if copied, err = s.fill(ctx, need, src); err != nil {
			return nil, err
		}
		if err := s.publish(m, hex, text, need); err != nil {
			return nil, err
		}
	}
	if names := s.namesOf(hex); !slices.Contains(names, name) {
		b, _ := json.Marshal(append(names, name)) // plain strings
		if err := writeFile(s.names(hex), b); err != nil {
			return nil, err
		}
	}
	if err := rootfs.Used(s.tree(hex), time.Now()); err != nil { //nolint:forbidigo // a mark on the disk
		return nil, err
	}
	d, err := s.dataset(hex)
	if err != nil {
		return nil, err
	}
	d.Copied = copied
	return d, nil
}

// room demands that the disk can take what is needed, and a GiB more.
func (s *Store) room(need map[string]File) error {
	var want int64
	for id, f := range need {
		var st unix.Stat_t
		if unix.Lstat(s.partial(id), &st) == nil {
			want -= st.Blocks * 512
		}
		for i, c := range f.Chunks {
			if c != zeroChunk() {
				_, n := f.span(i)
				want += n
			}
		}
	}
	free, _, err := disk.Room(s.dir)
	if err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	if want > 0 && want > free-1<<30 {
		return fmt.Errorf("the data set needs %d bytes and the disk has %d: %w", want, free, syscall.ENOSPC)
	}
	return nil
}

// fill brings the bytes of files, each beside its place.
func (s *Store) fill(ctx context.Context, need map[string]File, src source) (copied int64, err error) {
	p := &progress{log: s.log}
	for _, f := range need {
		p.total += f.Size
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for id, f := range need {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return s.fillFile(ctx, s.partial(id), f, src, p)
		})
	}
	err = group.Wait()
	return p.copied, err
}

// progress says how far a data set is.
type progress struct {
	mu                        sync.Mutex
	log                       io.Writer
	done, total, copied, said int64 // guarded by mu, but for total
}

func (p *progress) add(n int64, copied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if copied {
		p.copied += n
	}
	if p.done-p.said >= max(p.total/20, 256<<20) {
		p.said = p.done
		fmt.Fprintf(p.log, "data set: %.1f of %.1f GB\n", float64(p.done)/1e9, float64(p.total)/1e9)
	}
}

// fillFile completes one file at its partial place.
func (s *Store) fillFile(ctx context.Context, at string, x File, src source, p *progress) error {
	f, err := os.OpenFile(at, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(x.Size); err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	buf := make([]byte, min(ChunkBytes, x.Size))
	var missing []int
	for i, want := range x.Chunks { // what an earlier call brought counts if it is right
		got, err := sumChunk(f, x, i, buf)
		if err != nil {
			return fmt.Errorf("store data set: %w", err)
		}
		if got != want {
			missing = append(missing, i)
			continue
		}
		_, n := x.span(i)
		p.add(n, false)
	}
	for failed := 0; len(missing) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := len(missing)
		missing, err = fillRun(ctx, f, x, missing, src, buf, p)
		if len(missing) < before {
			failed = 0
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case !src.again(err) || failed+1 == attempts:
			return fmt.Errorf("%s: %w", x.Path, err)
		default:
			failed++
		}
	}
	mode := fs.FileMode(0o444)
	if x.Exec {
		mode = 0o555
	}
	return f.Chmod(mode)
}

// fillRun reads the first run of missing chunks, and returns those that still are.
func fillRun(ctx context.Context, f *os.File, x File, missing []int, src source, buf []byte, p *progress) ([]int, error) {
	from, _ := x.span(missing[0])
	r, err := src.open(ctx, x, from)
	if err != nil {
		return missing, err
	}
	defer r.Close()
	for next := missing[0]; len(missing) > 0 && missing[0] == next; next++ {
		if err := ctx.Err(); err != nil {
			return missing, err
		}
		at, n := x.span(next)
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return missing, fmt.Errorf("%w at byte %d of %d: %w", errCut, at, x.Size, err)
		}
		if hexOf(buf[:n]) != x.Chunks[next] {
			return missing, bad("the bytes from %d to %d of %.200q are not those that the manifest names", at, at+n, x.Path)
		}
		if _, err := f.WriteAt(buf[:n], at); err != nil {
			return missing, fmt.Errorf("store data set: %w", err)
		}
		p.add(n, true)
		missing = missing[1:]
		if at+n == x.Size {
			if k, _ := io.ReadFull(r, make([]byte, 1)); k > 0 {
				return []int{next}, bad("%.200q goes on behind its %d bytes", x.Path, x.Size)
			}
		}
	}
	return missing, nil
}

// publish puts files in their places, once their bytes are on the disk, and makes the tree of them.
func (s *Store) publish(m *Manifest, hex string, text []byte, need map[string]File) error {
	if err := s.sync(need); err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	for id := range need {
		if err := os.Rename(s.partial(id), s.file(id)); err != nil {
			return fmt.Errorf("store data set: %w", err)
		}
	}
	if err := writeFile(s.index(hex), text); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Join(s.dir, "trees"), newPrefix)
	if err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	defer os.RemoveAll(tmp)
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	defer root.Close()
	for _, f := range m.Files {
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return fmt.Errorf("store data set: %w", err)
		}
		if f.Link != "" {
			err = root.Symlink(f.Link, f.Path)
		} else {
			// No way leads through a link: a file is never below one.
			err = linkOrCopy(s.file(f.id()), filepath.Join(tmp, filepath.FromSlash(f.Path)))
		}
		if err != nil {
			return fmt.Errorf("store data set: %w", err)
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	return os.Rename(tmp, s.tree(hex))
}

// manyFiles is from how many files on the whole file system is written out at once:
// that waits for what others write, too.
const manyFiles = 200

// sync waits until the bytes of files are on the disk.
func (s *Store) sync(need map[string]File) error {
	if len(need) >= manyFiles {
		d, err := os.Open(s.dir)
		if err != nil {
			return err
		}
		defer d.Close()
		return unix.Syncfs(int(d.Fd()))
	}
	for id := range need {
		f, err := os.Open(s.partial(id))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

const newPrefix = ".new-"

// linkOrCopy gives a stored file one more name; a file system bounds how many it may have.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, syscall.EMLINK) {
		return copyFile(from, to)
	}
	return err
}

// copyFile copies a file without its holes.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fi.Mode().Perm())
	if err != nil {
		return err
	}
	err = copyData(out, in, fi.Size())
	return errors.Join(err, out.Close())
}

func copyData(out, in *os.File, size int64) error {
	if err := out.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		to, err := unix.Seek(int(in.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, from), io.NewSectionReader(in, from, to-from)); err != nil {
			return err
		}
		at = to
	}
	return nil
}

func writeFile(at string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(at), newPrefix)
	if err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store data set: %w", err)
	}
	return os.Rename(f.Name(), at)
}
