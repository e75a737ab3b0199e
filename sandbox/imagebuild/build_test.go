package imagebuild

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/rootfs/rootfstest"
)

// machine is a driver of this machine and the tree of its own.
func machine(t *testing.T, name string) (sandbox.Driver, string) {
	t.Helper()
	own, err := rootfs.Ensure(t.Context(), rootfs.Config{})
	if errors.Is(err, rootfs.ErrUnsupported) {
		t.Skip("LOUD: no root file system can be made here, this test did not run: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp("", "agon-build-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	d, reports, err := probe.Probe(context.Background(), probe.Config{Rootfs: own, StateDir: state, Want: name})
	if errors.Is(err, sandbox.ErrNoDriver) && os.Getenv("AGON_DRIVER") != name {
		t.Skipf("LOUD: this machine cannot have %s, this test did not run: %+v", name, reports)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d, own
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, link := strings.CutPrefix(text, "-> "); link {
			if err := os.Symlink(to, at); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A build in a real box: it changes, removes and replaces what the base has,
// cannot leave the box, and touches nothing of the base.
func TestBuild(t *testing.T) {
	for _, name := range []string{"runsc", "runc"} {
		t.Run(name, func(t *testing.T) {
			d, own := machine(t, name)
			images := rootfs.OpenImages(t.TempDir(), nil)
			base := rootfstest.Layout(t, map[string]string{
				"srv/old": "old", "srv/kept": "kept", "dir/a": "a", "dir/b": "b", "out": "-> /etc", "etc/motd": "of the base",
			}, nil)
			dir := write(t, map[string]string{
				"Dockerfile": `FROM base
ENV GREETING=hello
WORKDIR /srv
COPY tree .
COPY --chmod=700 run.sh /usr/local/bin/run
COPY secret evil /out/
RUN echo "$GREETING" > said && rm old && python3 -c 'import os; os.chown("said", 33, 33); assert os.getuid() == 0' && mkdir -m 1777 /var/spool && ln said again
COPY --chmod=755 <<MADE /srv/bin/
#!/bin/sh
echo $GREETING from \$0
MADE
RUN cat > script <<'EOF' && sh script > told
/srv/bin/MADE
EOF
RUN rm -rf /dir && mkdir /dir && echo new > /dir/c
RUN if bash -c 'exec 3<>/dev/tcp/1.1.1.1/80'; then exit 9; fi; if echo x > /proc/sys/kernel/hostname; then exit 8; fi; /usr/local/bin/run
LABEL org.opencontainers.image.licenses=MIT
CMD ["run"]
`,
				"tree/a.txt": "a", "tree/deep/b.txt": "b", "tree/skip.log": "log", "tree/link": "-> a.txt", ".dockerignore": "**/*.log\n",
				"run.sh": "#!/bin/sh\necho ran > /srv/ran\n", "secret": "s", "evil": "e",
			})
			var log bytes.Buffer
			img, err := Build(t.Context(), Config{Driver: d, Images: images, Own: own, Dir: dir, From: map[string]string{"base": base}, Networks: []string{}, Name: "made", Log: &log})
			if err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			if img.Layers != 2 || img.Licence != "MIT" || img.Config.WorkingDir != "/srv" || len(img.Names) != 1 || img.Names[0] != "made" {
				t.Errorf("%+v", img)
			}
			tree, err := images.Open(t.Context(), img)
			if err != nil {
				t.Fatal(err)
			}
			for p, want := range map[string]string{
				"srv/a.txt": "a", "srv/deep/b.txt": "b", "srv/link": "a", "srv/said": "hello\n", "srv/again": "hello\n", "srv/kept": "kept", "srv/ran": "ran\n", "srv/told": "hello from /srv/bin/MADE\n",
				"dir/c": "new\n", "etc/secret": "s", "etc/evil": "e", "etc/motd": "of the base",
			} {
				if b, err := os.ReadFile(filepath.Join(tree, p)); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", p, b, err)
				}
			}
			for _, p := range []string{"srv/old", "srv/skip.log", "dir/a", "dir/b", "opt/agon", ".agon-build", ".box"} {
				if _, err := os.Lstat(filepath.Join(tree, p)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is there: %v", p, err)
				}
			}
			if fi, err := os.Stat(filepath.Join(tree, "usr/local/bin/run")); err != nil || fi.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", fi, err)
			}
			// The host has none of it, and the base is what it was.
			if _, err := os.Lstat("/etc/evil"); err == nil {
				t.Error("the host has the file")
			}
			b, err := images.Get(base)
			if err != nil {
				t.Fatal(err)
			}
			if tree, err = images.Open(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(tree, "srv/old")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A build of stages: the last one has what it copies of others, and nothing else of
// them. A stage that nothing needs is not built; links in an image lead nowhere else.
func TestBuildStages(t *testing.T) {
	d, own := machine(t, "runc")
	images := rootfs.OpenImages(t.TempDir(), nil)
	base := rootfstest.Layout(t, map[string]string{"srv/base": "b", "etc/alternatives/tool": "-> /srv/base", "out": "-> /../../../etc"}, nil)
	dir := write(t, map[string]string{"Dockerfile": `FROM base AS build
RUN mkdir -p /app/deep && echo made > /app/deep/prog && ln -s deep/prog /app/link && echo secret > /left
FROM base AS never
RUN exit 7
FROM build AS more
RUN echo more >> /app/deep/prog
FROM scratch
WORKDIR /srv
COPY --from=build /app /app
COPY --from=more /app/deep/prog /app/link /both/
COPY --from=2 --chmod=755 /app/d*/prog run
COPY --from=base /etc/alternatives/tool /tool
COPY own.txt .
CMD ["/srv/run"]
`, "own.txt": "own"})
	var log bytes.Buffer
	img, err := Build(t.Context(), Config{Driver: d, Images: images, Own: own, Dir: dir, From: map[string]string{"base": base}, Networks: []string{}, Name: "made", Log: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	tree, err := images.Open(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		"app/deep/prog": "made\n", "app/link": "made\n", "both/prog": "made\nmore\n", "both/link": "made\nmore\n", "srv/run": "made\nmore\n", "tool": "b", "srv/own.txt": "own",
	} {
		if b, err := os.ReadFile(filepath.Join(tree, p)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	for _, p := range []string{"left", "srv/base", "etc/alternatives"} {
		if _, err := os.Lstat(filepath.Join(tree, p)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", p, err)
		}
	}
	if img.Config.WorkingDir != "/srv" || len(img.Config.Cmd) != 1 || len(img.Names) != 1 {
		t.Errorf("%+v", img)
	}
	for text, says := range map[string]string{
		"FROM base AS a\nFROM scratch\nCOPY --from=a /none /x":             "line 3, COPY: \"none\" is not in",
		"FROM base AS a\nFROM scratch\nCOPY --from=a /out/shadow /x":       "line 3, COPY: \"out/shadow\" is not in",
		"FROM base AS a\nFROM scratch\nCOPY --from=a /../../etc/shadow /x": "line 3, COPY: \"etc/shadow\" is not in",
		"FROM scratch\nCOPY --from=oci:/nowhere /x /x":                     "line 2, COPY: bad image",
		"FROM scratch AS a\nFROM base\nCOPY --from=a /x /x":                "line 3, COPY: \"x\" is not in",
		"FROM base AS a\nRUN exit 5\nFROM a":                               "line 2, RUN: exit 5",
	} {
		dir := write(t, map[string]string{"Dockerfile": text})
		if img, err := Build(t.Context(), Config{Driver: d, Images: images, Own: own, Dir: dir, From: map[string]string{"base": base}, Networks: []string{}}); !errors.Is(err, ErrDockerfile) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v", text, img, err)
		}
	}
}

// A build that fails says where, and leaves neither image nor box.
func TestBuildFails(t *testing.T) {
	d, own := machine(t, "runc")
	images := rootfs.OpenImages(t.TempDir(), nil)
	for text, says := range map[string]string{
		"FROM scratch\nRUN echo no such luck; exit 3": "line 2, RUN: exit 3: no such luck",
		"FROM scratch\nWORKDIR /a\nCOPY none /b":      "line 3, COPY: \"none\" is not in the directory",
		"FROM scratch\nCOPY x* /b":                    "matches nothing",
		"FROM scratch\nCOPY out /b":                   "line 2, COPY",
		"FROM scratch\nUSER app\nRUN id":              "line 3, RUN: after USER",
	} {
		dir := write(t, map[string]string{"Dockerfile": text, "out": "-> /etc"})
		if img, err := Build(t.Context(), Config{Driver: d, Images: images, Own: own, Dir: dir, Networks: []string{}, Name: "never"}); !errors.Is(err, ErrDockerfile) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v", text, img, err)
		}
	}
	if _, err := images.Get("never"); !errors.Is(err, rootfs.ErrNoImage) {
		t.Errorf("%v", err)
	}
	if _, err := Build(t.Context(), Config{Driver: d, Images: images, Own: own, Dir: t.TempDir()}); !errors.Is(err, ErrDockerfile) {
		t.Errorf("without a Dockerfile: %v", err)
	}
}
