package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// published is an index with one package in two versions.
type published struct {
	base, fix []byte
}

func publish(t testing.TB) published {
	return published{
		base: tarGz(t, f("some-1.0/some.py", "def f():\n    return 1\n"), f("some-1.0/old/x.txt", "x"), f("some-1.0/tests/test_x.py", "old\n")),
		fix:  tarGz(t, f("some-1.1/some.py", "def f():\n    return 2\n"), f("some-1.1/tests/test_x.py", "import unittest\n")),
	}
}

// recipeFor pins p; digest may be empty.
func recipeFor(t testing.TB, p published, digest agon.Digest) *Task {
	t.Helper()
	cfg := strings.NewReplacer(
		strings.Repeat("a", 64), agon.Sum(p.base).Hex(), strings.Repeat("b", 64), agon.Sum(p.fix).Hex(),
		"licence = \"MIT\"\n", "licence = \"MIT\"\ndrop = [\"old\"]\ndigest = \""+string(digest)+"\"\n",
	).Replace(recipeConfig)
	got, err := Load(recipe(edit{"task.toml": text(cfg)}), "released/some-bug")
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// index plays pip in a fake box; code and output other than 0 and "" stand for
// a pip that failed, change alters what it downloads.
func index(p published, code int, output string, change func([]byte) []byte) *fake.Driver {
	return fake.New(fake.Config{Exec: func(_ context.Context, box *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
		if code != 0 {
			_, _ = io.WriteString(cmd.Stdout, output)
			return sandbox.Exit{Code: code}
		}
		sum, target := cmd.Args[4], cmd.Args[5]
		for _, b := range [][]byte{p.base, p.fix} {
			if agon.Sum(b).Hex() == sum {
				if change != nil {
					b = change(b)
				}
				box.SetFile(target, b)
			}
		}
		return sandbox.Exit{}
	}})
}

func TestFetch(t *testing.T) {
	p := publish(t)
	r := recipeFor(t, p, "")
	cache := t.TempDir()
	if _, err := Fetched(r, cache); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before: %v, want ErrNotExist", err)
	}
	d := index(p, 0, "", nil)
	var said []string
	if err := Fetch(t.Context(), d, "/rootfs", r, cache, func(s string) { said = append(said, s) }); err != nil {
		t.Fatal(err)
	}
	got, err := Fetched(r, cache)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"environment/repo/some.py":         "def f():\n    return 1\n",
		"environment/repo/tests/test_x.py": "old\n",
		"environment/repo/old/x.txt":       "", // dropped
		"tests/hidden/tests/test_x.py":     "import unittest\n",
		"solution/fix.patch":               "diff --git a/some.py b/some.py\n--- a/some.py\n+++ b/some.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n",
		"instruction.md":                   "It breaks.\n",
	}
	for name, text := range want {
		b, err := os.ReadFile(filepath.Join(cache, "released/some-bug", name))
		if string(b) != text || (text != "" && err != nil) {
			t.Errorf("%s is %q, %v, want %q", name, b, err, text)
		}
	}
	if got.Recipe() || got.Config.Agon.Released == nil || got.Config.Agon.Released.Digest != "" {
		t.Errorf("made task has config %+v", got.Config.Agon)
	}
	if len(said) != 2 {
		t.Errorf("progress said %q", said)
	}
	box := d.Boxes()[0]
	if d.Open() != 0 || !box.Spec.Network || len(box.Spec.Doors) != 0 {
		t.Errorf("%d boxes left open, spec %+v", d.Open(), box.Spec)
	}
	for _, m := range box.Spec.Mounts {
		if m.Kind == sandbox.MountOverlay || strings.HasPrefix(m.Source, cache) {
			t.Errorf("the box with network sees %s", m.Source)
		}
	}

	// Again: nothing to do. Damaged: made again from the cached archives, without a box.
	if err := Fetch(t.Context(), d, "/rootfs", r, cache, nil); err != nil {
		t.Error(err)
	}
	pinned := recipeFor(t, p, got.Digest)
	if err := os.WriteFile(filepath.Join(cache, "released/some-bug/environment/repo/some.py"), []byte("evil"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Fetched(pinned, cache); !errors.Is(err, ErrPin) {
		t.Errorf("damaged task: %v, want ErrPin", err)
	}
	if err := Fetch(t.Context(), d, "/rootfs", pinned, cache, nil); err != nil {
		t.Error(err)
	}
	if again, err := Fetched(pinned, cache); err != nil || again.Digest != got.Digest {
		t.Errorf("made again: %v, %v", again, err)
	}
	if len(d.Boxes()) != 1 {
		t.Errorf("%d boxes were started, want one", len(d.Boxes()))
	}
}

func TestFetchFails(t *testing.T) {
	p := publish(t)
	other := agon.Sum([]byte("another task"))
	lost := errors.New("no disk")
	rows := []struct {
		name   string
		driver sandbox.Driver
		digest agon.Digest
		want   error
	}{
		{"no network", index(p, 1, "Temporary failure in name resolution\nERROR: No matching distribution found", nil), "", ErrIndexUnreachable},
		{"no such version", index(p, 1, "ERROR: Could not find a version", nil), "", ErrIndexUnreachable},
		{"forbidden", index(p, 1, "ERROR: HTTP error 403 while getting https://index.example/some-1.0.tar.gz", nil), "", ErrIndexUnreachable},
		{"hashes differ", index(p, 1, "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", nil), "", ErrPin},
		{"bytes changed after pip", index(p, 0, "", func(b []byte) []byte { return append(b, 0) }), "", ErrPin},
		{"file too large", index(p, 0, "", func([]byte) []byte { return make([]byte, MaxArchive+1) }), "", sandbox.ErrUnsafe},
		{"other digest", index(p, 0, "", nil), other, ErrPin},
		{"no box", fake.New(fake.Config{Start: func(context.Context, *fake.Box) error { return fmt.Errorf("%w: %w", sandbox.ErrHost, lost) }}), "", sandbox.ErrHost},
		{"no pip", index(p, 1, "/usr/bin/python3: No module named pip", nil), "", sandbox.ErrHost},
		{"box killed", fake.New(fake.Config{Exec: func(_ context.Context, b *fake.Box, _ sandbox.Cmd) sandbox.Exit {
			b.Kill("host_oom")
			return sandbox.Exit{}
		}}), "", sandbox.ErrHost},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			cache := t.TempDir()
			task := recipeFor(t, p, r.digest)
			err := Fetch(t.Context(), r.driver, "/rootfs", task, cache, nil)
			if !errors.Is(err, r.want) {
				t.Errorf("got %v, want %v", err, r.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has lines: %q", err)
			}
			if _, err := Fetched(task, cache); err == nil {
				t.Error("a task was left behind")
			}
			if d, ok := r.driver.(*fake.Driver); ok && d.Open() != 0 {
				t.Errorf("%d boxes left open", d.Open())
			}
		})
	}
	// What is wrong with the package is not the index's fault.
	err := Fetch(t.Context(), index(p, 1, "ERROR: Cannot import some.backend", nil), "/rootfs", recipeFor(t, p, ""), t.TempDir(), nil)
	if err == nil || errors.Is(err, ErrIndexUnreachable) {
		t.Errorf("unknown back end: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := fake.New(fake.Config{Exec: func(context.Context, *fake.Box, sandbox.Cmd) sandbox.Exit {
		cancel()
		return sandbox.Exit{Code: 137}
	}})
	if err := Fetch(ctx, stopped, "/rootfs", recipeFor(t, p, ""), t.TempDir(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	complete, err := Load(good(nil), "small/x")
	if err != nil {
		t.Fatal(err)
	}
	if err := Fetch(t.Context(), index(p, 0, "", nil), "/rootfs", complete, t.TempDir(), nil); err == nil {
		t.Error("a complete task was fetched")
	}
}

func TestBuildRefuses(t *testing.T) {
	p := publish(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"no such test":    {`"tests/test_x.py" =`, `"tests/test_y.py" =`, "has no file"},
		"no such source":  {`["some.py"]`, `["none.py"]`, "neither version"},
		"same source":     {`["some.py"]`, `["tests/test_z.py"]`, "neither version"},
		"compact table":   {"[agon]\n", "[ agon ]\n", "one line that says [agon]"},
		"test not found":  {"tests.test_x.TestX.test_y", "test.test_x.TestX.test_y", `no module "test"`},
		"nothing is left": {`sources = ["some.py"]`, "sources = [\"some.py\"]\ndrop = [\"some.py\", \"tests\", \"old\"]", "agon.base"},
	} {
		cfg := strings.Replace(recipeConfig, c.old, c.new, 1)
		if cfg == recipeConfig {
			t.Fatalf("%s: %q is not in the recipe", name, c.old)
		}
		r, err := Load(fstest.MapFS{"task.toml": text(cfg), "instruction.md": text("It breaks.\n")}, "released/x")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Build(r, p.base, p.fix); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestHostPip(t *testing.T) {
	host := map[string]string{
		"/etc/pip.conf":                "[global]\nindex-url = https://system.example/simple\ntimeout = 5\ncert = /etc/own.pem\n",
		"/home/o/.config/pip/pip.conf": "# mine\n[global]\nindex_url: https://me:secret@user.example/simple\nextra-index-url =\n  https://one.example\n  https://two.example\ntarget = /opt\n[install]\nproxy = none\n[download]\ntrusted-host = user.example\n",
		"/etc/own.pem":                 "CERT",
		"/etc/ssl/bundle":              "BUNDLE",
	}
	local := t.TempDir()
	c := hostPip([]string{
		"HOME=/home/o", "PIP_EXTRA_INDEX_URL=https://env.example", "PIP_TARGET=/opt", "SSL_CERT_FILE=/etc/ssl/bundle", "REQUESTS_CA_BUNDLE=/none",
		"HTTPS_PROXY=http://p.example:3128", "AWS_SECRET=x", "PIP_FIND_LINKS=https://l.example " + local + " /none",
	}, func(p string) ([]byte, error) {
		if s, ok := host[p]; ok {
			return []byte(s), nil
		}
		return nil, fs.ErrNotExist
	}, "/agon", func(int) string { return "/links" })
	want := []string{
		"PIP_CERT=/agon/pip_cert.pem",
		"PIP_EXTRA_INDEX_URL=https://env.example",
		"PIP_FIND_LINKS=https://l.example /links",
		"PIP_INDEX_URL=https://me:secret@user.example/simple",
		"PIP_TRUSTED_HOST=user.example",
		"HTTPS_PROXY=http://p.example:3128",
		"SSL_CERT_FILE=/agon/ssl_cert_file.pem",
	}
	if strings.Join(c.env, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(c.env, "\n"), strings.Join(want, "\n"))
	}
	if string(c.files["pip_cert.pem"]) != "CERT" || string(c.files["ssl_cert_file.pem"]) != "BUNDLE" || len(c.files) != 2 {
		t.Errorf("files %q", c.files)
	}
	if len(c.links) != 1 || c.links[0] != local {
		t.Errorf("links %q", c.links)
	}
	if got := c.redact("GET https://me:secret@user.example/simple/x: 403"); strings.Contains(got, "secret") {
		t.Errorf("credentials are shown: %s", got)
	}
	// Without any setting the system's authorities go along: the operator's may be among them.
	bare := hostPip(nil, func(p string) ([]byte, error) {
		if p == systemBundles[0] {
			return []byte("SYSTEM"), nil
		}
		return nil, fs.ErrNotExist
	}, "/agon", nil)
	if strings.Join(bare.env, " ") != "PIP_CERT=/agon/pip_cert.pem" {
		t.Errorf("bare host: %q", bare.env)
	}
}

func FuzzParsePipFile(fz *testing.F) {
	fz.Add([]byte("[global]\nindex-url = x\n  y\n[download]\ncert: z\n"))
	fz.Fuzz(func(t *testing.T, b []byte) {
		for k := range parsePipFile(b) {
			if _, ok := pipSettings[k]; !ok {
				t.Fatalf("setting %q", k)
			}
		}
	})
}
