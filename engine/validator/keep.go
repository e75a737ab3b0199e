package validator

import (
	"bufio"
	"bytes"
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
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/folder"
)

const (
	// keepFor is how long what a stopped attempt left is kept.
	keepFor = 7 * 24 * time.Hour
	// keepBytes bounds all that is kept; the oldest goes first.
	keepBytes  = 4 << 30
	keepSuffix = ".kept"
)

// Keeps holds on this machine what stopped attempts left, a file for each run: a line of
// JSON, then the contestant's bytes. Safe for concurrent use by attempts of different runs.
type Keeps struct {
	Dir string // made when it is needed, readable for its owner only
}

// keepHead is the first line of a file.
type keepHead struct {
	Of    agon.Digest     `json:"of"` // keyOf the job
	Doc   json.RawMessage `json:"doc"`
	Bytes int64           `json:"bytes"` // of what follows
	Sum   agon.Digest     `json:"sum"`
}

// keyOf names all that a play hangs on: what was kept for another is of no use.
func keyOf(job Job, scorer string) (agon.Digest, error) {
	spec := job.Run
	b, err := json.Marshal(map[string]any{
		"run": spec.Run, "submission": job.Submission.Digest, "tasks": spec.Tasks, "seed": spec.Seed, "rival": spec.Rival, "policy": spec.Policy, "scorer": scorer,
	})
	return agon.Sum(b), err
}

func (k *Keeps) path(run string) (string, error) {
	if !folder.NameForm().MatchString(run) {
		return "", fmt.Errorf("bad name of a run %.80q", run)
	}
	return filepath.Join(k.Dir, run+keepSuffix), nil
}

// has reports whether something is kept of a run.
func (k *Keeps) has(run string) bool {
	p, err := k.path(run)
	if err != nil {
		return false
	}
	_, err = os.Lstat(p)
	return err == nil
}

// get reads what is kept of a run for the key of. ok is false for what is not whole or
// of another key.
func (k *Keeps) get(run string, of agon.Digest) (out kind.Kept, ok bool, err error) {
	p, err := k.path(run)
	if err != nil {
		return out, false, nil
	}
	f, err := os.Open(p)
	if errors.Is(err, fs.ErrNotExist) {
		return out, false, nil
	}
	if err != nil {
		return out, false, fmt.Errorf("read what was kept: %w", err)
	}
	defer func() { _ = f.Close() }()
	out, ok = readKept(f, of)
	return out, ok, nil
}

// readKept reads one file within its limits.
func readKept(r io.Reader, of agon.Digest) (out kind.Kept, ok bool) {
	in := bufio.NewReader(io.LimitReader(r, kind.MaxKeptDoc+kind.MaxKeptState+64<<10))
	line, err := readHead(in)
	var h keepHead
	if err != nil || json.Unmarshal(line, &h) != nil || h.Of != of || h.Bytes < 0 || h.Bytes > kind.MaxKeptState || len(h.Doc) > kind.MaxKeptDoc {
		return out, false
	}
	var b bytes.Buffer
	if n, err := io.Copy(&b, in); err != nil || n != h.Bytes || agon.Sum(b.Bytes()) != h.Sum {
		return out, false
	}
	return kind.Kept{Doc: h.Doc, State: b.Bytes()}, true
}

func readHead(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > kind.MaxKeptDoc+32<<10:
			return nil, errors.New("the first line is too long")
		}
	}
}

// put keeps k for a run: written aside, synced, and moved to its place.
func (k *Keeps) put(run string, of agon.Digest, kept kind.Kept, now time.Time) error {
	p, err := k.path(run)
	if err != nil {
		return err
	}
	if len(kept.Doc) > kind.MaxKeptDoc || len(kept.State) > kind.MaxKeptState {
		return fmt.Errorf("keep a run: %d and %d bytes are over %d and %d", len(kept.Doc), len(kept.State), kind.MaxKeptDoc, kind.MaxKeptState)
	}
	head, err := json.Marshal(keepHead{Of: of, Doc: kept.Doc, Bytes: int64(len(kept.State)), Sum: agon.Sum(kept.State)})
	if err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	if err := k.makeRoom(now, int64(len(kept.State))); err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	t, err := os.CreateTemp(k.Dir, ".new-*")
	if err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	defer func() { _ = os.Remove(t.Name()) }() // gone after the rename
	_, err = t.Write(append(head, '\n'))
	if err == nil {
		_, err = t.Write(kept.State)
	}
	if err = errors.Join(err, t.Sync(), t.Close()); err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	if err := os.Rename(t.Name(), p); err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	d, err := os.Open(k.Dir)
	if err != nil {
		return fmt.Errorf("keep a run: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// drop forgets what is kept of a run.
func (k *Keeps) drop(run string) error {
	p, err := k.path(run)
	if err != nil {
		return nil // nothing is kept under such a name
	}
	if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop what was kept: %w", err)
	}
	return nil
}

// makeRoom removes what is old, half written files too, and the oldest until more bytes have room.
func (k *Keeps) makeRoom(now time.Time, more int64) error {
	list, err := os.ReadDir(k.Dir)
	if err != nil {
		return err
	}
	var kept []fs.FileInfo
	for _, e := range list {
		st, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case now.Sub(st.ModTime()) > keepFor:
			if err := os.Remove(filepath.Join(k.Dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case strings.HasSuffix(e.Name(), keepSuffix):
			kept = append(kept, st)
			more += st.Size()
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for ; more > keepBytes && len(kept) > 0; kept = kept[1:] {
		more -= kept[0].Size()
		if err := os.Remove(filepath.Join(k.Dir, kept[0].Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// errNotKept is what a machine without a place for it says.
var errNotKept = errors.New("this machine keeps nothing of stopped runs")

func (e *env) key() (agon.Digest, error) {
	if e.kind == nil || e.p.Keeps == nil {
		return "", errNotKept
	}
	return keyOf(e.job, e.kind.Scorer())
}

// Kept implements kind.Keeper.
func (e *env) Kept(context.Context) (kind.Kept, bool, error) {
	of, err := e.key()
	if errors.Is(err, errNotKept) {
		return kind.Kept{}, false, nil
	}
	if err != nil {
		return kind.Kept{}, false, err
	}
	k, ok, err := e.p.Keeps.get(e.job.Run.Run, of)
	if err != nil {
		e.note(agon.FaultValidator, err.Error())
	}
	return k, ok, err
}

// Keep implements kind.Keeper.
func (e *env) Keep(k kind.Kept) error {
	of, err := e.key()
	if err == nil {
		err = e.p.Keeps.put(e.job.Run.Run, of, k, e.p.Now())
	}
	if err == nil {
		e.rec.Record(agon.EventNote, "", map[string]any{"text": "what it had come to is kept for its next attempt here", "bytes": len(k.State)})
	}
	return err
}

// Anew implements kind.Keeper.
func (e *env) Anew(why string) error {
	if e.p.Keeps != nil {
		if err := e.p.Keeps.drop(e.job.Run.Run); err != nil {
			why += "; " + err.Error()
		}
	}
	e.note(agon.FaultValidator, why)
	return errors.New(why)
}

// keeps settles what is kept of an attempt's run at its end, and reports whether something
// is: what was not stopped has nothing to go on with.
func (e *env) keeps(stopped bool) (bool, error) {
	if e.p.Keeps == nil {
		return false, nil
	}
	if stopped {
		return e.p.Keeps.has(e.job.Run.Run), nil
	}
	return false, e.p.Keeps.drop(e.job.Run.Run)
}
