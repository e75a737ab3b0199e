package harbor

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
)

// Bounds of what an agent leaves, over all steps of a task for bytes.
const (
	maxWork    = 32 << 20
	maxChanged = 20_000  // files and directories that differ
	maxListed  = 300_000 // files and directories that are compared
	layerDir   = "/opt/agon"

	deletedFile = ".agon/deleted" // of an archive: the paths that are gone, as JSON
)

// caches are what build tools keep in the agent's home to be faster next time: no
// work, and often larger than all of it. The verifier has another home.
var caches = []string{homeDir + "/.cache/go-build", homeDir + "/.cache/pip", homeDir + "/.cache/uv", homeDir + "/.npm/_cacache", homeDir + "/.cargo/registry"}

//go:embed box/snapshot.py
var snapshotPy string

//go:embed box/replay.py
var replayPy string

// listed are the files of a box at one time, as snapshot.py writes them.
type listed []byte

// paths are those that a list holds.
func (l listed) paths() map[string]bool {
	out := map[string]bool{}
	for len(l) > 0 {
		p, rest, _ := bytes.Cut(l, []byte{0})
		_, l, _ = bytes.Cut(rest, []byte{0})
		out[string(p)] = true
	}
	return out
}

// look runs snapshot.py: without before it lists, with it it archives. why says that
// it cannot be had, which is the doing of whoever works in the box.
func (s *stage) look(ctx context.Context, box sandbox.Box, before listed, room int) (out []byte, why string, err error) {
	act, roots := "pack", append(slices.Clone(s.open), logsDir+"/artifacts", rewardDir)
	if before == nil {
		act = "list"
	}
	args := []string{s.python(), "-I", "-S", "-c", snapshotPy, act, strconv.Itoa(maxListed), strconv.Itoa(room), strconv.Itoa(len(roots))}
	args = append(append(append(args, roots...), layerDir, "/tmp/.as-agent"), caches...)
	got, errs := &bounded{limit: maxWork + 1<<20}, &ending{limit: 1 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: args, Dir: "/", Stdin: bytes.NewReader(before), Stdout: got, Stderr: errs})
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("read the work: %w", err)
	case x.Limit != "":
		return nil, "what was left could not be read within the box's limit of " + x.Limit, nil
	case x.Code == 7 || got.over:
		return nil, fmt.Sprintf("what was left has more than %d bytes or %d files, or its directories are too deep", room, maxListed), nil
	case x.Lost != "":
		return nil, "", fmt.Errorf("read the work: command was lost: %s", x.Lost)
	case x.Code != 0 && before != nil:
		return nil, plain.Short(fmt.Sprintf("what was left could not be read: exit %d: %s", x.Code, errs.b), 300), nil
	case x.Code != 0:
		return nil, "", fmt.Errorf("read the work: exit %d: %s", x.Code, errs.b)
	case got.b == nil:
		return []byte{}, "", nil
	}
	return got.b, "", nil
}

// errWork marks what was left as such that it cannot be laid out: its maker's doing.
var errWork = errors.New("what was left cannot be laid out")

// kept is a file, directory or link of a snapshot.
type kept struct {
	h *tar.Header
	b []byte
}

// cleaned is the archive of a snapshot with what a verifier may meet of it: the
// task's files, wherever they stand, and nothing that would act on programs
// that the verifier runs. dropped names what was left out. programs: some of the
// contestant's will run beside the verifier.
func (s *stage) cleaned(archive []byte, programs bool) (out []byte, dropped []string, err error) {
	bad := func(format string, args ...any) ([]byte, []string, error) {
		return nil, nil, fmt.Errorf("%w: %s", errWork, plain.Short(fmt.Sprintf(format, args...), 300))
	}
	var gone []string
	entries := map[string]kept{}
	links := map[string]bool{}
	r := tar.NewReader(bytes.NewReader(archive))
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return bad("%v", err)
		}
		if n > maxChanged {
			return bad("more than %d files", maxChanged)
		}
		if h.Name == deletedFile {
			b, err := io.ReadAll(io.LimitReader(r, maxWork))
			if err != nil {
				return bad("%v", err)
			}
			if err := json.Unmarshal(b, &gone); err != nil {
				return bad("list of deleted files: %v", err)
			}
			continue
		}
		p := path.Clean(h.Name)
		if !fs.ValidPath(p) || p == "." || len(p) > 4000 || strings.ContainsRune(p, 0) {
			return bad("path %q", h.Name)
		}
		e := kept{h: &tar.Header{Name: p, Typeflag: h.Typeflag, Mode: h.Mode & 0o777, ModTime: h.ModTime, Linkname: h.Linkname}}
		switch h.Typeflag {
		case tar.TypeReg:
			if e.b, err = content(r, h, len(archive)); err != nil {
				return bad("%v", err)
			}
			e.h.Size = int64(len(e.b))
			e.h.Mode |= 0o400
		case tar.TypeDir:
			e.h.Mode |= 0o700
		case tar.TypeSymlink:
			links[p] = true
		default:
			return bad("%q is neither file, directory nor link", h.Name)
		}
		if s.dangerous(p, h.Typeflag, h.Linkname) || programs && links[p] && !settled(h.Linkname) {
			if len(dropped) < 50 || len(dropped) < 60 && below(rewardDir, "/"+p) { // a reward is named beside whatever else
				dropped = append(dropped, "/"+p)
			}
			continue
		}
		entries[p] = e
	}
	left := func(p string) bool { _, ok := entries[p]; return ok }
	for _, p := range sortedKeys(entries) {
		if e := entries[p]; s.runsByGit(e.h, e.b, left) {
			delete(entries, p)
			delete(links, p)
			if len(dropped) < 50 {
				dropped = append(dropped, "/"+p)
			}
		}
	}
	s.tame(entries, gone)
	var buf bytes.Buffer
	buf.Grow(len(archive))
	w := tar.NewWriter(&buf)
	write := func(h *tar.Header, b []byte) error {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	}
	kept := []string{}
	for _, p := range gone {
		if len(p) < 2 || p[0] != '/' || !fs.ValidPath(p[1:]) || s.dangerous(p[1:], tar.TypeReg, "") {
			continue
		}
		kept = append(kept, p)
	}
	list, err := json.Marshal(kept)
	if err != nil {
		return nil, nil, err
	}
	if err := write(&tar.Header{Name: deletedFile, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(list))}, list); err != nil {
		return nil, nil, err
	}
	for _, p := range sortedKeys(entries) {
		through := false
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			through = through || links[d]
		}
		if through {
			return bad("%q lies below a link", p)
		}
		if err := write(entries[p].h, entries[p].b); err != nil {
			return bad("%q: %v", p, err)
		}
	}
	err = w.Close()
	return buf.Bytes(), dropped, err
}

// content is what a file of an archive of size bytes holds. A sparse file may say that it is any size.
func content(r io.Reader, h *tar.Header, size int) ([]byte, error) {
	if h.Size < 0 || h.Size > int64(size) {
		return io.ReadAll(io.LimitReader(r, int64(min(size, maxWork))))
	}
	b := make([]byte, h.Size)
	_, err := io.ReadFull(r, b)
	return b, err
}

// orders is a cleaned snapshot as replay.py reads it.
func orders(archive []byte) ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, len(archive)))
	order := func(kind byte, h *tar.Header, p string, content []byte) {
		fmt.Fprintf(out, "%c %o %d %d %d\n%s", kind, h.Mode, h.ModTime.Unix(), len(p), len(content), p)
		out.Write(content)
	}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		b, err := content(r, h, len(archive))
		if err != nil {
			return nil, err
		}
		p := "/" + strings.TrimSuffix(h.Name, "/")
		switch {
		case h.Name == deletedFile:
			var gone []string
			if err := json.Unmarshal(b, &gone); err != nil {
				return nil, err
			}
			for _, p := range gone {
				order('x', h, p, nil)
			}
		case h.Typeflag == tar.TypeDir:
			order('d', h, p, nil)
		case h.Typeflag == tar.TypeSymlink:
			order('l', h, p, []byte(h.Linkname))
		default:
			order('f', h, p, b)
		}
	}
}

// replay lays a cleaned snapshot out in a box over the same files as before.
func (s *stage) replay(ctx context.Context, box sandbox.Box, archive []byte) error {
	if len(archive) == 0 {
		return nil
	}
	list, err := orders(archive)
	if err != nil {
		return fmt.Errorf("lay out the work: %w", err)
	}
	errs := &ending{limit: 1 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{s.python(), "-I", "-S", "-c", replayPy}, Dir: "/", Stdin: bytes.NewReader(list), Stdout: errs, Stderr: errs})
	switch {
	case err != nil:
		return fmt.Errorf("lay out the work: %w", err)
	case x.Lost != "":
		return fmt.Errorf("lay out the work: command was lost: %s", x.Lost)
	case x.Limit != "":
		return fmt.Errorf("%w: the verifier's box reached its %s limit", errWork, x.Limit)
	case x.Code != 0:
		return fmt.Errorf("%w: exit %d: %s", errWork, x.Code, plain.Short(string(errs.b), 300))
	}
	return nil
}
