package task

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

var (
	// ErrIndexUnreachable is returned by Fetch when the package index did not
	// hand out what was asked for: no network, no index, no such file there.
	ErrIndexUnreachable = errors.New("package index cannot be reached")
	// ErrPin marks bytes that are not those a recipe pins.
	ErrPin = errors.New("does not match its pin")
)

// fetchTimeout bounds one Fetch; pip itself gives up on a silent index after
// two tries of 15 s.
const fetchTimeout = 120 * time.Second

// Where things stand in the box that fetches. All are mount points of the
// root file system.
const (
	boxTools = "/agon"
	boxWork  = "/work"
)

var boxLinks = []string{"/tests", "/solution"}

//go:embed fetch/fetch.py
var fetchScript []byte

// Fetched returns the complete task that Fetch made of recipe below cacheDir.
// The error wraps fs.ErrNotExist if it is not there, ErrPin if it is not what
// the recipe pins.
func Fetched(recipe *Task, cacheDir string) (*Task, error) {
	dir := fetchedDir(recipe, cacheDir)
	if _, err := os.Lstat(filepath.Join(dir, configFile)); err != nil {
		return nil, fmt.Errorf("open fetched task %s: %w", recipe.Key, err)
	}
	t, err := LoadDir(dir, recipe.Key)
	if err != nil {
		return nil, err
	}
	return t, checkPin(recipe, t)
}

func fetchedDir(recipe *Task, cacheDir string) string {
	return filepath.Join(cacheDir, filepath.FromSlash(recipe.Key))
}

func checkPin(recipe, made *Task) error {
	pin := recipe.Config.Agon.Released.Digest
	if pin != "" && made.Digest != pin {
		return fmt.Errorf("fetched task %s %w: digest %s, want %s", recipe.Key, ErrPin, made.Digest, pin)
	}
	return nil
}

// Fetch makes the complete task of a recipe below cacheDir (Fetched finds it
// there). Its two archives come through the index's own client — pip in a
// throw-away box of driver with network and none of our data, as it may run what
// it downloads; go and npm here, as they do not —, are checked against their
// sums, and are unpacked here without running anything of them. Idempotent; a task
// appears whole or not at all. progress gets lines for a person and may be nil.
//
// Errors wrap ErrIndexUnreachable, ErrPin, ErrInvalid or sandbox.ErrHost.
func Fetch(ctx context.Context, driver sandbox.Driver, rootfs string, recipe *Task, cacheDir string, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	r := recipe.Config.Agon.Released
	if !recipe.Recipe() {
		return fmt.Errorf("fetch task %s: it is complete as it is", recipe.Key)
	}
	if _, err := Fetched(recipe, cacheDir); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	f := fetcher{driver: driver, rootfs: rootfs, sums: filepath.Join(cacheDir, ".sdist"), progress: progress}
	defer f.close()
	base, err := f.archive(ctx, r.Index, r.Package, r.Base, r.BaseSHA256)
	if err != nil {
		return fmt.Errorf("fetch task %s: %w", recipe.Key, err)
	}
	fix, err := f.archive(ctx, r.Index, r.Package, r.Fix, r.FixSHA256)
	if err != nil {
		return fmt.Errorf("fetch task %s: %w", recipe.Key, err)
	}
	made, err := Build(recipe, base, fix)
	if err != nil {
		return fmt.Errorf("make task %s: %w", recipe.Key, err)
	}
	if err := checkPin(recipe, made); err != nil {
		return err
	}
	dir := fetchedDir(recipe, cacheDir)
	// What stands there is not the task, or Fetched had found it.
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("fetch task %s: %w", recipe.Key, err)
	}
	return Materialise(made, dir)
}

// fetcher gets source distributions; its box starts with the first that is not cached.
type fetcher struct {
	driver   sandbox.Driver
	rootfs   string
	sums     string // cache directory, files named by their sum
	progress func(string)

	box  sandbox.Box
	conf pipConf
	tmp  string
}

func (f *fetcher) close() {
	if f.box != nil {
		_ = f.box.Close() // the box holds nothing that we need
	}
	if f.tmp != "" {
		_ = os.RemoveAll(f.tmp)
	}
}

// Source gets published archives.
type Source struct{ f fetcher }

// NewSource returns one that keeps archives below cacheDir. Close it.
func NewSource(driver sandbox.Driver, rootfs, cacheDir string, progress func(string)) *Source {
	return &Source{fetcher{driver: driver, rootfs: rootfs, sums: filepath.Join(cacheDir, ".sdist"), progress: progress}}
}

// Close ends the box that downloads.
func (f *Source) Close() { f.f.close() }

// Archive returns what a package index has of a version, whatever it is: its
// digest is what a recipe pins.
func (f *Source) Archive(ctx context.Context, index, pkg, version string) ([]byte, error) {
	return f.f.archive(ctx, index, pkg, version, anySum)
}

// anySum stands for whatever the index has.
const anySum = "-"

// archive returns the bytes of one published archive, checked against sum.
func (f *fetcher) archive(ctx context.Context, index, pkg, version, sum string) ([]byte, error) {
	if index != "go" && index != "npm" {
		return f.sdist(ctx, pkg, version, sum)
	}
	cached := filepath.Join(f.sums, sum)
	if b, err := readCapped(cached, MaxArchive); err == nil && agon.Sum(b).Hex() == sum {
		return b, nil
	}
	f.progress(fmt.Sprintf("%s %s from %s", pkg, version, Indexes[index].Title))
	tmp, err := os.MkdirTemp("", "agon-fetch-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	get := GoModule
	if index == "npm" {
		get = NpmPackage
	}
	b, err := get(ctx, tmp, pkg, version, MaxArchive)
	if err != nil {
		return nil, err
	}
	return f.keep(b, pkg, version, sum)
}

// keep checks an archive and puts it in the cache.
func (f *fetcher) keep(b []byte, pkg, version, sum string) ([]byte, error) {
	got := agon.Sum(b).Hex()
	if sum != anySum && got != sum {
		return nil, fmt.Errorf("%s %s %w: sha256 %s, want %s", pkg, version, ErrPin, got, sum)
	}
	if err := writeAtomic(filepath.Join(f.sums, got), b); err != nil {
		return nil, fmt.Errorf("cache %s %s: %w", pkg, version, err)
	}
	return b, nil
}

// versions returns what pip says of a package's versions.
func (f *fetcher) versions(ctx context.Context, pkg string) (string, error) {
	if err := f.start(ctx); err != nil {
		return "", err
	}
	var out bytes.Buffer
	exit, err := f.box.Exec(ctx, sandbox.Cmd{Args: []string{"python3", "-m", "pip", "index", "versions", "--disable-pip-version-check", pkg}, Dir: boxWork, Stdout: &out, Stderr: &out})
	if err != nil {
		return "", fmt.Errorf("run pip: %w", err)
	}
	if exit.Code != 0 || exit.Limit != "" || exit.Lost != "" {
		return "", f.pipError(pkg, "", exit, out.String())
	}
	return out.String(), nil
}

// sdist returns the bytes of one source distribution, checked against sum.
func (f *fetcher) sdist(ctx context.Context, pkg, version, sum string) ([]byte, error) {
	cached := filepath.Join(f.sums, sum)
	if b, err := readCapped(cached, MaxArchive); err == nil && agon.Sum(b).Hex() == sum {
		return b, nil
	}
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	f.progress(fmt.Sprintf("%s %s from the package index", pkg, version))
	target := boxWork + "/" + sum
	if sum == anySum {
		target = fmt.Sprintf("%s/any-%x", boxWork, pkg+version)
	}
	var out bytes.Buffer
	exit, err := f.box.Exec(ctx, sandbox.Cmd{
		Args: []string{"python3", boxTools + "/fetch.py", pkg, version, sum, target}, Dir: boxWork, Stdout: &out, Stderr: &out,
	})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: %s %s: no end within %v", ErrIndexUnreachable, pkg, version, fetchTimeout)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("run pip: %w", err)
	}
	if exit.Code != 0 || exit.Limit != "" || exit.Lost != "" {
		return nil, f.pipError(pkg, version, exit, out.String())
	}
	b, err := f.box.ReadFile(target, MaxArchive)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", pkg, version, err)
	}
	// pip has checked this as well, but pip ran where the download did.
	return f.keep(b, pkg, version, sum)
}

// pipError tells tampering and our own failures from an index that does not answer.
func (f *fetcher) pipError(pkg, version string, exit sandbox.Exit, out string) error {
	detail := f.conf.redact(pipSaid(out))
	switch {
	case exit.Lost != "":
		return fmt.Errorf("%w: box ended while pip ran: %s", sandbox.ErrHost, exit.Lost)
	case strings.Contains(out, "DO NOT MATCH THE HASHES"):
		return fmt.Errorf("%s %s %w: the index has other bytes: %s", pkg, version, ErrPin, detail)
	case exit.Limit != "" && exit.Limit != "wall":
		return fmt.Errorf("download %s %s: box limit %s: %s", pkg, version, exit.Limit, detail)
	case strings.Contains(out, "No module named pip"):
		return fmt.Errorf("%w: the boxes' root file system has no pip", sandbox.ErrHost)
	}
	if exit.Limit == "wall" || noAnswer().MatchString(out) {
		return fmt.Errorf("%w: %s %s: %s", ErrIndexUnreachable, pkg, version, detail)
	}
	return fmt.Errorf("pip cannot get %s %s: %s", pkg, version, detail)
}

// noAnswer is what pip says when the index is not there, or not with this file.
var noAnswer = lazyregexp.New(`No matching distribution found|Could not find a version|HTTP error [45]|[45][0-9]{2} (Client|Server) Error|Connection(Reset)?Error|timed out`)

var connectionFault = lazyregexp.New(`Failed to establish a new connection[^'"]*|[^'"]*timed out|certificate verify failed[^'"(]*|Connection refused|Tunnel connection failed[^'"]*`)

// pipSaid picks the reason out of pip's output: why the connection failed and
// its last error, or the end of the output if there is neither.
func pipSaid(out string) string {
	said := connectionFault().FindString(out)
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "ERROR: "); ok {
			if said != "" {
				said += "; "
			}
			said += text
			break
		}
	}
	if said == "" {
		said = out
	}
	return tail(said, 300)
}

// start makes the box on first use.
func (f *fetcher) start(ctx context.Context) error {
	if f.box != nil {
		return nil
	}
	tmp, err := tempdir.Make("fetch")
	if err != nil {
		return fmt.Errorf("start box for pip: %w", err)
	}
	f.tmp = tmp
	f.conf = hostPip(os.Environ(), func(p string) ([]byte, error) { return readCapped(p, maxPipFile) }, boxTools, func(i int) string { return boxLinks[i] })
	f.conf.files["fetch.py"] = fetchScript
	for name, b := range f.conf.files {
		if err := os.WriteFile(filepath.Join(tmp, name), b, 0o644); err != nil {
			return fmt.Errorf("start box for pip: %w", err)
		}
	}
	// The box's user is another than ours.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("start box for pip: %w", err)
	}
	spec := sandbox.Spec{
		Name: "fetch", Rootfs: f.rootfs, Network: true, Env: append(f.conf.env, "LANG=C.UTF-8"),
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountReadOnly, Source: tmp, Target: boxTools},
			{Kind: sandbox.MountScratch, Target: boxWork},
			{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: 64 << 20},
		},
		Limits: agon.Limits{
			WallMS: fetchTimeout.Milliseconds(), MemoryBytes: 512 << 20, Pids: 64,
			DiskBytes: 256 << 20, Inodes: 20_000, OutputBytes: 1 << 20,
		},
	}
	for i, dir := range f.conf.links {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: dir, Target: boxLinks[i]})
	}
	box, err := f.driver.Start(ctx, spec)
	if err != nil {
		return fmt.Errorf("start box for pip: %w", err)
	}
	f.box = box
	return nil
}

// readCapped reads a file of this host of at most limit bytes.
func readCapped(p string, limit int64) ([]byte, error) {
	st, err := os.Stat(p)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	return readLimited(os.DirFS(filepath.Dir(p)), filepath.Base(p), limit)
}

// writeAtomic writes a file that appears whole or not at all.
func writeAtomic(p string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(p), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(b)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), p)
}

// tail is the end of text on one line, at most n bytes, printable.
func tail(text string, n int) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, text)), " ")
	if len(text) > n {
		text = "…" + strings.ToValidUTF8(text[len(text)-n:], "")
	}
	return text
}
