// Package rootfs makes the root file systems of boxes: a small Debian or Ubuntu
// tree built by mmdebstrap, or a flattened OCI image where that is not possible.
//
// A finished tree is never changed: its directory name carries the hash of the
// recipe it was built from, it appears by one rename, and boxes mount it read-only.
package rootfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"

	"github.com/agon-arena/agon/sandbox/internal/entry"
	trees "github.com/agon-arena/agon/sandbox/internal/tree"
)

// ErrUnsupported says that no tree can be built on this machine; its text carries the mend.
var ErrUnsupported = errors.New("cannot build a root file system here")

// Packages are what the default tree holds beyond a minimal base system.
// docs/sandbox.md lists what Python code may import.
var Packages = []string{
	"ca-certificates", "diffutils", "git", "patch", "python3", "python3-pip",
	"python3-pytest", "python3-requests", "python3-setuptools", "python3-wheel",
}

// recipeVersion changes whenever finish (below) changes what it does to a tree.
const recipeVersion = 1

// marker is the file in a tree that says how it was made.
const marker = "etc/agon-rootfs.json"

// systemDir is root's cache.
const systemDir = "/var/cache/agon/rootfs"

// Config says where and of what a tree is made.
type Config struct {
	// Dir holds finished trees, one sub-directory per recipe. Empty means DefaultDir().
	Dir string
	// Image, if set, is what Images.Import takes; it is used instead of building with mmdebstrap.
	Image string
	// Log receives progress, one line at a time; nil discards it.
	Log io.Writer
}

// DefaultDir is where trees are cached: $AGON_CACHE/rootfs, else /var/cache/agon/rootfs
// for root and the user's cache directory for others.
func DefaultDir() string {
	if d := os.Getenv("AGON_CACHE"); d != "" {
		return filepath.Join(d, "rootfs")
	}
	if os.Geteuid() == 0 {
		return systemDir
	}
	d, err := os.UserCacheDir()
	if err != nil {
		d = filepath.Join(os.TempDir(), fmt.Sprintf("agon-cache-%d", os.Geteuid()))
	}
	return filepath.Join(d, "agon", "rootfs")
}

// recipe is everything that decides what a tree holds.
type recipe struct {
	Version  int      `json:"version"`
	Distro   string   `json:"distro,omitempty"`
	Suite    string   `json:"suite,omitempty"`
	Arch     string   `json:"arch"`
	Packages []string `json:"packages,omitempty"`
	Image    string   `json:"image,omitempty"`
}

func (r recipe) name() string {
	b, _ := json.Marshal(r) // plain strings and ints cannot fail
	h := sha256.Sum256(b)
	base := r.Distro + "-" + r.Suite
	if r.Image != "" {
		base = "image"
	}
	return base + "-" + hex.EncodeToString(h[:6])
}

// Ensure returns the directory of a finished tree, building it first if it is
// not cached (15 to 60 s). Processes that ask at once build it once. On error
// nothing half-made is left under a name that Ensure would return.
func Ensure(ctx context.Context, c Config) (string, error) {
	if c.Dir == "" {
		c.Dir = DefaultDir()
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	r := recipe{Version: recipeVersion, Arch: runtime.GOARCH}
	if c.Image != "" {
		images := OpenImages(filepath.Join(filepath.Dir(c.Dir), "images"), c.Log)
		img, err := images.Ensure(ctx, c.Image)
		if err != nil {
			return "", err
		}
		return images.Open(ctx, img)
	}
	id, codename := hostRelease("/etc/os-release")
	if id != "debian" && id != "ubuntu" || codename == "" {
		return "", fmt.Errorf("%w: this is not Debian or Ubuntu; name an OCI image with python3, git and patch (AGON_ROOTFS_IMAGE)", ErrUnsupported)
	}
	r.Distro, r.Suite, r.Packages = id, codename, Packages
	dir := filepath.Join(c.Dir, r.name())
	// A tree that root built serves everybody.
	for _, d := range []string{dir, filepath.Join(systemDir, r.name())} {
		if ready(d) {
			return d, nil
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return "", fmt.Errorf("make cache directory: %w", err)
	}
	unlock, err := entry.Lock(ctx, filepath.Join(c.Dir, ".lock"), "the root file system")
	if err != nil {
		return "", err
	}
	defer unlock()
	if ready(dir) { // another process built it while we waited
		return dir, nil
	}
	if err := sweepTemp(c.Dir); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(c.Dir, ".new-")
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	defer func() { _ = removeAll(tmp) }()
	if err := os.Chmod(tmp, 0o711); err != nil { // apt drops to its own user below
		return "", err
	}
	tree := filepath.Join(tmp, "root")
	if err := debian(ctx, r, tree, c.Log); err != nil {
		return "", err
	}
	if err := finish(tree, r); err != nil {
		return "", fmt.Errorf("finish root file system: %w", err)
	}
	if err := os.Rename(tree, dir); err != nil {
		return "", fmt.Errorf("publish root file system: %w", err)
	}
	fmt.Fprintf(c.Log, "root file system ready: %s\n", dir)
	return dir, nil
}

func ready(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, marker))
	return err == nil
}

// sweepTemp removes what a killed build left. The caller holds the lock.
func sweepTemp(dir string) error {
	ents, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read cache directory: %w", err)
	}
	for _, e := range ents {
		if strings.HasPrefix(e.Name(), ".new-") {
			if err := removeAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("remove abandoned build: %w", err)
			}
		}
	}
	return nil
}

// removeAll stops at a mount: a build that was killed may have left some.
func removeAll(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return trees.Remove(dir)
}

// debian builds the tree with mmdebstrap from the host's own package sources.
func debian(ctx context.Context, r recipe, tree string, log io.Writer) error {
	bin, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return fmt.Errorf("%w: mmdebstrap is missing; install it with: apt-get install mmdebstrap", ErrUnsupported)
	}
	sources := sourcesOf(r)
	if len(sources) == 0 {
		return fmt.Errorf("%w: apt has no package source for %s %s; add one, or name an OCI image (AGON_ROOTFS_IMAGE)", ErrUnsupported, r.Distro, r.Suite)
	}
	args := []string{
		"--variant=minbase", "--include=" + strings.Join(r.Packages, ","),
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/info/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--aptopt=APT::Install-Recommends \"false\"",
	}
	for _, o := range hostAptOptions(ctx) {
		args = append(args, "--aptopt="+o)
	}
	// As root the tree is written directly. Others cannot own its files, so
	// they take the archive and unpack it under their own uid.
	asRoot := os.Geteuid() == 0
	target := "-"
	if asRoot {
		args, target = append(args, "--mode=root", "--format=directory"), tree
	} else {
		args = append(args, "--format=tar")
	}
	args = append(args, r.Suite, target, "-")
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	var tail tailBuffer
	cmd.Stderr = io.MultiWriter(log, &tail)
	fmt.Fprintf(log, "building root file system (%s %s, %d packages and what they need)\n", r.Distro, r.Suite, len(r.Packages))
	if asRoot {
		cmd.Stdout = log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run mmdebstrap: %w: %s", err, tail.String())
		}
		return os.Chmod(tree, 0o755)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start mmdebstrap: %w", err)
	}
	unpackErr := os.Mkdir(tree, 0o755)
	if unpackErr == nil {
		var root *os.Root
		if root, unpackErr = os.OpenRoot(tree); unpackErr == nil {
			unpackErr = unpack(root, out, newBudget(), nil)
			_ = root.Close()
		}
	}
	_, _ = io.Copy(io.Discard, out) // let mmdebstrap end by itself
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("run mmdebstrap: %w: %s", err, tail.String())
	}
	return unpackErr
}

// sourcesOf are the host's package sources for a recipe's suite, which may be
// another than the host's.
func sourcesOf(r recipe) []string {
	if lines := hostSources("/etc/apt", r.Suite); len(lines) > 0 {
		return lines
	}
	list, err := Sources(r.Distro, r.Suite)
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range list {
		for _, suite := range s.Suites {
			out = append(out, "deb "+s.URI+" "+suite+" main")
		}
	}
	return out
}

// finish makes a tree neutral and ready to be mounted read-only.
func finish(tree string, r recipe) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, p := range []string{
		"var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man",
		"usr/share/info", "usr/share/locale", "etc/resolv.conf", "etc/hosts", "etc/hostname", "etc/machine-id",
		"etc/apt/sources.list", "etc/apt/sources.list.d",
	} {
		if err := root.RemoveAll(p); err != nil {
			return fmt.Errorf("remove %s: %w", p, err)
		}
	}
	// Mount points. Boxes mount over them; the tree itself stays empty there.
	for _, p := range []string{
		"agon", "dev", "dev/shm", "etc", "proc", "repo", "run", "sandbox", "solution", "sys", "tests", "tmp", "var/log", "var/tmp", "work",
	} {
		if err := root.MkdirAll(p, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", p, err)
		}
	}
	for p, mode := range map[string]fs.FileMode{"tmp": 0o777 | fs.ModeSticky, "var/tmp": 0o755, "root": 0o755} {
		if err := root.Chmod(p, mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for p, text := range map[string]string{
		"etc/hosts":       "127.0.0.1 localhost\n::1 localhost\n",
		"etc/resolv.conf": "nameserver 127.0.0.1\n",
		"etc/hostname":    "box\n",
		// Repositories in a box belong to other uids than the reader's now and then.
		"etc/gitconfig": "[safe]\n\tdirectory = *\n[user]\n\tname = agent\n\temail = agent@box.invalid\n[init]\n\tdefaultBranch = main\n",
	} {
		if err := root.WriteFile(p, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", p, err)
		}
	}
	if err := addUser(root); err != nil {
		return err
	}
	if _, err := root.Lstat("usr/bin/python"); errors.Is(err, fs.ErrNotExist) {
		if _, err := root.Lstat("usr/bin/python3"); err == nil {
			if err := root.Symlink("python3", "usr/bin/python"); err != nil {
				return err
			}
		}
	}
	if err := dropSetuid(root); err != nil {
		return err
	}
	b, _ := json.MarshalIndent(r, "", "  ")
	return root.WriteFile(marker, append(b, '\n'), 0o644)
}

// addUser gives uid 1000 a name, so that tools that ask for one get an answer.
func addUser(root *os.Root) error {
	for p, line := range map[string]string{
		"etc/passwd": "agent:x:1000:1000:agent:/tmp:/bin/sh",
		"etc/group":  "agent:x:1000:",
	} {
		b, err := root.ReadFile(p)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		var keep []string
		for l := range strings.Lines(string(b)) {
			l = strings.TrimRight(l, "\n")
			f := strings.Split(l, ":")
			if l == "" || len(f) > 2 && (f[2] == "1000" || f[0] == "agent") {
				continue
			}
			keep = append(keep, l)
		}
		keep = append(keep, line)
		if err := root.WriteFile(p, []byte(strings.Join(keep, "\n")+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// dropSetuid clears every setuid and setgid bit and removes what is neither
// directory, file nor link.
func dropSetuid(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		t := d.Type()
		if t&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeIrregular) != 0 {
			return root.Remove(p)
		}
		if t&fs.ModeSymlink != 0 {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			return root.Chmod(p, fi.Mode()&(fs.ModePerm|fs.ModeSticky))
		}
		return nil
	})
}

// hostRelease reads ID and VERSION_CODENAME.
func hostRelease(path string) (id, codename string) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	return releaseOf(b)
}

func releaseOf(b []byte) (id, codename string) {
	for l := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), "=")
		v = strings.Trim(v, `"'`)
		switch k {
		case "ID":
			id = v
		case "VERSION_CODENAME":
			codename = v
		}
	}
	return id, codename
}

// hostSources returns the host's package sources for the suite and its updates
// as one-line entries. Foreign archives (other suites, no "main") are left out.
func hostSources(dir, suite string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "sources.list.d", "*"))
	files = append([]string{filepath.Join(dir, "sources.list")}, files...)
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		switch filepath.Ext(f) {
		case ".list":
			out = append(out, oneLine(string(b), suite)...)
		case ".sources":
			out = append(out, deb822(string(b), suite)...)
		}
	}
	sort.Strings(out)
	return out
}

func wanted(s, suite string) bool {
	return s == suite || s == suite+"-updates" || s == suite+"-security"
}

func oneLine(text, suite string) (out []string) {
	for l := range strings.Lines(text) {
		f := strings.Fields(l)
		if len(f) < 4 || f[0] != "deb" {
			continue
		}
		rest := f[1:]
		if strings.HasPrefix(rest[0], "[") {
			for len(rest) > 0 && !strings.HasSuffix(rest[0], "]") {
				rest = rest[1:]
			}
			if len(rest) < 4 {
				continue
			}
			rest = rest[1:]
		}
		if len(rest) >= 3 && wanted(rest[1], suite) && contains(rest[2:], "main") {
			out = append(out, strings.TrimSpace(l))
		}
	}
	return out
}

func deb822(text, suite string) (out []string) {
	for stanza := range strings.SplitSeq(text, "\n\n") {
		field := map[string]string{}
		key := ""
		for l := range strings.Lines(stanza) {
			l = strings.TrimRight(l, "\n")
			if strings.HasPrefix(l, "#") || strings.TrimSpace(l) == "" {
				continue
			}
			if l[0] == ' ' || l[0] == '\t' {
				field[key] += "\n" + strings.TrimSpace(l)
				continue
			}
			k, v, ok := strings.Cut(l, ":")
			if !ok {
				continue
			}
			key = strings.ToLower(strings.TrimSpace(k))
			field[key] = strings.TrimSpace(v)
		}
		comps := strings.Fields(field["components"])
		if !contains(strings.Fields(field["types"]), "deb") || strings.EqualFold(field["enabled"], "no") || !contains(comps, "main") {
			continue
		}
		opt := ""
		if k := field["signed-by"]; strings.HasPrefix(k, "/") {
			opt = "[signed-by=" + k + "] "
		}
		for _, uri := range strings.Fields(field["uris"]) {
			for _, s := range strings.Fields(field["suites"]) {
				if wanted(s, suite) {
					out = append(out, "deb "+opt+uri+" "+s+" "+strings.Join(comps, " "))
				}
			}
		}
	}
	return out
}

func contains(s []string, x string) bool {
	for _, v := range s {
		if v == x {
			return true
		}
	}
	return false
}

// hostAptOptions copies the host's proxy and date settings, without which its
// mirror may not be reachable. mmdebstrap itself reads no host configuration.
func hostAptOptions(ctx context.Context) (out []string) {
	b, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil
	}
	for l := range bytes.Lines(b) {
		s := strings.TrimSuffix(strings.TrimSpace(string(l)), ";")
		k, v, ok := strings.Cut(s, " ")
		if !ok || v == `""` {
			continue
		}
		lk := strings.ToLower(k)
		if strings.HasPrefix(lk, "acquire::http::") || strings.HasPrefix(lk, "acquire::https::") ||
			lk == "acquire::check-valid-until" || lk == "acquire::check-date" {
			out = append(out, k+" "+v)
		}
	}
	return out
}

// tailBuffer keeps the last 2 KiB written to it, for error texts.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - 2048; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string { return strings.TrimSpace(string(t.b)) }
