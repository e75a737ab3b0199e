package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/coding/patch"
	"github.com/agon-arena/agon/sandbox"
)

// maxFile bounds one file of a tree after a patch, and of a base tree.
const maxFile = 32 << 20

// applied is what a patch makes of a base tree.
type applied struct {
	// refused says why the patch does not count; everything else is then empty.
	refused string
	// changed maps tree paths to their new content, nil for a file that is gone.
	changed map[string][]byte
	exec    map[string]bool // paths whose execute bit the patch sets or clears
}

// apply lets git apply a patch to the task's base tree in a box without doors
// and reads back the files that the patch names; whatever else happens in
// that box stays there. An error is never the patch's doing.
func (k *Kind) apply(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, diff []byte) (*applied, error) {
	base, err := basePath(t)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, fmt.Errorf("open base tree: %w", err)
	}
	defer root.Close()
	p, err := patch.Parse(diff)
	if err != nil {
		return &applied{refused: err.Error()}, nil
	}
	paths := p.Paths()
	for _, name := range paths {
		if link := linkOn(root, name); link != "" {
			return &applied{refused: fmt.Sprintf("patch: path %q goes through the symbolic link %q", plain.Short(name, 120), plain.Short(link, 120))}, nil
		}
	}
	box, err := env.Box(ctx, sandbox.Spec{
		Name:   "apply",
		Rootfs: k.cfg.Rootfs,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: "/tmp"},
			{Kind: sandbox.MountOverlay, Source: base, Target: repoDir},
		},
		Limits: pol.Grader,
		Env:    append(append([]string{"HOME=/tmp"}, baseEnv...), gitEnv...),
	})
	if err != nil {
		return nil, err
	}
	defer box.Close()
	out, x, err := exec(ctx, box, sandbox.Cmd{Args: []string{"git", "apply", "--whitespace=nowarn", "-"}, Dir: repoDir, Stdin: bytes.NewReader(diff)})
	if err != nil {
		return nil, fmt.Errorf("apply patch: %w", err)
	}
	if x.Lost != "" {
		return nil, fmt.Errorf("apply patch: command was lost: %s", x.Lost)
	}
	if x.Code != 0 {
		return &applied{refused: "git apply: " + plain.Short(lastLine(out), 300)}, nil
	}
	a := &applied{changed: map[string][]byte{}, exec: map[string]bool{}}
	var total int64
	for _, name := range paths {
		before, had, err := readRegular(root, name)
		if err != nil {
			return nil, fmt.Errorf("read base tree: %w", err)
		}
		after, err := box.ReadFile(path.Join(repoDir, name), maxFile)
		switch {
		case errors.Is(err, sandbox.ErrNotExist), errors.Is(err, sandbox.ErrUnsafe):
			// Gone, or now something that is not a file of ours (a directory).
			if had {
				a.changed[name] = nil
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("read patched tree: %w", err)
		}
		if bit, set := p.ExecOf(name); set {
			a.exec[name] = bit
		} else if had && bytes.Equal(before, after) {
			continue
		}
		if after == nil {
			after = []byte{}
		}
		a.changed[name] = after
		if total += int64(len(after)); total > 4*maxFile {
			return &applied{refused: fmt.Sprintf("patch: the files it changes hold more than %d bytes", 4*maxFile)}, nil
		}
	}
	return a, nil
}

// linkOn returns the first part of name that is a symbolic link in the tree.
func linkOn(root *os.Root, name string) string {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		fi, err := root.Lstat(name[:i])
		if err != nil {
			return ""
		}
		if fi.Mode()&fs.ModeSymlink != 0 {
			return name[:i]
		}
	}
	return ""
}

// readRegular reads a file of a tree; had is false if there is none.
func readRegular(root *os.Root, name string) (b []byte, had bool, err error) {
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) || err == nil && !fi.Mode().IsRegular() {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if fi.Size() > maxFile {
		return nil, false, fmt.Errorf("%s holds %d bytes, at most %d are allowed", name, fi.Size(), maxFile)
	}
	b, err = root.ReadFile(name)
	return b, err == nil, err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
