package runsc

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/agon-arena/agon/sandbox/internal/entry"
)

// What is built. docs/sandbox.md tells how to move to another release.
var (
	//go:embed pin/go.mod.txt
	pinMod string
	//go:embed pin/go.sum.txt
	pinSum string
	//go:embed pin/precompile.go.txt
	precompile string
)

// patches change gVisor where its kernel is more open than Linux is to a process
// without privileges, and where a start does work that boxes do not need. Each
// old text must be there exactly once, so that another release cannot lose one
// unnoticed.
var patches = []struct{ file, old, new string }{
	// A process that runs a program which it may not read is closed to others on
	// Linux, which graders rely on. gVisor refuses to run such a program and lets
	// any process write its own memory by this file. Here it may be run, and the
	// file is closed: ptrace and process_vm_readv are refused by our filter.
	{"pkg/sentry/fsimpl/proc/task_files.go", "		// TODO(gvisor.dev/issue/260): Add check for PTRACE_MODE_ATTACH_FSCREDS\n", "		if f.task != nil {\n			return nil, linuxerr.EACCES\n		}\n"},
	{"pkg/sentry/fsimpl/gofer/filesystem.go", "	if err := d.checkPermissions(rp.Credentials(), ats); err != nil {\n", "	need := ats\n	if opts.FileExec && ats == vfs.MayRead|vfs.MayExec {\n		need = vfs.MayExec\n	}\n	if err := d.checkPermissions(rp.Credentials(), need); err != nil {\n"},

	// No box mounts a file system of its own, so none needs the device for that.
	{"runsc/boot/vfs.go", "	if err := fuse.Register(vfsObj); err != nil {\n", "	if err := error(nil); err != nil {\n"},

	// Which calls a filter decides by their number alone depends on the filter and
	// the architecture only, and the copy has that too. Finding out again takes
	// 2000 runs of the filter at each fork.
	{"pkg/sentry/kernel/task_clone.go", "		seccompCopy.populateCache(nt)\n", "		if seccompCopy.cacheAuditNumber != nt.image.st.AuditNumber {\n			seccompCopy.populateCache(nt)\n		}\n"},
	{"pkg/sentry/kernel/seccomp.go", "				seccompCopy.populateCache(ot)\n", "				if seccompCopy.cacheAuditNumber != ot.image.st.AuditNumber {\n					seccompCopy.populateCache(ot)\n				}\n"},
	// A filter that is installed is asked for a number when the process first makes
	// that call, not for 2000 numbers at once: most children of a warm box make
	// twenty different calls after their filter. The mark of a number that was not
	// asked for is above SECCOMP_RET_ALLOW, and so above all that is ever cached.
	{"pkg/sentry/kernel/seccomp.go", "	uncacheableBPFAction = linux.SECCOMP_RET_ACTION_FULL\n", "	uncacheableBPFAction = linux.SECCOMP_RET_ACTION_FULL\n\n	// unknownBPFAction stands for a number that was not asked for yet.\n	unknownBPFAction = linux.SECCOMP_RET_ACTION_FULL - 1\n"},
	{"pkg/sentry/kernel/seccomp.go", "		if cached := ts.cache[sysno]; cached != uncacheableBPFAction {\n", "		cached := ts.cache[sysno]\n		if cached == unknownBPFAction {\n			cached = ts.look(sysno)\n		}\n		if cached != uncacheableBPFAction && cached != unknownBPFAction {\n"},
	{"pkg/sentry/kernel/seccomp.go", "	sd := linux.SeccompData{}\n	input := bpf.Input(make([]byte, sd.SizeBytes()))\n\n	for sysno := int32(0); sysno <= sentry.MaxSyscallNum; sysno++ {\n", "	for i := range ts.cache {\n		ts.cache[i] = unknownBPFAction\n	}\n}\n\n// look finds out what ts.cache holds for sysno. Only the goroutine of the task that ts is of may call it.\nfunc (ts *taskSeccomp) look(sysno int32) linux.BPFAction {\n	sd := linux.SeccompData{}\n	input := bpf.Input(make([]byte, sd.SizeBytes()))\n\n	{\n"},
	{"pkg/sentry/kernel/seccomp.go", "			ts.cache[sysno] = uncacheableBPFAction\n		}\n	}\n}\n", "			ts.cache[sysno] = uncacheableBPFAction\n		}\n	}\n	return ts.cache[sysno]\n}\n"},
	// A process that keeps forking from the same warm memory asks by prctl to have
	// it copied at the fork. Shared until one of the two writes, each piece of it
	// costs a fault, an unmapping and a copy of 2 MiB later. The copies count
	// against the box's memory, so nobody gets them who has not asked.
	{"pkg/sentry/mm/mm.go", "	hasPinned bool\n", "	hasPinned bool\n\n	copyAtFork atomicbitops.Bool\n"},
	{"pkg/sentry/mm/lifecycle.go", "		if mm.hasPinned && !pma.needCOW {\n", "		if mm.copyAtFork.Load() && !pma.needCOW && pma.effectivePerms.Write {\n			// Without room for a copy it is shared as ever.\n			if gap, err := mm.forkCopyPMALocked(mm2, srcpseg, dstpgap, memCgID); err == nil {\n				dstpgap = gap\n				continue\n			}\n		}\n\n		if mm.hasPinned && !pma.needCOW {\n"},
	{"pkg/sentry/mm/lifecycle.go", "// forkCopyPMALocked copies the contents", "// SetCopyAtFork says whether children get a copy of what is writable.\nfunc (mm *MemoryManager) SetCopyAtFork(on bool) {\n	mm.copyAtFork.Store(on)\n}\n\n// forkCopyPMALocked copies the contents"},
	{"pkg/sentry/syscalls/linux/sys_prctl.go", "	case linux.PR_SET_PDEATHSIG:\n		sig := ", "	case 0x41474f4e:\n		t.MemoryManager().SetCopyAtFork(args[1].Int() != 0)\n		return 0, nil, nil\n\n	case linux.PR_SET_PDEATHSIG:\n		sig := "},
	// What a copy fills whole need not be zeroed first: pages behind the end of a
	// short read are given back, and only those before it are used.
	{"pkg/sentry/pgalloc/pgalloc.go", "			if alloc.recycled {\n				// The contents", "			if alloc.recycled && alloc.opts.ReaderFunc != nil {\n				needHugeTouch = false\n			} else if alloc.recycled {\n				// The contents"},
	// Pages that were freed are kept for 50 ms while there are few of them: the
	// next fork takes them again, and neither side asks the host.
	{"pkg/sentry/pgalloc/pgalloc.go", "	haveWaste bool\n", "	haveWaste bool\n\n	// wasted is the length of all waste pages, in bytes, protected by mu.\n	wasted uint64\n"},
	{"pkg/sentry/pgalloc/pgalloc.go", "				haveWaste = true\n				// Reclassify", "				haveWaste = true\n				f.wasted += wasteFR.Length()\n				// Reclassify"},
	{"pkg/sentry/pgalloc/pgalloc.go", "			unwaste.Insert(uwgap, fr, unwasteInfo{})\n			// Update", "			unwaste.Insert(uwgap, fr, unwasteInfo{})\n			f.wasted -= fr.Length()\n			// Update"},
	{"pkg/sentry/pgalloc/pgalloc.go", "				unwaste.Insert(uwgap, fr, unwasteInfo{})\n				f.releaseLocked", "				unwaste.Insert(uwgap, fr, unwasteInfo{})\n				f.wasted -= fr.Length()\n				f.releaseLocked"},
	{"pkg/sentry/pgalloc/pgalloc.go", "			if f.haveWaste {\n				break\n", "			if f.haveWaste {\n				for i := 0; i < 10 && f.wasted <= 24<<20 && !f.destroyed; i++ {\n					f.mu.Unlock()\n					time.Sleep(5 * time.Millisecond)\n					f.mu.Lock()\n				}\n				break\n"},
	// Tables for tracing sessions, which are asked for by a file that boxes do not have.
	{"runsc/boot/loader.go", "	seccheck.Initialize()\n", "	if args.PodInitConfigFD >= 0 {\n		seccheck.Initialize()\n	}\n"},
	// How often the sandbox collects garbage; see collect in driver.go.
	{"runsc/sandbox/sandbox.go", "		cmd.Env = []string{}\n", "		cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return !strings.HasPrefix(s, \"GOGC=\") && !strings.HasPrefix(s, \"GOMEMLIMIT=\") })\n"},
	// An image is taken of a box whose first process has a host's socket as its input, and
	// that socket is another one where the image is restored; see image.go. gVisor gives the
	// file its new number and would leave the old one to the socket behind it.
	{"pkg/sentry/socket/unix/transport/save_restore.go", "func (c *HostSender) afterLoad(context.Context) {\n", "// RestoredInput is the number of the first process's input where a box is restored.\nvar RestoredInput = -1\n\nfunc (c *HostSender) afterLoad(context.Context) {\n	if c.fd >= 0 {\n		c.fd = RestoredInput\n	}\n"},
	{"runsc/boot/restore.go", "	\"gvisor.dev/gvisor/pkg/sentry/pgalloc\"\n", "	\"gvisor.dev/gvisor/pkg/sentry/pgalloc\"\n	\"gvisor.dev/gvisor/pkg/sentry/socket/unix/transport\"\n"},
	{"runsc/boot/restore.go", "			restoreMnts.fdmap[key] = fd.Release()\n", "			restoreMnts.fdmap[key] = fd.Release()\n			if i == 0 {\n				transport.RestoredInput = restoreMnts.fdmap[key]\n			}\n"},
	// Dropping 40 capabilities from the bounding set stops all threads 40 times. What the
	// set is for are programs that a process executes: locked, NOROOT and no_new_privs
	// give them no capability whatever the set holds, in two stops.
	{"runsc/cmd/sandboxsetup/caps_unsafe.go", "	if r.haveSetPCap {\n		for c", "	if r.haveSetPCap && r.ambient == 0 {\n		for _, p := range [][2]uintptr{{unix.PR_SET_SECUREBITS, 1<<0 | 1<<1 | 1<<6 | 1<<7}, {unix.PR_SET_NO_NEW_PRIVS, 1}} {\n			if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, p[0], p[1], 0, 0, 0, 0); errno != 0 {\n				return fmt.Errorf(\"prctl %d on all threads: %w\", p[0], errno)\n			}\n		}\n	} else if r.haveSetPCap {\n		for c"},
	// The filters to compile beforehand, see pin/precompile.go.txt: what boxes are started with.
	{"runsc/boot/filter/config/config_precompiled.go", "	type expandFn func(opt Options) ([]Options, error)\n", "	if systrap, err := platform.Lookup(\"systrap\"); err == nil {\n		var ours []Options\n		for _, info := range systrap.PrecompiledSeccompInfo() {\n			for _, host := range []bool{false, true} {\n				ours = append(ours, Options{Platform: info, HostNetwork: host, HostFilesystem: true})\n			}\n		}\n		return ours, nil\n	}\n	type expandFn func(opt Options) ([]Options, error)\n"},
	{"runsc/fsgofer/filter/config/config_precompiled.go", "func optionsToPrecompile() []Options {\n", "func optionsToPrecompile() []Options {\n	if ours := []Options{{UDSOpenEnabled: true, DirectFS: true}, {UDSOpenEnabled: true, DirectFS: true, LisafsNeeded: true}}; len(ours) > 0 {\n		return ours\n	}\n"},
}

const (
	module = "gvisor.dev/gvisor"
	// buildVersion changes whenever build does something else with the same sources.
	buildVersion = 2
	buildTimeout = 15 * time.Minute
)

// ErrNoGo says that runsc has to be built and there is no go tool to do it; its text carries the mend.
var ErrNoGo = errors.New("gVisor cannot be built here")

// BuildConfig says where runsc is kept.
type BuildConfig struct {
	// Dir is the cache; empty means $AGON_CACHE, else /var/cache/agon for root
	// and the user's cache directory for others.
	Dir string
	// Go is the go tool; empty looks for "go".
	Go string
	// Log receives progress, one line at a time; nil discards it.
	Log io.Writer
}

// Version is the pinned release of gVisor.
func Version() string {
	for l := range strings.Lines(pinMod) {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "require" && f[1] == module {
			return f[2]
		}
	}
	return "unknown"
}

// dir is named after everything that decides what the programs are.
func (c BuildConfig) dir() string {
	h := sha256.New()
	for _, s := range []string{fmt.Sprint(buildVersion), runtime.GOARCH, pinMod, pinSum, precompile, fmt.Sprint(patches)} {
		_, _ = fmt.Fprintf(h, "%d\n%s", len(s), s)
	}
	return filepath.Join(entry.Cache(c.Dir), "runsc-"+hex.EncodeToString(h.Sum(nil)[:6]))
}

// Find returns the path of a runsc that was built before. It never builds.
func Find(c BuildConfig) (string, bool) {
	at, ok := entry.Find(c.Dir, filepath.Base(c.dir()), "runsc")
	return filepath.Join(at, "runsc"), ok
}

// Ensure returns the path of runsc at the pinned version, building it from the
// Go module proxy first if it is not cached (about two minutes). Processes that
// ask at once build it once. It appears by one rename. Errors wrap ErrNoGo where
// there is no go tool.
func Ensure(ctx context.Context, c BuildConfig) (string, error) {
	if _, err := entry.Ensure(ctx, c.Dir); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoGo, err)
	}
	if bin, ok := Find(c); ok {
		return bin, nil
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Go == "" {
		c.Go = "go"
	}
	tool, err := exec.LookPath(c.Go)
	if err != nil {
		return "", fmt.Errorf("%w: no go tool; install Go 1.26 and run agon setup again, or copy %s from a machine that has it", ErrNoGo, c.dir())
	}
	dir := c.dir()
	base := filepath.Dir(dir)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("make cache directory: %w", err)
	}
	unlock, err := entry.Lock(ctx, filepath.Join(base, ".runsc-lock"), "runsc")
	if err != nil {
		return "", err
	}
	defer unlock()
	if bin, ok := Find(c); ok { // built while we waited
		return bin, nil
	}
	old, err := filepath.Glob(filepath.Join(base, ".runsc-new-*"))
	if err != nil {
		return "", err
	}
	for _, d := range append(old, dir) { // abandoned builds, and one that Find did not trust
		if err := os.RemoveAll(d); err != nil {
			return "", fmt.Errorf("remove old build: %w", err)
		}
	}
	tmp, err := os.MkdirTemp(base, ".runsc-new-")
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	_, _ = fmt.Fprintf(c.Log, "building gVisor %s (about two minutes, once)\n", Version())
	out := filepath.Join(tmp, "out")
	if err := build(ctx, tool, filepath.Join(tmp, "src"), out); err != nil {
		return "", err
	}
	if err := os.Rename(out, dir); err != nil {
		return "", fmt.Errorf("publish runsc: %w", err)
	}
	bin, ok := Find(c)
	if !ok {
		return "", fmt.Errorf("build runsc: %s is not what it should be", dir)
	}
	_, _ = fmt.Fprintf(c.Log, "gVisor ready: %s\n", bin)
	return bin, nil
}

// build makes the program below out. runsc runs itself again in an empty
// directory, so it must be static: no cgo.
func build(ctx context.Context, tool, src, out string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	for _, d := range []string{src, out} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for p, text := range map[string]string{"go.mod": pinMod, "go.sum": pinSum} {
		if err := os.WriteFile(filepath.Join(src, p), []byte(text), 0o644); err != nil {
			return err
		}
	}
	call := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir = src
		// Flags of the caller (a race detector, a vendor directory, a workspace) are not for this build.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH)
		var stdout, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &errs
		if err := cmd.Run(); err != nil {
			text := strings.TrimSpace(errs.String())
			return "", fmt.Errorf("run go %s: %w: %s", args[0], err, text[max(0, len(text)-1000):])
		}
		return strings.TrimSpace(stdout.String()), nil
	}
	if _, err := call("mod", "download", module); err != nil {
		return err
	}
	modDir, err := call("list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	if err := patched(modDir, filepath.Join(src, "gvisor")); err != nil {
		return err
	}
	// The module was verified against go.sum above; what is built is our copy.
	if _, err := call("mod", "edit", "-replace="+module+"=./gvisor"); err != nil {
		return err
	}
	generator := filepath.Join(src, "gvisor", "runsc", "precompile")
	if err := os.Mkdir(generator, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(generator, "main.go"), []byte(precompile), 0o644); err != nil {
		return err
	}
	if _, err := call("run", "-mod=readonly", "-trimpath", module+"/runsc/precompile", "gvisor"); err != nil {
		return err
	}
	bin := filepath.Join(out, "runsc")
	if _, err := call("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin, module+"/runsc"); err != nil {
		return err
	}
	if err := os.Chmod(bin, 0o755); err != nil {
		return err
	}
	return os.Chmod(out, 0o755)
}

// patched copies the module to dir and patches the copy.
func patched(modDir, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(modDir)); err != nil {
		return fmt.Errorf("copy gVisor: %w", err)
	}
	for _, p := range patches {
		file := filepath.Join(dir, p.file)
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("patch gVisor: %w", err)
		}
		if n := strings.Count(string(raw), p.old); n != 1 {
			return fmt.Errorf("patch gVisor: %s has the text to change %d times; see docs/sandbox.md", p.file, n)
		}
		// The module cache is read-only and so are copies from it.
		if err := os.Chmod(file, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(raw), p.old, p.new, 1)), 0o644); err != nil {
			return err
		}
	}
	return nil
}
