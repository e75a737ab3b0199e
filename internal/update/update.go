// Package update keeps a program running at the newest release that its publisher
// has signed, and goes back to the one before where a new one does not stay up.
package update

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/mod/semver"

	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Bounds of what a place of releases may answer.
const (
	maxSums    = 64 << 10
	maxArchive = 512 << 20
	maxBinary  = 1 << 30
	fetchTime  = 10 * time.Minute
	probeTime  = time.Minute
)

// Config is what is kept running. From, Keys, Dir, Own and Version are needed.
type Config struct {
	From    string          // where SHA256SUMS, its signature and archives lie: a folder or an http(s) address
	Keys    []ssh.PublicKey // any of which has signed
	Dir     string          // holds versions, and which is in force
	Own     string          // the program as long as Dir has none
	Version string          // Own's
	Pin     string          // the only version that is taken, older ones too; "" the newest
	Args    []string        // of the program
	Every   time.Duration   // between looks at From; 0: 5 minutes
	Settle  time.Duration   // for which a new version must stay up; 0: 1 minute
	Grace   time.Duration   // that a program has to end in before it is killed; 0: 2 minutes
	Stdout  io.Writer
	Stderr  io.Writer
	Say     func(format string, args ...any)
	// After is time.After, for tests.
	After func(time.Duration) <-chan time.Time
}

// Version is one release that stands on this machine.
type Version struct {
	Version string `json:"version"`
	Sum     string `json:"sha256"` // of its archive; "" the program that began
	Path    string `json:"path"`
}

// State is what a keeper must not forget.
type State struct {
	Current  Version  `json:"current"`
	Previous *Version `json:"previous,omitempty"`
	Trial    bool     `json:"trial,omitempty"` // Current has not stayed up for long enough yet
	// Bad are releases that did not stay up, by the sum of their archive. They are never tried again.
	Bad map[string]string `json:"bad,omitempty"`
}

// Keeper keeps one program running.
type Keeper struct {
	cfg   Config
	state State
	dir   folder.Folder
	http  *http.Client
}

// EndedError says that the program ended by itself; Code is what it ended with.
type EndedError struct{ Code int }

func (e *EndedError) Error() string { return fmt.Sprintf("the program ended with %d", e.Code) }

// New reads what an earlier keeper left in c.Dir.
func New(c Config) (*Keeper, error) {
	if c.From == "" || len(c.Keys) == 0 || c.Dir == "" || c.Own == "" || !semver.IsValid("v"+c.Version) {
		return nil, errors.New("update: from, keys, dir, own and version are needed")
	}
	if c.Pin != "" && !semver.IsValid("v"+c.Pin) {
		return nil, fmt.Errorf("update: %.40q is not a version", c.Pin)
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Every, 5*time.Minute)
	def(&c.Settle, time.Minute)
	def(&c.Grace, 2*time.Minute)
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	if c.After == nil {
		c.After = time.After
	}
	k := &Keeper{cfg: c, dir: folder.Folder(c.Dir), http: &http.Client{Timeout: fetchTime}, state: State{Current: Version{Version: c.Version, Path: c.Own}}}
	var s State
	ok, err := k.dir.Get("state", &s)
	if err != nil {
		return nil, err
	}
	if ok {
		if _, err := os.Stat(s.Current.Path); err == nil {
			k.state = s
		} else if s.Previous != nil {
			if _, err := os.Stat(s.Previous.Path); err == nil {
				k.state = State{Current: *s.Previous, Bad: s.Bad}
			}
		}
	}
	// Who installed a newer program than the keeper took means that one.
	if c.Pin == "" && semver.Compare("v"+c.Version, "v"+k.state.Current.Version) > 0 {
		k.state = State{Current: Version{Version: c.Version, Path: c.Own}, Bad: k.state.Bad}
	}
	return k, nil
}

// State is what is in force.
func (k *Keeper) State() State { return k.state }

// process is a program that runs.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

func (k *Keeper) start() (*process, error) {
	cmd := exec.Command(k.state.Current.Path, k.cfg.Args...)
	cmd.Stdout, cmd.Stderr = k.cfg.Stdout, k.cfg.Stderr
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", k.state.Current.Path, err)
	}
	p := &process{cmd, make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p, nil
}

// stop asks a program to end, and ends it where it does not.
func (k *Keeper) stop(p *process) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	select {
	case <-p.done: //nolint:errcheck // it was asked to end: how does not matter
	case <-k.cfg.After(k.cfg.Grace):
		k.cfg.Say("the program does not end within %s: it is killed", k.cfg.Grace)
		_ = p.cmd.Process.Kill()
		<-p.done //nolint:errcheck // as above
	}
}

// Run keeps the program running until ctx ends or it ends by itself (*EndedError).
func (k *Keeper) Run(ctx context.Context) error {
	for {
		p, err := k.start()
		if err != nil {
			if k.state.Trial {
				if err := k.back(err.Error()); err != nil {
					return err
				}
				continue
			}
			return err
		}
		k.cfg.Say("version %s runs", k.state.Current.Version)
		if err := k.watch(ctx, p); err != nil {
			return err
		}
	}
}

// watch waits until another version is in force; nil: it is.
func (k *Keeper) watch(ctx context.Context, p *process) error {
	look := k.cfg.After(0)
	var settle <-chan time.Time
	if k.state.Trial {
		settle, look = k.cfg.After(k.cfg.Settle), nil
	}
	for {
		select {
		case <-ctx.Done():
			k.stop(p)
			return ctx.Err()
		case err := <-p.done:
			code := p.cmd.ProcessState.ExitCode()
			if k.state.Trial {
				return k.back(fmt.Sprintf("it ended with %d before %s had passed", code, k.cfg.Settle))
			}
			if err == nil || code > 0 {
				return &EndedError{code}
			}
			return fmt.Errorf("the program: %w", err)
		case <-settle:
			settle, look, k.state.Trial = nil, k.cfg.After(k.cfg.Every), false
			if err := k.save(); err != nil {
				k.cfg.Say("keeping that version %s stays: %v", k.state.Current.Version, err)
			}
			k.cfg.Say("version %s has stayed up for %s", k.state.Current.Version, k.cfg.Settle)
		case <-look:
			look = k.cfg.After(k.cfg.Every)
			next, err := k.Look(ctx)
			if err != nil {
				k.cfg.Say("looking for a release: %v", err)
			}
			if next == nil || err != nil {
				continue
			}
			k.cfg.Say("version %s is there: %s ends", next.Version, k.state.Current.Version)
			k.stop(p)
			old := k.state.Current
			k.state.Previous, k.state.Current, k.state.Trial = &old, *next, true
			return k.save()
		}
	}
}

// back puts the version before in force, and never tries the present one again.
func (k *Keeper) back(why string) error {
	bad := k.state.Current
	k.cfg.Say("version %s is given up: %s; %s is back", bad.Version, why, k.state.Previous.Version)
	if k.state.Bad == nil {
		k.state.Bad = map[string]string{}
	}
	k.state.Bad[bad.Sum] = why
	k.state.Current, k.state.Previous, k.state.Trial = *k.state.Previous, nil, false
	return k.save()
}

func (k *Keeper) save() error { return k.dir.Put("state", k.state) }

// archive is a line of SHA256SUMS that names this machine's archive.
var archive = lazyregexp.New(`^([0-9a-f]{64}) [ *](agon_([0-9][0-9A-Za-z.+-]*)_` + runtime.GOOS + `_` + runtime.GOARCH + `\.tar\.gz)$`)

// Look asks for a release that is to be taken: signed, newer than what runs (or the
// pinned one), and not known to be bad. It lies on this machine and has told its
// version when Look returns it; nil: there is none.
func (k *Keeper) Look(ctx context.Context) (*Version, error) {
	sums, err := k.read(ctx, "SHA256SUMS", maxSums)
	if err != nil {
		return nil, err
	}
	sig, err := k.read(ctx, "SHA256SUMS.sig", maxSums)
	if err != nil {
		return nil, err
	}
	if err := Verify(k.cfg.Keys, sums, sig); err != nil {
		return nil, err
	}
	var sum, name, version string
	for line := range strings.Lines(string(sums)) {
		if m := archive().FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil && semver.IsValid("v"+m[3]) {
			if sum != "" {
				return nil, errors.New("SHA256SUMS names two archives for this machine")
			}
			sum, name, version = m[1], m[2], m[3]
		}
	}
	cur := k.state.Current
	switch newer := semver.Compare("v"+version, "v"+cur.Version); {
	case sum == "":
		return nil, fmt.Errorf("SHA256SUMS names no archive for %s/%s", runtime.GOOS, runtime.GOARCH)
	case sum == cur.Sum || k.state.Bad[sum] != "":
		return nil, nil
	case k.cfg.Pin != "" && version != k.cfg.Pin, newer == 0:
		return nil, nil
	case newer < 0 && k.cfg.Pin == "":
		return nil, fmt.Errorf("the release there is %s, older than %s, which runs: it is not taken", version, cur.Version)
	}
	v := &Version{Version: version, Sum: sum, Path: filepath.Join(k.cfg.Dir, sum[:16], "agon")}
	if err := k.fetch(ctx, name, v); err != nil {
		return nil, err
	}
	return v, k.probe(ctx, v)
}

// read reads a small file of the place.
func (k *Keeper) read(ctx context.Context, name string, most int64) ([]byte, error) {
	r, err := k.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read to its end or given up
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("read %s: more than %d bytes", name, most)
	}
	return b, nil
}

func (k *Keeper) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if !strings.HasPrefix(k.cfg.From, "http://") && !strings.HasPrefix(k.cfg.From, "https://") {
		f, err := os.Open(filepath.Join(k.cfg.From, name))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		return f, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(k.cfg.From, "/")+"/"+name, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	resp, err := k.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close() // nothing is read of it
		return nil, fmt.Errorf("read %s: status %d", name, resp.StatusCode)
	}
	return resp.Body, nil
}

// fetch puts the program of an archive at v.Path, after the archive's sum is checked.
func (k *Keeper) fetch(ctx context.Context, name string, v *Version) (err error) {
	dir := filepath.Dir(v.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	t, err := os.CreateTemp(k.cfg.Dir, ".archive-*")
	if err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, t.Close(), os.Remove(t.Name())) }()
	r, err := k.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // read to its end or given up
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(t, h), io.LimitReader(r, maxArchive+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	case n > maxArchive:
		return fmt.Errorf("read %s: more than %d bytes", name, maxArchive)
	case hex.EncodeToString(h.Sum(nil)) != v.Sum:
		return fmt.Errorf("%s is not the file whose sum was signed", name)
	}
	if _, err := t.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return unpack(t, strings.TrimSuffix(name, ".tar.gz")+"/agon", v.Path)
}

// unpack writes one member of a tar.gz to a file that may be run: whole or not there.
func unpack(r io.Reader, member, to string) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("open the archive: %w", err)
	}
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive has no %s", member)
		}
		if err != nil {
			return fmt.Errorf("open the archive: %w", err)
		}
		if path.Clean(h.Name) != member || h.Typeflag != tar.TypeReg || h.Size > maxBinary {
			continue
		}
		f, err := os.CreateTemp(filepath.Dir(to), ".new-*")
		if err != nil {
			return fmt.Errorf("write the program: %w", err)
		}
		_, err = io.CopyN(f, tr, h.Size)
		if err = errors.Join(err, f.Chmod(0o755), f.Sync(), f.Close()); err == nil {
			err = os.Rename(f.Name(), to)
		}
		if err != nil {
			return fmt.Errorf("write the program: %w", errors.Join(err, os.Remove(f.Name())))
		}
		return nil
	}
}

// probe asks a program for its version before anything is stopped for it.
func (k *Keeper) probe(ctx context.Context, v *Version) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, v.Path, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil && !bytes.Contains(out, []byte(v.Version)) {
		err = fmt.Errorf("it says %.100q", out)
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("version %s does not run here: %w", v.Version, err)
	if ctx.Err() != nil || errors.Is(err, syscall.ETXTBSY) {
		return err // the next look tries it again
	}
	if k.state.Bad == nil {
		k.state.Bad = map[string]string{}
	}
	k.state.Bad[v.Sum] = "it does not tell its version"
	return errors.Join(err, k.save())
}
