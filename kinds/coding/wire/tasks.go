package wire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// Limits of archives.
const (
	maxTask      = 256 << 20 // bytes of a task's files
	maxArtifact  = 64 << 20
	taskTime     = 5 * time.Minute // links live so long
	artifactTime = 2 * time.Hour
)

// archive is a task as validators take it.
type archive struct {
	digest string // as Ridges computes it
	dir    string
	files  []ridges.File // without data: they are read again when it is asked for
}

// taskArchives remembers the archives of tasks by our digest and by Ridges'.
type taskArchives struct {
	mu     sync.Mutex
	tasks  map[agon.Digest]*archive // guarded by mu
	byName map[string]*archive      // guarded by mu
}

// of makes the archive of a task: all of its files but the solution.
func (t *taskArchives) of(ctx context.Context, tree func(context.Context, agon.Digest) (string, error), ref agon.TaskRef) (*archive, error) {
	t.mu.Lock()
	a := t.tasks[ref.Digest]
	t.mu.Unlock()
	dir, err := tree(ctx, ref.Digest) // it may have been pruned since
	if err != nil || a != nil {
		return a, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	a = &archive{dir: dir}
	total := int64(0)
	var whole []ridges.File
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == "solution":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil // a link leads nowhere in an archive of ours
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		if total += i.Size(); total > maxTask {
			return fmt.Errorf("task %s: over %d bytes", ref.Key, maxTask)
		}
		b, err := fs.ReadFile(root.FS(), path)
		if err != nil {
			return err
		}
		mode := uint32(0o644)
		if i.Mode()&0o111 != 0 {
			mode = 0o755
		}
		whole = append(whole, ridges.File{Path: path, Mode: mode, Data: b})
		a.files = append(a.files, ridges.File{Path: path, Mode: mode})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pack task %s: %w", ref.Key, err)
	}
	a.digest = ridges.TaskDigest(whole)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tasks == nil {
		t.tasks, t.byName = map[agon.Digest]*archive{}, map[string]*archive{}
	}
	t.tasks[ref.Digest], t.byName[a.digest] = a, a
	return a, nil
}

// write writes a tar.gz whose files lie in one folder.
func (a *archive) write(w io.Writer) error {
	root, err := os.OpenRoot(a.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range a.files {
		b, err := fs.ReadFile(root.FS(), f.Path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Name: "task/" + filepath.ToSlash(f.Path), Mode: int64(f.Mode), Size: int64(len(b)), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// sign makes the key of a link to something that lives until a time.
func (b *Backend) sign(what string, until time.Time) string {
	m := hmac.New(sha256.New, b.secret)
	fmt.Fprintf(m, "%s\n%d", what, until.Unix())
	return fmt.Sprintf("%d.%s", until.Unix(), hex.EncodeToString(m.Sum(nil)))
}

// signed reports whether a link's key is good for it now.
func (b *Backend) signed(what, key string) bool {
	at, _, _ := strings.Cut(key, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	return err == nil && !b.cfg.Now().After(time.Unix(n, 0)) && subtle.ConstantTimeCompare([]byte(b.sign(what, time.Unix(n, 0))), []byte(key)) == 1
}

func (b *Backend) artifactURL(r *http.Request, run string) string {
	return fmt.Sprintf("%s/validator/artifacts/%s?key=%s", base(r), run, b.sign("artifact "+run, b.cfg.Now().Add(artifactTime)))
}

// taskURL is POST /validator/task-download-url.
func (b *Backend) taskURL(w http.ResponseWriter, r *http.Request) {
	s, ok := b.bearer(w, r)
	if !ok {
		return
	}
	var in struct {
		Digest string `json:"task_digest"`
	}
	if !decode(w, r, maxSmall, &in, "task_digest") {
		return
	}
	b.mu.Lock()
	id := s.Evaluation
	b.mu.Unlock()
	e, ok := b.evaluation(id)
	if !ok {
		refuse(w, http.StatusConflict, "This validator is not currently running an evaluation.")
		return
	}
	runs, err := b.runsOf(e)
	if err != nil {
		b.fail(w, "task url", err)
		return
	}
	i := slices.IndexFunc(runs, func(d *runDoc) bool { return d.Digest == in.Digest })
	if i < 0 {
		refuse(w, http.StatusNotFound, "No task with digest '%s' found in the current evaluation.", clip(in.Digest, 100))
		return
	}
	if _, err := b.tasks.of(r.Context(), b.cfg.Tree, runs[i].Task); err != nil {
		b.cfg.Log.Error("pack a task", "err", err)
		refuse(w, http.StatusBadGateway, "Failed to generate download URL")
		return
	}
	reply(w, http.StatusOK, map[string]string{
		"url": fmt.Sprintf("%s/validator/tasks/%s?key=%s", base(r), in.Digest, b.sign("task "+in.Digest, b.cfg.Now().Add(taskTime))),
	})
}

// taskArchive hands out a task's archive to who brings the link's key.
func (b *Backend) taskArchive(w http.ResponseWriter, r *http.Request) {
	digest := r.PathValue("digest")
	b.tasks.mu.Lock()
	a := b.tasks.byName[digest]
	b.tasks.mu.Unlock()
	if !b.signed("task "+digest, r.URL.Query().Get("key")) || a == nil {
		refuse(w, http.StatusForbidden, "This link is not valid")
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	if err := a.write(w); err != nil {
		b.cfg.Log.Error("send a task", "err", err)
		panic(http.ErrAbortHandler) // half an archive must not look whole
	}
}

// putArtifact keeps what a run left, the latest attempt's.
func (b *Backend) putArtifact(w http.ResponseWriter, r *http.Request) {
	u, err := uuid.Parse(r.PathValue("run"))
	if err != nil || !b.signed("artifact "+u.String(), r.URL.Query().Get("key")) {
		refuse(w, http.StatusForbidden, "This link is not valid")
		return
	}
	raw, ok := body(w, r, maxArtifact)
	if !ok {
		return
	}
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		refuse(w, http.StatusBadRequest, "want a tar.gz")
		return
	}
	dir := filepath.Join(b.cfg.Dir, "artifacts")
	if err := errFirst(os.MkdirAll(dir, 0o700), func() error { return writeWhole(filepath.Join(dir, u.String()+".tar.gz"), raw) }); err != nil {
		b.fail(w, "keep an artifact", err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func errFirst(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// writeWhole writes a file that is whole or not there.
func writeWhole(path string, b []byte) error {
	t, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(t.Name()) }() // gone after the rename
	if _, err = t.Write(b); err == nil {
		err = t.Sync()
	}
	if cerr := t.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(t.Name(), path)
}
