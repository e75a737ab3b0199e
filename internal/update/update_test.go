package update

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// publisher signs releases and serves them.
type publisher struct {
	t      *testing.T
	signer ssh.Signer
	mu     sync.Mutex        // guards what a server reads of files
	files  map[string][]byte // changed by the test alone
	url    string
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{t: t, signer: signer(t), files: map[string][]byte{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		b, ok := p.files[strings.TrimPrefix(r.URL.Path, "/")]
		p.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func signer(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sign is ssh-keygen -Y sign.
func sign(t *testing.T, by ssh.Signer, namespace string, file []byte) []byte {
	t.Helper()
	sum := sha512.Sum512(file)
	sig, err := by.Sign(nil, append([]byte("SSHSIG"), ssh.Marshal(struct{ Namespace, Reserved, Hash, Sum string }{namespace, "", "sha512", string(sum[:])})...))
	if err != nil {
		t.Fatal(err)
	}
	b := append([]byte("SSHSIG"), ssh.Marshal(sealed{1, by.PublicKey().Marshal(), namespace, "", "sha512", ssh.Marshal(sig)})...)
	return pem.EncodeToMemory(&pem.Block{Type: "SSH SIGNATURE", Bytes: b})
}

// program is one that tells its version, says that it runs, and does what its last line says.
func program(version, does string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" = version ] && { echo %s; exit 0; }\necho runs %s \"$1\"\n%s\n", version, version, does)
}

const stays = "exec sleep 1000"

func packed(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(b)), Mode: 0o755})
	_, werr := w.Write(b)
	if err := errors.Join(err, werr, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func stem(version string) string {
	return fmt.Sprintf("agon_%s_%s_%s", version, runtime.GOOS, runtime.GOARCH)
}

// publish puts a release of a program in the place of what was there.
func (p *publisher) publish(version string, b []byte) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.files)
	name := stem(version) + ".tar.gz"
	p.files[name] = packed(p.t, stem(version)+"/agon", b)
	p.sums(name)
}

func (p *publisher) sums(names ...string) {
	p.t.Helper()
	var sums []byte
	for _, n := range names {
		sum := sha256.Sum256(p.files[n])
		sums = fmt.Appendf(sums, "%s  %s\n", hex.EncodeToString(sum[:]), n)
	}
	p.files["SHA256SUMS"], p.files["SHA256SUMS.sig"] = sums, sign(p.t, p.signer, Namespace, sums)
}

// clock gives a test the moments that a keeper waits for.
type clock struct{ look, settle chan time.Time }

func (c *clock) after(d time.Duration) <-chan time.Time {
	switch d {
	case 0, time.Hour:
		return c.look
	case 2 * time.Hour:
		return c.settle
	}
	return nil // the grace of a stop: never here
}

func (p *publisher) config(t *testing.T, own []byte) (Config, *clock) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "own")
	if err := os.WriteFile(path, own, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &clock{make(chan time.Time), make(chan time.Time)}
	return Config{
		From: p.url, Keys: []ssh.PublicKey{p.signer.PublicKey()}, Dir: filepath.Join(dir, "versions"), Own: path, Version: "1.0.0", Args: []string{"serve"},
		Every: time.Hour, Settle: 2 * time.Hour, After: c.after,
	}, c
}

// running is a keeper at work, whose program's lines a test reads.
type running struct {
	t      *testing.T
	k      *Keeper
	lines  *bufio.Scanner
	cancel context.CancelFunc
	ended  chan error
}

func run(t *testing.T, c Config) *running {
	t.Helper()
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, t.Output()
	c.Say = func(format string, args ...any) { fmt.Fprintf(t.Output(), format+"\n", args...) }
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	x := &running{t, k, bufio.NewScanner(r), cancel, make(chan error, 1)}
	go func() { x.ended <- k.Run(ctx); _ = w.Close() }()
	return x
}

func (x *running) says(want string) {
	x.t.Helper()
	if !x.lines.Scan() || x.lines.Text() != want {
		x.t.Fatalf("the program says %q, want %q", x.lines.Text(), want)
	}
}

func (x *running) stop() error {
	x.cancel()
	return <-x.ended
}

// A release that is signed is taken; one that does not stay up is given up for the one
// before, and is not tried again; a later one is. A new keeper goes on with it.
func TestUpdateAndBack(t *testing.T) {
	p := newPublisher(t)
	p.publish("1.0.0", program("1.0.0", stays))
	c, at := p.config(t, program("1.0.0", stays))
	x := run(t, c)
	x.says("runs 1.0.0 serve")
	p.publish("1.1.0", program("1.1.0", stays))
	at.look <- time.Time{}
	x.says("runs 1.1.0 serve")
	at.settle <- time.Time{}
	p.publish("1.2.0", program("1.2.0", "exit 3"))
	at.look <- time.Time{}
	x.says("runs 1.2.0 serve")
	x.says("runs 1.1.0 serve")
	if err := x.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	s := x.k.State()
	if s.Current.Version != "1.1.0" || s.Trial || len(s.Bad) != 1 {
		t.Fatalf("%+v", s)
	}
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := k.Look(t.Context()); v != nil || err != nil {
		t.Errorf("a bad release is taken again: %+v %v", v, err)
	}
	p.publish("1.3.0", program("1.3.0", stays))
	if v, err := k.Look(t.Context()); err != nil || v.Version != "1.3.0" {
		t.Errorf("%+v %v", v, err)
	}
	y := run(t, c)
	y.says("runs 1.1.0 serve")
	if err := y.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	// A newer program that somebody installed by hand is meant.
	c.Version = "2.0.0"
	if k, err = New(c); err != nil || k.State().Current.Path != c.Own {
		t.Errorf("%+v %v", k.State(), err)
	}
}

// A keeper that is ended while a new version is on trial goes on with the trial.
func TestTrialOutlivesKeeper(t *testing.T) {
	p := newPublisher(t)
	c, at := p.config(t, program("1.0.0", stays))
	p.publish("1.1.0", program("1.1.0", `[ -e "`+c.Dir+`/broken" ] && exit 7`+"\n"+stays))
	x := run(t, c)
	x.says("runs 1.0.0 serve")
	at.look <- time.Time{}
	x.says("runs 1.1.0 serve")
	_ = x.stop()
	if err := os.WriteFile(filepath.Join(c.Dir, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	y := run(t, c)
	y.says("runs 1.1.0 serve")
	y.says("runs 1.0.0 serve")
	_ = y.stop()
	if s := y.k.State(); s.Current.Path != c.Own || len(s.Bad) != 1 {
		t.Errorf("%+v", s)
	}
}

// A program that ends by itself ends its keeper, with its code.
func TestEnds(t *testing.T) {
	p := newPublisher(t)
	c, _ := p.config(t, program("1.0.0", "exit 5"))
	x := run(t, c)
	x.says("runs 1.0.0 serve")
	var ended *EndedError
	if err := <-x.ended; !errors.As(err, &ended) || ended.Code != 5 {
		t.Errorf("%v", err)
	}
}

// What is not signed, not what was signed, older, or does not run here, is not taken.
func TestRefused(t *testing.T) {
	good := program("1.1.0", stays)
	for name, c := range map[string]struct {
		spoil func(p *publisher)
		want  string // of the error; "" none: nothing new
	}{
		"another key": {func(p *publisher) {
			p.files["SHA256SUMS.sig"] = sign(p.t, signer(p.t), Namespace, p.files["SHA256SUMS"])
		}, "by none of the release keys"},
		"for something else": {func(p *publisher) { p.files["SHA256SUMS.sig"] = sign(p.t, p.signer, "git", p.files["SHA256SUMS"]) }, "not for agon-release"},
		"changed sums":       {func(p *publisher) { p.files["SHA256SUMS"] = append(p.files["SHA256SUMS"], '\n') }, "does not hold"},
		"no signature":       {func(p *publisher) { delete(p.files, "SHA256SUMS.sig") }, "status 404"},
		"not a signature":    {func(p *publisher) { p.files["SHA256SUMS.sig"] = []byte("hello") }, "not one of ssh-keygen"},
		"changed archive": {func(p *publisher) {
			p.files[stem("1.1.0")+".tar.gz"] = packed(p.t, stem("1.1.0")+"/agon", program("1.1.0", "exit 1"))
		}, "not the file whose sum was signed"},
		"older":         {func(p *publisher) { p.publish("0.9.0", program("0.9.0", stays)) }, "older than 1.0.0"},
		"the same":      {func(p *publisher) { p.publish("1.0.0", program("1.0.0", "exit 1")) }, ""},
		"other machine": {func(p *publisher) { p.files["x"] = nil; p.sums("x") }, "names no archive for"},
		"two":           {func(p *publisher) { n := stem("1.1.0") + ".tar.gz"; p.sums(n, n) }, "names two archives"},
		"no program": {func(p *publisher) {
			p.files[stem("1.1.0")+".tar.gz"] = packed(p.t, "elsewhere/agon", good)
			p.sums(stem("1.1.0") + ".tar.gz")
		}, "the archive has no"},
		"not an archive":  {func(p *publisher) { n := stem("1.1.0") + ".tar.gz"; p.files[n] = []byte("x"); p.sums(n) }, "open the archive"},
		"another version": {func(p *publisher) { p.publish("1.1.0", program("7.7.7", stays)) }, "does not run here"},
		"does not start":  {func(p *publisher) { p.publish("1.1.0", []byte("\x7fELF nothing")) }, "does not run here"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPublisher(t)
			p.publish("1.1.0", good)
			c.spoil(p)
			conf, _ := p.config(t, program("1.0.0", stays))
			k, err := New(conf)
			if err != nil {
				t.Fatal(err)
			}
			v, err := k.Look(t.Context())
			if c.want == "" && (v != nil || err != nil) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%+v, %v; want %q", v, err, c.want)
			}
			if k.State().Current.Path != conf.Own {
				t.Error("it is in force")
			}
		})
	}
}

// A pin takes one version only, which may be older; a folder is a place too.
func TestPinAndFolder(t *testing.T) {
	p := newPublisher(t)
	p.publish("0.9.0", program("0.9.0", stays))
	c, _ := p.config(t, program("1.0.0", stays))
	c.Pin, c.From = "0.9.0", t.TempDir()
	for name, b := range p.files {
		if err := os.WriteFile(filepath.Join(c.From, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := k.Look(t.Context()); err != nil || v == nil || v.Version != "0.9.0" {
		t.Errorf("%+v %v", v, err)
	}
	c.Pin = "0.8.0"
	if k, err = New(c); err != nil {
		t.Fatal(err)
	}
	if v, err := k.Look(t.Context()); err != nil || v != nil {
		t.Errorf("%+v %v", v, err)
	}
}

// OpenSSH's own signature of "hello\n" holds, by its key and for its file only.
func TestOpenSSH(t *testing.T) {
	keys, err := ParseKeys("# ours\n\n" + opensshKey + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(keys, []byte("hello\n"), []byte(opensshSig)); err != nil {
		t.Error(err)
	}
	if Verify(keys, []byte("hello"), []byte(opensshSig)) == nil {
		t.Error("another file is taken")
	}
	if _, err := ParseKeys("ssh-ed25519 nothing"); err == nil {
		t.Error("a key that is none is taken")
	}
	if _, err := ParseKeys("\n# none\n"); err == nil {
		t.Error("no key is taken")
	}
}

const opensshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPSUsqE/ZpX59U4Nxthuh/7jhmF0WiMRFLRgsi9NpHCI"

const opensshSig = `-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg9JSyoT9mlfn1Tg3G2G6H/uOGYX
RaIxEUtGCyL02kcIgAAAAMYWdvbi1yZWxlYXNlAAAAAAAAAAZzaGE1MTIAAABTAAAAC3Nz
aC1lZDI1NTE5AAAAQOJfmCsKcqWk6YAlJQthw11uFkByf2Uq4MqZGZg0LEkNOEzYKCCl8R
GMLQLLlvJfkOvHEOaghEE8SEw+gZXXTAU=
-----END SSH SIGNATURE-----
`
