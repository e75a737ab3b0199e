package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
)

// MarkerFile names a directory as a data directory of agon. What lacks it is
// never removed.
const MarkerFile = "agon.data"

// LockFile is held (flock) by the process that uses a data directory.
const LockFile = "lock"

func (a *App) resetCmd() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Remove the data directory: every arena, run and demo key in it",
		Long: `Remove the data directory: every arena, submission, run and demo key in it. Your own
wallets and the cache stay. It asks first; --yes answers. A directory that agon did
not make is refused. JSON: {removed, data}.`,
		Example: "  agon reset\n  agon reset --data ./data --yes",
		Args:    Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.reset(cmd.Context(), sure) },
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return cmd
}

func (a *App) reset(ctx context.Context, sure bool) error {
	conf, err := a.Config()
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(conf.Get(config.Data))
	if errors.Is(err, fs.ErrNotExist) {
		a.IO.Notef("there is no %s: nothing to remove", plain.Line(conf.Get(config.Data)))
		return a.printReset(ctx, conf.Get(config.Data), false)
	}
	if err != nil {
		return fmt.Errorf("find data directory: %w", err)
	}
	lock, err := checkReset(dir, a.Env.Home, a.Env.Dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if !sure {
		if !a.IO.InTTY() {
			return output.Usage("yes", "add --yes", "reset asks before it removes %s, and nobody is there to answer", dir)
		}
		// A question is for the person: stderr.
		_, _ = fmt.Fprintf(a.IO.Err, "Remove %s and everything in it? Type yes: ", plain.Line(dir))
		answer, err := bufio.NewReader(io.LimitReader(a.IO.In, 64)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read answer: %w", err)
		}
		if strings.TrimSpace(answer) != "yes" {
			a.IO.Notef("nothing was removed")
			return &Exit{Code: CodeFailed}
		}
	}
	if err := removeTree(dir); err != nil {
		return err
	}
	return a.printReset(ctx, dir, true)
}

func (a *App) printReset(ctx context.Context, dir string, removed bool) error {
	return a.Printer.Print(ctx, output.Result{Value: map[string]any{"data": dir, "removed": removed}, Human: func(h *output.Human) {
		if removed {
			h.Line("removed %s", dir)
		}
	}})
}

// checkReset makes sure that dir is a data directory that nobody uses and that
// nothing of others hangs in it. It returns the held lock.
func checkReset(dir, home, work string) (*os.File, error) {
	refuse := func(code, why, mend string) error {
		return &agon.Error{Code: code, Status: http.StatusUnprocessableEntity, Field: "data", Message: dir + " " + why, Mend: mend}
	}
	st, err := os.Lstat(filepath.Join(dir, MarkerFile))
	if err != nil || !st.Mode().IsRegular() {
		return nil, refuse("not_ours", "was not made by agon: it has no "+MarkerFile, "name the data directory with --data")
	}
	if inside(dir, home) || inside(dir, work) {
		return nil, refuse("not_ours", "holds your home or the working directory", "go elsewhere, or remove it by hand")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // not Linux: no such file, and no boxes either
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	if at := mountedBelow(dir, string(mounts)); at != "" {
		return nil, refuse("mounted", "has something mounted at "+at, "stop agon, then unmount it")
	}
	lock, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &agon.Error{Code: "data_in_use", Status: http.StatusConflict, Field: "data", Message: "an agon uses " + dir, Mend: "stop it first"}
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	return lock, nil
}

// inside reports whether p is dir or below it.
func inside(dir, p string) bool {
	rel, err := filepath.Rel(dir, p)
	return p != "" && err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// mountedBelow returns the first mount point below dir that mountinfo lists, or "".
func mountedBelow(dir, mountinfo string) string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		if at := unescape.Replace(f[4]); at != dir && inside(dir, at) {
			return at
		}
	}
	return ""
}

// removeTree removes dir. Boxes leave directories that even their owner may
// not list: those are opened first. Symbolic links are removed, not followed.
func removeTree(dir string) error {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			if st, serr := d.Info(); serr == nil && st.Mode().Perm()&0o700 != 0o700 {
				return os.Chmod(p, 0o700)
			}
		}
		if err != nil && d != nil && d.IsDir() {
			return nil // RemoveAll gives the better error
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	// The marker goes last: a removal that breaks off can be taken up again.
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == MarkerFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
