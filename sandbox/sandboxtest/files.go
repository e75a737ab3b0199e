package sandboxtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

func testMounts(t *testing.T, s *suite) {
	src := t.TempDir()
	write(t, src, map[string]string{"data/a": "aa", "tool.sh": "#!/bin/sh\necho ran\n"})
	if err := os.Chmod(filepath.Join(src, "tool.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	single := filepath.Join(src, "data/a")
	b := s.start(t, func(sp *sandbox.Spec) {
		sp.Mounts = []sandbox.Mount{
			{Kind: sandbox.MountReadOnly, Source: src, Target: "/agon"},
			{Kind: sandbox.MountReadOnly, Source: src, Target: "/opt/tools", Exec: true},
			{Kind: sandbox.MountScratch, Target: "/work"},
			{Kind: sandbox.MountReadOnly, Source: single, Target: "/work/deep/in/file"},
			{Kind: sandbox.MountScratch, Target: "/sandbox"},
			{Kind: sandbox.MountOverlay, Source: src, Target: "/sandbox/repo"},
			{Kind: sandbox.MountTmp, Target: "/scratch", SizeBytes: 1 << 20},
			{Kind: sandbox.MountReadOnly, Source: single, Target: "/tmp/a"},
		}
	})
	for _, tt := range []struct {
		script string
		code   int
		out    string
	}{
		{"cat /agon/data/a /work/deep/in/file /tmp/a", 0, "aaaaaa"},
		{"/opt/tools/tool.sh", 0, "ran\n"},
		{"sh /agon/tool.sh", 0, "ran\n"},
		{"echo x > /agon/data/a || echo x > /agon/new || rm /agon/data/a", 1, ""},
		{"echo x > /work/deep/in/file", 2, ""},
		{"cat /sandbox/repo/data/a; echo bb > /sandbox/repo/data/a; cat /sandbox/repo/data/a", 0, "aabb\n"},
		{"touch /sandbox/x /sandbox/repo/y /tmp/z /scratch/w && ls /sandbox", 0, "repo\nx\n"},
		{"head -c 3000000 /dev/zero > /scratch/big", 1, ""},
	} {
		r := sh(t, b, tt.script)
		soft := strings.Contains(tt.script, "/scratch/big") && !s.claims(t, "disk")
		if (r.Code != 0) != (tt.code != 0) && !soft || r.out != tt.out {
			t.Errorf("%s: want code %d, out %q; got %v", tt.script, tt.code, tt.out, r)
		}
	}
	// A mount point in a writable directory is in hostile hands between two
	// commands: what was to be mounted there must not land elsewhere.
	must(t, b, "cd /work && mv deep gone && ln -s /sandbox deep && mkdir /sandbox/in")
	r := sh(t, b, "ls -A /sandbox/in")
	if r.out != "" || r.Lost != "" || r.Limit != "" || r.Code != 0 && r.Code != 126 {
		t.Errorf("moved mount points: %v", r)
	}
	if _, err := b.ReadFile("/work/deep/x", 1); !errors.Is(err, sandbox.ErrUnsafe) && !errors.Is(err, sandbox.ErrNotExist) {
		t.Errorf("read through a moved mount point: %v", err)
	}
	if got, err := os.ReadFile(single); err != nil || string(got) != "aa" {
		t.Errorf("the source changed: %q, %v", got, err)
	}
	if r := sh(t, b, "/agon/tool.sh"); r.Code != 126 && s.Driver.Info().Name != "bwrap" {
		t.Errorf("a mount without Exec ran a program: %v", r)
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for p, text := range files {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func testRead(t *testing.T, s *suite) {
	b := s.start(t, func(sp *sandbox.Spec) {
		sp.Limits.DiskBytes = 64 << 20
		sp.Mounts = append(sp.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: t.TempDir(), Target: "/agon"})
	})
	must(t, b, `cd /work; echo good > good; ln -s good link; ln -s /etc/passwd abs; ln -s ../../../../../../etc/passwd rel; ln -s / root
mkfifo fifo; mkdir dir; truncate -s 60M sparse; touch empty; printf 0123456789 > ten; ln -s dir dirlink; echo in > dir/in; ln -s loop loop
python3 -c "
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind('/work/sock')
for i in range(200): os.mkdir('d'); os.chdir('d')
open('deep', 'w').write('x')"
chmod 000 dir/in; mkdir shut; echo x > shut/x; chmod 000 shut; echo t > /tmp/t`)
	deep := "/work/" + strings.Repeat("d/", 200) + "deep"
	for _, tt := range []struct {
		path  string
		limit int64
		want  string
		err   error
	}{
		{"/work/good", 100, "good\n", nil},
		{"/work/./dir/../good", 100, "good\n", nil},
		{"/work/empty", 0, "", nil},
		{"/work/ten", 10, "0123456789", nil},
		{"/work/ten", 9, "", sandbox.ErrUnsafe},
		{"/work/link", 100, "", sandbox.ErrUnsafe},
		{"/work/abs", 1 << 20, "", sandbox.ErrUnsafe},
		{"/work/rel", 1 << 20, "", sandbox.ErrUnsafe},
		{"/work/loop", 100, "", sandbox.ErrUnsafe},
		{"/work/root/etc/passwd", 1 << 20, "", sandbox.ErrUnsafe},
		{"/work/fifo", 100, "", sandbox.ErrUnsafe},
		{"/work/sock", 100, "", sandbox.ErrUnsafe},
		{"/work/dir", 100, "", sandbox.ErrUnsafe},
		{"/work", 100, "", sandbox.ErrUnsafe},
		{"/work/sparse", 1 << 20, "", sandbox.ErrUnsafe},
		{"/work/none", 100, "", sandbox.ErrNotExist},
		{"/work/good/x", 100, "", sandbox.ErrNotExist},
		{"/work/none/x", 100, "", sandbox.ErrNotExist},
		{"/etc/passwd", 1 << 20, "", sandbox.ErrUnsafe},
		{"/work/../etc/passwd", 1 << 20, "", sandbox.ErrUnsafe},
		{"/agon/x", 100, "", sandbox.ErrUnsafe},
		{"/workx", 100, "", sandbox.ErrUnsafe},
	} {
		got, err := b.ReadFile(tt.path, tt.limit)
		if s.ownKernel() && (tt.path == "/work/fifo" || tt.path == "/work/sock") && errors.Is(err, sandbox.ErrNotExist) {
			continue // such a kernel keeps them to itself
		}
		if string(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s limit %d: %.40q, %v; want %q, %v", tt.path, tt.limit, got, err, tt.want, tt.err)
		}
	}
	// Deep is not wrong; it must only not hang or crash.
	if got, err := b.ReadFile(deep, 10); err == nil && string(got) != "x" {
		t.Errorf("deep: %q", got)
	}
	// A racing agent swaps a file for a link to the host's.
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		exec(t, b, sandbox.Cmd{Wall: 2 * time.Second, Args: []string{"python3", "-c", `
import os
os.chdir("/work"); open("new", "w").write("mine"); os.rename("new", "race"); os.symlink("/etc/passwd", "bad")
while True:
    os.rename("race", "t"); os.rename("bad", "race"); os.rename("race", "bad"); os.rename("t", "race")`}})
		close(stop)
	}()
	reads := 0
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		if got, err := b.ReadFile("/work/race", 1<<20); err == nil {
			reads++
			if string(got) != "mine" {
				t.Fatalf("read %.60q", got)
			}
		}
	}
	<-done
	t.Logf("%d good reads during the race", reads)
}

func testLayers(t *testing.T, s *suite) {
	src := t.TempDir()
	write(t, src, map[string]string{"keep": "keep", "edit": "old", "gone": "gone", "dir/a": "a", "dir/b": "b", "whole/x": "x"})
	if err := os.Symlink("keep", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	overlay := func(sp *sandbox.Spec) {
		sp.Mounts = append(sp.Mounts, sandbox.Mount{Kind: sandbox.MountOverlay, Source: src, Target: "/repo"})
	}
	b := s.start(t, overlay)
	must(t, b, "cd /repo; cat keep dir/a link; echo new > edit; rm gone; rm -r whole; mv dir moved; echo added > added; chmod +x keep; echo s > /work/s")
	if got, err := b.ReadFile("/repo/edit", 10); err != nil || string(got) != "new\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := b.ReadFile("/repo/keep", 10); err != nil || string(got) != "keep" {
		t.Errorf("lower file: %q, %v", got, err)
	}
	if _, err := b.ReadFile("/repo/gone", 10); !errors.Is(err, sandbox.ErrNotExist) {
		t.Errorf("removed file: %v", err)
	}
	// Another box over the same source sees nothing of it.
	if got := must(t, s.start(t, overlay), "cd /repo; cat edit gone whole/x; ls"); got != "oldgonexdir\nedit\ngone\nkeep\nlink\nwhole\n" {
		t.Errorf("second box: %q", got)
	}
	if _, err := b.Layer(t.Context(), "/nowhere"); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("layer of no mount: %v", err)
	}
	b = s.start(t, overlay)
	must(t, b, "cd /repo; echo new > edit; rm gone; rm -r whole; mv dir moved; echo added > added; echo s > /work/s")
	layer, err := b.Layer(t.Context(), "/repo")
	if err != nil {
		t.Fatal(err)
	}
	if e := b.End(); !e.Closed {
		t.Errorf("after Layer: %+v", e)
	}
	over := func(l *sandbox.Layer) func(*sandbox.Spec) {
		return func(sp *sandbox.Spec) {
			sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Layer: l, Target: "/repo"}}
		}
	}
	show := "cd /repo; ls; cat edit keep added moved/a; ls whole gone dir 2>/dev/null"
	want := "added\nedit\nkeep\nlink\nmoved\nnew\nkeepadded\na"
	for range 2 { // a layer serves several boxes and does not change
		b2 := s.start(t, over(layer))
		if got := sh(t, b2, show); got.out != want {
			t.Errorf("over the layer: %v", got)
		}
		must(t, b2, "cd /repo; rm added moved/a; echo second > edit; echo gone > gone")
		if err := b2.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A layer over a layer outlives the one below being removed.
	b3 := s.start(t, over(layer))
	must(t, b3, "cd /repo; echo third > edit; rm moved/b")
	top, err := b3.Layer(t.Context(), "/repo")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(layer.Remove(), layer.Remove()); err != nil {
		t.Errorf("remove layer: %v", err)
	}
	b4 := s.start(t, over(top))
	if got := must(t, b4, "cd /repo; cat edit added; ls moved"); got != "third\nadded\na\n" {
		t.Errorf("over two layers: %q", got)
	}
	if err := b4.Close(); err != nil {
		t.Error(err)
	}
	if err := top.Remove(); err != nil {
		t.Errorf("remove layer: %v", err)
	}
	if _, err := s.Driver.Start(t.Context(), s.spec(over(top))); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("over a removed layer: %v", err)
	}
	// A scratch directory can be handed on too.
	b5 := s.start(t, nil)
	must(t, b5, "echo s > /work/s")
	scratch, err := b5.Layer(t.Context(), "/work")
	if err != nil {
		t.Fatal(err)
	}
	b6 := s.start(t, func(sp *sandbox.Spec) {
		sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Layer: scratch, Target: "/work"}}
	})
	if got := must(t, b6, "cat /work/s; echo t > /work/s; cat /work/s"); got != "s\nt\n" {
		t.Errorf("over a scratch layer: %q", got)
	}
	if err := errors.Join(b6.Close(), scratch.Remove()); err != nil {
		t.Error(err)
	}
	for p, want := range map[string]string{"keep": "keep", "edit": "old", "gone": "gone", "dir/a": "a", "dir/b": "b", "whole/x": "x"} {
		got, err := os.ReadFile(filepath.Join(src, p))
		if err != nil || string(got) != want {
			t.Errorf("the source changed: %s is %q, %v", p, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(src, "added")); err == nil {
		t.Error("the source got a file")
	}
}

func testParallel(t *testing.T, s *suite) {
	src := t.TempDir()
	write(t, src, map[string]string{"f": "lower"})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			b := s.start(t, func(sp *sandbox.Spec) {
				sp.Mounts = append(sp.Mounts, sandbox.Mount{Kind: sandbox.MountOverlay, Source: src, Target: "/repo"})
			})
			script := fmt.Sprintf("cat /repo/f; echo %d > /repo/f; sleep 0.2; cat /repo/f", i)
			var out strings.Builder
			e, err := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out})
			if err != nil || e.Code != 0 || out.String() != fmt.Sprintf("lower%d\n", i) {
				t.Errorf("box %d: %+v, %v, %q", i, e, err, out.String())
			}
			if err := b.Close(); err != nil {
				t.Errorf("close box %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func testClose(t *testing.T, s *suite) {
	b := s.start(t, nil)
	up := make(chan struct{})
	var once sync.Once
	got := make(chan sandbox.Exit, 1)
	go func() {
		e, _ := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo up; sleep 1000"}, Stdout: writer(func([]byte) { once.Do(func() { close(up) }) })})
		got <- e
	}()
	<-up
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := b.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	if e := <-got; e.Lost == "" || e.Limit != "" {
		t.Errorf("command in a closed box: %+v", e)
	}
	if e := b.End(); !e.Ended || !e.Closed || e.Killed != "" || e.Limit != "" {
		t.Errorf("end %+v", e)
	}
	if _, err := b.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrHost) {
		t.Errorf("exec in a closed box: %v", err)
	}
	if _, err := b.ReadFile("/work/x", 1); err == nil {
		t.Error("read in a closed box")
	}
	if _, err := b.Layer(t.Context(), "/work"); !errors.Is(err, sandbox.ErrSpec) {
		t.Errorf("layer of a closed box: %v", err)
	}
}
