package rootfs

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestPrune(t *testing.T) {
	cache := t.TempDir()
	start := time.Unix(1_700_000_000, 0)
	dir := func(n string) string { return filepath.Join(cache, n) }
	for i, n := range []string{"old", "kept", "mid", "new"} {
		if err := os.MkdirAll(dir(n), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir(n), "f"), bytes.Repeat([]byte("x"), 1<<20), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Used(dir(n), start.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := Prune(cache, 2<<20+64<<10, dir("kept"))
	if err != nil || len(gone) != 2 || gone[0].Dir != dir("old") || gone[1].Dir != dir("mid") {
		t.Fatalf("%+v, %v", gone, err)
	}
	ents, _ := os.ReadDir(cache)
	var names []string
	for _, e := range ents {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != ".used-kept .used-new kept new" {
		t.Errorf("left %q", got)
	}
	if gone, err := Prune(cache, 1<<30); err != nil || len(gone) != 0 {
		t.Errorf("%+v, %v", gone, err)
	}
	if gone, err := Prune(filepath.Join(cache, "none"), 0); err != nil || gone != nil {
		t.Errorf("%+v, %v", gone, err)
	}
}

func TestMentions(t *testing.T) {
	const m = "36 35 0:1 / /m rw - overlay overlay rw,lowerdir=/s/m2:/c/tree-ab,upperdir=/x\n37 35 0:1 / /c/tree-xy/z rw - ext4 /dev/a rw\n"
	for d, want := range map[string]bool{"/c/tree-ab": true, "/c/tree-a": false, "/c/tree-xy": true, "/c/tree": false, "/none": false} {
		if mentions(m, d) != want {
			t.Errorf("%s: want %v", d, want)
		}
	}
}

// A whole pull, from a registry that runs here: by tag, by digest, and by a digest that is not served.
func TestFromRegistry(t *testing.T) {
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer srv.Close()
	host := strings.TrimPrefix(srv.URL, "http://")
	var layers []v1.Layer
	for _, files := range [][][2]string{
		{{"dir/", ""}, {"dir/gone", "gone"}, {"dir/kept", "kept"}, {"opaque/", ""}, {"opaque/lower", "l"}, {"bin/", ""}, {"bin/tool", "tool"}, {"whole/", ""}, {"whole/x", "x"}},
		{{"dir/.wh.gone", ""}, {"opaque/.wh..wh..opq", ""}, {"opaque/upper", "u"}, {"bin/alias", ">tool"}, {"bin/hard", "=bin/tool"}, {".wh.whole", ""}, {"up", ">../../../etc/passwd"}},
	} {
		var buf bytes.Buffer
		tw := tar.NewWriter(&buf)
		for _, f := range files {
			h := &tar.Header{Name: f[0], Mode: 0o4755, Typeflag: tar.TypeReg, Size: int64(len(f[1]))}
			switch {
			case strings.HasSuffix(f[0], "/"):
				h.Typeflag, h.Mode = tar.TypeDir, 0o755
			case strings.HasPrefix(f[1], ">"):
				h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f[1][1:], 0
			case strings.HasPrefix(f[1], "="):
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, f[1][1:], 0
			}
			if err := tw.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				if _, err := tw.Write([]byte(f[1])); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: must(img.ConfigFile()).RootFS}); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host + "/box/python:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	mirrors := filepath.Join(t.TempDir(), "registries.conf")
	t.Setenv("CONTAINERS_REGISTRIES_CONF", mirrors)
	// A mirror that is not there is passed over; one that is serves what its own name would not.
	if err := os.WriteFile(mirrors, []byte("[[registry]]\nlocation = \"images.invalid\"\n[[registry.mirror]]\nlocation = \"127.0.0.1:1/none\"\n[[registry.mirror]]\nlocation = \""+host+"\"\ninsecure = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{host + "/box/python:1", host + "/box/python@" + digest.String(), "images.invalid/box/python@" + digest.String(), "images.invalid/box/python:1"} {
		dir, err := Ensure(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "rootfs"), Image: r})
		if err != nil {
			t.Fatalf("%s: %v", r, err)
		}
		for p, want := range map[string]string{"dir/kept": "kept", "opaque/upper": "u", "bin/tool": "tool", "bin/alias": "tool", "bin/hard": "tool"} {
			if b, err := os.ReadFile(filepath.Join(dir, p)); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", p, b, err)
			}
		}
		for _, p := range []string{"dir/gone", "opaque/lower", "whole", "dir/.wh.gone", ".wh.whole"} {
			if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
				t.Errorf("%s is there", p)
			}
		}
		if fi, err := os.Stat(filepath.Join(dir, "bin/tool")); err != nil || fi.Mode()&os.ModeSetuid != 0 {
			t.Errorf("set-id bit: %v, %v", fi, err)
		}
	}
	if _, err := Ensure(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "rootfs"), Image: host + "/box/python@sha256:" + strings.Repeat("ab", 32)}); err == nil {
		t.Error("a digest that is not there was pulled")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
