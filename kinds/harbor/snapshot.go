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
)

// caches are what build tools keep in the agent's home to be faster next time: no
// work, and often larger than all of it. The verifier has another home.
var caches = []string{homeDir + "/.cache/go-build", homeDir + "/.cache/pip", homeDir + "/.cache/uv", homeDir + "/.npm/_cacache", homeDir + "/.cargo/registry"}

//go:embed box/snapshot.py
var snapshotPy string

//go:embed box/replay.py
var replayPy string

// listed are the files of a box at one time, as snapshot.py writes them.
type listed = json.RawMessage

type snapshotJob struct {
	Roots   []string `json:"roots"`
	Skip    []string `json:"skip"`
	Entries int      `json:"entries"`
	Bytes   int      `json:"bytes"`
	Before  listed   `json:"before"`
}

// look runs snapshot.py: without before it lists, with it it archives. why says that
// it cannot be had, which is the doing of whoever works in the box.
func (s *stage) look(ctx context.Context, box sandbox.Box, before listed, room int) (out []byte, why string, err error) {
	job, err := json.Marshal(snapshotJob{
		Roots: append(slices.Clone(s.open), logsDir+"/artifacts", rewardDir), Skip: append([]string{layerDir, "/tmp/.as-agent"}, caches...),
		Entries: maxListed, Bytes: room, Before: before,
	})
	if err != nil {
		return nil, "", fmt.Errorf("encode snapshot: %w", err)
	}
	got, errs := &bounded{limit: maxWork + 1<<20}, &ending{limit: 1 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{s.python(), "-I", "-S", "-c", snapshotPy}, Dir: "/", Stdin: bytes.NewReader(job), Stdout: got, Stderr: errs})
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
		if h.Name == ".agon/deleted" {
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
			if e.b, err = io.ReadAll(io.LimitReader(r, maxWork)); err != nil {
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
	if err := write(&tar.Header{Name: ".agon/deleted", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(list))}, list); err != nil {
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

// replay lays a cleaned snapshot out in a box over the same files as before.
func (s *stage) replay(ctx context.Context, box sandbox.Box, archive []byte) error {
	if len(archive) == 0 {
		return nil
	}
	errs := &ending{limit: 1 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{s.python(), "-I", "-S", "-c", replayPy}, Dir: "/", Stdin: bytes.NewReader(archive), Stdout: errs, Stderr: errs})
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
