package runsc

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// imageDriver returns a new driver, and a box of a run whose submission says whose it is.
func imageDriver(t testing.TB) (d *Driver, spec func(whose string) sandbox.Spec) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("LOUD: gVisor boxes need root; these tests did not run")
	}
	bin, err := Ensure(t.Context(), BuildConfig{Log: os.Stderr})
	if errors.Is(err, ErrNoGo) {
		t.Skipf("LOUD: %v; these tests did not run", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if d, err = New(t.Context(), Config{StateDir: dir, Binary: bin}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(filepath.Join(dir, "boxes")); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
	return d, func(whose string) sandbox.Spec {
		src := t.TempDir()
		if err := os.WriteFile(filepath.Join(src, whose), []byte(whose), 0o644); err != nil {
			t.Fatal(err)
		}
		return sandbox.Spec{
			Name: "warm", Rootfs: root, Env: append(slices.Clone(hotEnv), "WHOSE="+whose), Hostnames: []string{whose},
			Limits: agon.Limits{WallMS: 20_000, CPUMilli: 2000, MemoryBytes: 256 << 20, Pids: 32, DiskBytes: 32 << 20, Inodes: 4096, OutputBytes: 1 << 20},
			Mounts: []sandbox.Mount{{Kind: sandbox.MountReadOnly, Source: src, Target: "/agon"}, {Kind: sandbox.MountScratch, Target: "/work"}},
			Warm:   hot(),
		}
	}
}

// start makes a box that the test closes.
func start(t *testing.T, d *Driver, spec sandbox.Spec) sandbox.Box {
	t.Helper()
	b, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// tell is what a box's program says of itself.
type tell struct {
	Random, UUID, Node, OS, Temp, SSL, Key string
	Time                                   float64
	Dir, Whose, In, Hosts                  string
	Files, Warm                            []string
	FDs                                    []int
}

const telling = `
import json, multiprocessing.process, os, random, ssl, sys, tempfile, time, uuid
fds = [int(n) for n in os.listdir("/proc/self/fd")]
print(json.dumps({
    "Random": str(random.random()), "UUID": str(uuid.uuid4()), "Node": str(uuid.uuid1()), "OS": os.urandom(8).hex(),
    "Temp": next(tempfile._get_candidate_names()), "SSL": ssl.RAND_bytes(8).hex(), "Key": multiprocessing.process.current_process().authkey.hex(),
    "Time": time.time(), "Dir": os.getcwd(), "Whose": os.environ["WHOSE"], "In": sys.stdin.read(), "Hosts": open("/etc/hosts").read(),
    "Files": os.listdir("/agon"), "Warm": [k for k in os.environ if k.startswith("AGON")], "FDs": [n for n in fds if n > 2 and os.path.exists("/proc/self/fd/%d" % n)],
}))
open("/work/out", "w").write(os.environ["WHOSE"])
`

// run has the warm program of a box run source.
func run(t *testing.T, b sandbox.Box, source string) (sandbox.Exit, string) {
	t.Helper()
	var out, errs strings.Builder
	x, err := b.Exec(t.Context(), sandbox.Cmd{Args: hot().Args, Env: []string{"AGON_SOURCE=" + source}, Dir: "/work", Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errs, Untrusted: true})
	if err != nil || errs.Len() > 0 {
		t.Fatal(x, err, errs.String())
	}
	return x, out.String()
}

// A box that is made of an image is its run's own: what it draws at random, its clock,
// files, names, environment, descriptors and doors. The one that started is no other.
func TestImage(t *testing.T) {
	d, spec := imageDriver(t)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("X-Whose")) }))
	defer door.Close()
	seen := map[string]string{}
	for i, whose := range []string{"ann", "ben", "cid", "dot"} {
		s := spec(whose)
		s.Doors = []sandbox.Door{{Listen: "127.0.0.1:80", Target: door.URL, Header: map[string]string{"X-Whose": whose}}}
		b := start(t, d, s)
		if made(b) != (i >= worthIt) {
			t.Fatalf("box %d is made of an image: %v", i, made(b))
		}
		before := time.Now()
		x, out := run(t, b, telling)
		after := time.Now()
		var got tell
		if err := json.Unmarshal([]byte(out), &got); err != nil || x.Code != 0 {
			t.Fatalf("%v %v %.300q", x, err, out)
		}
		for name, v := range map[string]string{"random": got.Random, "uuid4": got.UUID, "uuid1": got.Node, "urandom": got.OS, "tempfile": got.Temp, "ssl": got.SSL, "authkey": got.Key} {
			if other := seen[name+" "+v]; other != "" {
				t.Errorf("%s drew %s from %s, and so did %s", whose, v, name, other)
			}
			seen[name+" "+v] = whose
		}
		// gVisor's clock follows the host's to some microseconds.
		if at := time.UnixMicro(int64(got.Time * 1e6)); at.Before(before.Add(-10*time.Millisecond)) || at.After(after.Add(10*time.Millisecond)) {
			t.Errorf("%s's clock said %s between %s and %s", whose, at, before, after)
		}
		if got.Dir != "/work" || got.Whose != whose || got.In != "in" || !slices.Equal(got.Files, []string{whose}) || len(got.Warm) > 0 || len(got.FDs) > 0 {
			t.Errorf("%s: %+v", whose, got)
		}
		if !strings.HasPrefix(got.Hosts, "127.0.0.1 localhost box "+whose+"\n") {
			t.Errorf("%s's hosts: %q", whose, got.Hosts)
		}
		if f, err := b.ReadFile("/work/out", 100); string(f) != whose {
			t.Errorf("%s left %q, %v", whose, f, err)
		}
		// The second time the same program starts as any other.
		if _, out = run(t, b, "import urllib.request as u; print(u.urlopen('http://127.0.0.1/').read().decode())"); out != whose+"\n" {
			t.Errorf("%s's door said %q", whose, out)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where no image can be made, or no box of it, boxes start as ever.
func TestImageFails(t *testing.T) {
	d, spec := imageDriver(t)
	never := spec("ann")
	never.Warm = &sandbox.Warm{Args: []string{"python3", "-c", "print(1)"}, Env: hotEnv}
	for range worthIt + 1 {
		b := start(t, d, never)
		var out strings.Builder
		if x, err := b.Exec(t.Context(), sandbox.Cmd{Args: never.Warm.Args, Stdout: &out}); err != nil || x.Code != 0 || out.String() != "1\n" || made(b) {
			t.Errorf("a program that does not wait: %v %v %q, of an image: %v", x, err, out.String(), made(b))
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	for i := range worthIt + 3 {
		b := start(t, d, spec("ben"))
		if made(b) != (i == worthIt) {
			t.Errorf("box %d is made of an image: %v", i, made(b))
		}
		if _, out := run(t, b, "print(1)"); out != "1\n" {
			t.Errorf("box %d said %q", i, out)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if i != worthIt {
			continue
		}
		for _, img := range d.images.all {
			for n, f := range img.files {
				if _, err := f.WriteAt([]byte{0}, 0); !errors.Is(err, unix.EPERM) {
					t.Errorf("an image can be written: %v", err)
				}
				if n == 0 { // as if the machine had spoiled it
					spoilt, err := os.Open(os.DevNull)
					if err != nil {
						t.Fatal(err)
					}
					defer spoilt.Close()
					img.files[n] = spoilt
				}
			}
		}
	}
}

// Boxes of one image are bounded alike, and boxes with other bounds are not of it.
func TestImageKey(t *testing.T) {
	var l images
	files := []*os.File{nil}
	base := sandbox.Spec{Rootfs: "/r", UID: 1, GID: 1, Warm: hot(), Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/w"}}}
	keyed := func(edit func(*sandbox.Spec)) key {
		s := base
		s.Mounts = slices.Clone(base.Mounts)
		edit(&s)
		k, err := keyOf(s, bundled(s))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := keyed(func(*sandbox.Spec) {})
	for name, edit := range map[string]func(*sandbox.Spec){
		"source": func(s *sandbox.Spec) { s.Mounts[0].Source = "/x" },
		"names":  func(s *sandbox.Spec) { s.Hostnames = []string{"x"} },
		"doors":  func(s *sandbox.Spec) { s.Doors = []sandbox.Door{{Listen: "127.0.0.1:1"}} },
		"env":    func(s *sandbox.Spec) { s.Env = []string{"A=b"} },
	} {
		if keyed(edit) != same {
			t.Errorf("another %s is another image", name)
		}
	}
	for name, edit := range map[string]func(*sandbox.Spec){
		"root file system": func(s *sandbox.Spec) { s.Rootfs = "/other" },
		"user":             func(s *sandbox.Spec) { s.UID = 2 },
		"memory":           func(s *sandbox.Spec) { s.Limits.MemoryBytes = 1 << 30 },
		"processor":        func(s *sandbox.Spec) { s.Limits.CPUMilli = 500 },
		"processes":        func(s *sandbox.Spec) { s.Limits.Pids = 99 },
		"file size":        func(s *sandbox.Spec) { s.Limits.DiskBytes = 1 << 20 },
		"target":           func(s *sandbox.Spec) { s.Mounts[0].Target = "/v" },
		"kind":             func(s *sandbox.Spec) { s.Mounts[0].Kind = sandbox.MountOverlay },
		"shared source":    func(s *sandbox.Spec) { s.Mounts[0].Source, s.Mounts[0].Shared = "/x", true },
		"program":          func(s *sandbox.Spec) { s.Warm = &sandbox.Warm{Args: []string{"x"}} },
	} {
		if keyed(edit) == same {
			t.Errorf("another %s is the same image", name)
		}
	}
	for i := range maxKeys + 5 { // a stranger who makes up sorts of boxes
		k := key{byte(i), byte(i >> 8)}
		for range worthIt {
			if img, _, begin := l.want(k); begin {
				l.put(img, files, nil)
			}
		}
	}
	if len(l.all) != maxKeys || l.begun != maxImages {
		t.Errorf("%d sorts and %d images", len(l.all), l.begun)
	}
	if img, f, begin := l.want(key{}); img == nil || len(f) != 1 || begin {
		t.Errorf("the first sort: %v, %v, %v", img, f, begin)
	}
}
