package rootfs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// made is an image as it is made by hand: its blobs by digest, and its documents.
type made struct {
	blobs    map[string][]byte
	layers   [][]byte // as stored
	diffs    []string
	config   map[string]any
	manifest map[string]any
}

func compress(t testing.TB, how string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch how {
	case "gzip":
		z := gzip.NewWriter(&out)
		_, _ = z.Write(b)
		_ = z.Close()
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = z.Write(b)
		_ = z.Close()
	default:
		return b
	}
	return out.Bytes()
}

// make builds an image of plain layers, stored by how ("", "gzip", "zstd").
func makeImage(t testing.TB, how string, layers ...[]byte) *made {
	t.Helper()
	m := &made{blobs: map[string][]byte{}, config: map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Env": []string{"PATH=/usr/bin", "LANG=C.UTF-8"}, "WorkingDir": "/srv", "User": "app", "Entrypoint": []string{"/bin/run"}, "Cmd": []string{"serve"},
			"Labels": map[string]string{"org.opencontainers.image.licenses": "MIT"},
		},
	}}
	list := []any{}
	for _, plain := range layers {
		stored := compress(t, how, plain)
		m.layers = append(m.layers, stored)
		m.diffs = append(m.diffs, digestOf(plain))
		m.blobs[digestOf(stored)] = stored
		list = append(list, map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digestOf(stored), "size": len(stored)})
	}
	m.config["rootfs"] = map[string]any{"type": "layers", "diff_ids": m.diffs}
	m.manifest = map[string]any{"schemaVersion": 2, "layers": list}
	return m
}

func doc(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// layout writes the image as an OCI layout and returns its reference.
func (m *made) layout(t testing.TB) string {
	t.Helper()
	config := doc(m.config)
	m.blobs[digestOf(config)] = config
	if _, ok := m.manifest["config"]; !ok {
		m.manifest["config"] = map[string]any{"digest": digestOf(config), "size": len(config)}
	}
	manifest := doc(m.manifest)
	m.blobs[digestOf(manifest)] = manifest
	return writeLayout(t, m.blobs, map[string]any{"manifests": []any{map[string]any{"digest": digestOf(manifest), "size": len(manifest)}}})
}

func writeLayout(t testing.TB, blobs map[string][]byte, index any) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agon-layout-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.MkdirAll(filepath.Join(dir, "blobs/sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	for d, b := range blobs {
		if err := os.WriteFile(filepath.Join(dir, "blobs/sha256", strings.TrimPrefix(d, "sha256:")), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), doc(index), 0o644); err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir
}

// docker writes the image as docker saves one.
func (m *made) docker(t testing.TB, plain ...[]byte) string {
	t.Helper()
	files := []file{{"config.json", 0, string(doc(m.config)), 0o644}}
	names := []string{}
	for i, l := range plain {
		n := fmt.Sprintf("layer%d/layer.tar", i)
		names = append(names, n)
		files = append(files, file{n, 0, string(l), 0o644})
	}
	files = append(files, file{"manifest.json", 0, string(doc([]any{map[string]any{"Config": "config.json", "RepoTags": []string{"app:1"}, "Layers": names}})), 0o644})
	at := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(at, archive(t, files...), 0o644); err != nil {
		t.Fatal(err)
	}
	return "archive:" + at
}

func baseLayer(t testing.TB) []byte {
	return archive(t, file{"bin/sh", 0, "#!", 0o755}, file{"usr/bin/git", tar.TypeSymlink, "/opt/git", 0}, file{"opt/git", 0, "git", 0o755}, file{"usr/bin/gone", 0, "x", 0})
}

func upperLayer(t testing.TB) []byte {
	return archive(t, file{"usr/bin/.wh.gone", 0, "", 0}, file{"srv/app", 0, "app", 0o644})
}

// inCache lists what a cache holds, but for its lock and the marks of use.
func inCache(t testing.TB, dir string) []string {
	t.Helper()
	out := []string{}
	for _, d := range []string{"blobs/sha256", "index", "trees"} {
		ents, err := os.ReadDir(filepath.Join(dir, d))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range ents {
			if !strings.HasPrefix(e.Name(), ".used-") {
				out = append(out, d+"/"+e.Name())
			}
		}
	}
	return out
}

func TestImport(t *testing.T) {
	base, upper := baseLayer(t), upperLayer(t)
	for _, how := range []string{"", "gzip", "zstd"} {
		t.Run("layout "+how, func(t *testing.T) { testImport(t, makeImage(t, how, base, upper).layout(t)) })
	}
	m := makeImage(t, "", base, upper)
	t.Run("docker archive", func(t *testing.T) { testImport(t, m.docker(t, base, upper)) })
	t.Run("by name", func(t *testing.T) { testImport(t, m.docker(t, base, upper)+":app:1") })
	t.Run("layout archive", func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "layout.tar")
		dir := strings.TrimPrefix(makeImage(t, "gzip", base, upper).layout(t), "oci:")
		var files []file
		err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				b, rerr := os.ReadFile(filepath.Join(dir, p))
				files, err = append(files, file{"./" + p, 0, string(b), 0o644}), rerr
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, archive(t, files...), 0o644); err != nil {
			t.Fatal(err)
		}
		testImport(t, "archive:"+at)
	})
}

func testImport(t *testing.T, ref string) {
	t.Helper()
	cache := t.TempDir()
	s := OpenImages(cache, nil)
	img, err := s.Import(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if img.Layers != 2 || img.Copied != img.Bytes || img.Copied == 0 || img.Licence != "MIT" || img.Tree {
		t.Errorf("%+v", img)
	}
	c := img.Config
	if !slices.Equal(c.Env, []string{"PATH=/usr/bin", "LANG=C.UTF-8"}) || c.WorkingDir != "/srv" || c.User != "app" || !slices.Equal(c.Entrypoint, []string{"/bin/run"}) || !slices.Equal(c.Cmd, []string{"serve"}) {
		t.Errorf("%+v", c)
	}
	again, err := s.Import(t.Context(), ref)
	if err != nil || again.Copied != 0 || again.Digest != img.Digest {
		t.Errorf("a second import copied %d bytes of %s: %v", again.Copied, again.Digest, err)
	}
	dir, err := s.Open(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	got := tree(t, dir)
	if got["srv/app"] != "app" || got["usr/bin/gone"] != "" || got["bin/sh"] != "#!" || got["tmp"] != "/" {
		t.Errorf("%v", got)
	}
	if miss, err := Missing(dir); err != nil || !slices.Equal(miss, []string{"python3"}) {
		t.Errorf("missing %v, %v", miss, err)
	}
	// Out, and in again elsewhere: the same image.
	out := filepath.Join(t.TempDir(), "out")
	if err := s.Export(img, out); err != nil {
		t.Fatal(err)
	}
	if err := s.Export(img, out); !errors.Is(err, fs.ErrExist) {
		t.Errorf("exported over what is there: %v", err)
	}
	other, err := OpenImages(t.TempDir(), nil).Import(t.Context(), "oci:"+out)
	if err != nil || other.Digest != img.Digest {
		t.Errorf("%+v, %v", other, err)
	}
	for _, name := range []string{img.Digest, img.Digest[:len("sha256:")+12], strings.TrimPrefix(img.Digest, "sha256:")[:12], ref, "host/name@" + img.Digest} {
		if g, err := s.Get(name); err != nil || g.Digest != img.Digest {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Get("sha256:0123"); !errors.Is(err, ErrNoImage) {
		t.Errorf("%v", err)
	}
}

// Layers that images have in common are stored once, and stay while one needs them.
func TestImagesShareLayers(t *testing.T) {
	cache := t.TempDir()
	s := OpenImages(cache, nil)
	base := baseLayer(t)
	one, err := s.Import(t.Context(), makeImage(t, "gzip", base).layout(t))
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Import(t.Context(), makeImage(t, "gzip", base, upperLayer(t)).layout(t))
	if err != nil {
		t.Fatal(err)
	}
	if two.Copied >= two.Bytes-one.layers[0].size+1 {
		t.Errorf("copied %d of %d bytes", two.Copied, two.Bytes)
	}
	if _, err := s.Open(t.Context(), two); err != nil { // the more recently used
		t.Fatal(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 || list[0].Digest != two.Digest || !list[0].Tree {
		t.Fatalf("%+v, %v", list, err)
	}
	// A blob that a killed import left.
	if err := os.WriteFile(filepath.Join(cache, "blobs/sha256/.new-1"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	gone, err := s.Prune(t.Context(), 1<<20)
	if err != nil || len(gone.Images) != 0 {
		t.Fatalf("%+v, %v", gone, err)
	}
	if _, err := os.Stat(filepath.Join(cache, "blobs/sha256/.new-1")); err == nil {
		t.Error("a half blob stays")
	}
	gone, err = s.Prune(t.Context(), 0, two.Digest)
	if err != nil || !slices.Equal(gone.Images, []string{one.Digest}) {
		t.Fatalf("%+v, %v", gone, err)
	}
	if _, err := os.Stat(s.blob(two.layers[0].digest)); err != nil {
		t.Errorf("the layer that the other needs: %v", err)
	}
	if _, err := s.Prune(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if left := inCache(t, cache); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// What an image may not be; none leaves anything in the cache.
func TestImportHostile(t *testing.T) {
	base := baseLayer(t)
	shas := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	first := func(m *made) map[string]any { return m.manifest["layers"].([]any)[0].(map[string]any) }
	cfg := func(m *made) map[string]any { return m.config["config"].(map[string]any) }
	for _, tt := range []struct {
		name, says string
		spoil      func(m *made)
	}{
		{"another architecture", "this machine is", func(m *made) { m.config["architecture"] = "s390x" }},
		{"another system", "this machine is", func(m *made) { m.config["os"] = "windows" }},
		{"a size that is too small", "size or digest", func(m *made) { first(m)["size"] = len(m.layers[0]) - 1 }},
		{"a size that is too great", "size or digest", func(m *made) { first(m)["size"] = len(m.layers[0]) + 1 }},
		{"a negative size", "bytes, at most", func(m *made) { first(m)["size"] = -1 }},
		{"a huge size", "bytes, at most", func(m *made) { first(m)["size"] = int64(1) << 60 }},
		{"sizes that overflow together", "bytes", func(m *made) {
			l := []any{}
			for range 3 {
				l = append(l, map[string]any{"digest": first(m)["digest"], "size": int64(20) << 30})
			}
			m.manifest["layers"] = l
		}},
		{"a digest of other bytes", "size or digest", func(m *made) {
			m.blobs[shas("a")] = m.layers[0]
			first(m)["digest"] = shas("a")
		}},
		{"a digest that is a path", "digest", func(m *made) { first(m)["digest"] = "sha256:../../../../etc/passwd" }},
		{"a digest of another kind", "digest", func(m *made) { first(m)["digest"] = "md5:" + strings.Repeat("a", 64) }},
		{"a digest in capitals", "digest", func(m *made) { first(m)["digest"] = "sha256:" + strings.Repeat("A", 64) }},
		{"a layer that is not there", "layer 0", func(m *made) { first(m)["digest"] = shas("b") }},
		{"a plain layer of other content", "configuration names", func(m *made) { m.config["rootfs"] = map[string]any{"diff_ids": []string{shas("c")}} }},
		{"no plain layers", "names 0 layers", func(m *made) { delete(m.config, "rootfs") }},
		{"too many layers", "layers, at most", func(m *made) {
			m.manifest["layers"] = slices.Repeat(m.manifest["layers"].([]any), 129)
		}},
		{"a configuration of 100 MB", "at most", func(m *made) { m.config["x"] = strings.Repeat("x", 100<<20) }},
		{"a configuration that is a list", "configuration", func(m *made) {
			b := []byte(`[1]`)
			m.blobs[digestOf(b)] = b
			m.manifest["config"] = map[string]any{"digest": digestOf(b), "size": len(b)}
		}},
		{"a configuration of another size", "size or digest", func(m *made) {
			b := doc(m.config)
			m.blobs[digestOf(b)] = b
			m.manifest["config"] = map[string]any{"digest": digestOf(b), "size": 1}
		}},
		{"a variable without a name", "NAME=VALUE", func(m *made) { cfg(m)["Env"] = []string{"=x"} }},
		{"ten thousand variables", "variables", func(m *made) { cfg(m)["Env"] = slices.Repeat([]string{"A=b"}, 10_000) }},
		{"a working directory that leads up", "absolute path", func(m *made) { cfg(m)["WorkingDir"] = "../.." }},
		{"numbers for words", "configuration", func(m *made) { cfg(m)["Cmd"] = []int{1} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := makeImage(t, "gzip", base)
			tt.spoil(m)
			hostile(t, m.layout(t), tt.says)
		})
	}
	for name, layer := range map[string][]byte{
		"a name that leads out":        archive(t, file{"../x", 0, "x", 0}),
		"a hard link out":              archive(t, file{"h", tar.TypeLink, "../../etc/passwd", 0}),
		"a file through a link out":    archive(t, file{"l", tar.TypeSymlink, "/etc", 0}, file{"l/passwd", 0, "x", 0}),
		"a whiteout of the parent":     archive(t, file{"a/.wh...", 0, "", 0}),
		"no archive":                   []byte(strings.Repeat("no archive ", 1000)),
		"cut in the middle":            base[:513],
		"etc that leads out":           archive(t, file{"etc", tar.TypeSymlink, "/etc", 0}),
		"etc that is a file":           archive(t, file{"etc", 0, "x", 0}),
		"a bomb":                       archive(t, file{"zeros", 0, strings.Repeat("\x00", 64<<20), 0}),
		"two hundred directories deep": archive(t, file{strings.Repeat("d/", 200) + "f", 0, "", 0}),
	} {
		for _, how := range []string{"gzip", "zstd"} {
			if name == "a bomb" && how == "gzip" { // deflate packs at most 1 to 1032
				continue
			}
			t.Run(name+" "+how, func(t *testing.T) { hostile(t, makeImage(t, how, layer).layout(t), "") })
		}
	}
	t.Run("devices and set-id are left out", func(t *testing.T) {
		s := OpenImages(t.TempDir(), nil)
		img, err := s.Import(t.Context(), makeImage(t, "", archive(t, file{"dev/sda", tar.TypeBlock, "", 0}, file{"su", 0, "su", 0o6755}, file{"p", tar.TypeFifo, "", 0})).layout(t))
		if err != nil {
			t.Fatal(err)
		}
		dir, err := s.Open(t.Context(), img)
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(filepath.Join(dir, "su"))
		if err != nil || fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%v, %v", fi, err)
		}
		for _, p := range []string{"dev/sda", "p"} {
			if _, err := os.Lstat(filepath.Join(dir, p)); err == nil {
				t.Errorf("%s is there", p)
			}
		}
	})
}

// hostile tries an image that must be refused, with an error of its kind, and
// must leave nothing.
func hostile(t *testing.T, ref, says string) {
	t.Helper()
	cache := t.TempDir()
	s := OpenImages(cache, nil)
	img, err := s.Import(t.Context(), ref)
	if err == nil {
		// What only the layers' content shows. The import stays: it is what it says it is.
		if _, err = s.Open(t.Context(), img); err == nil {
			t.Fatal("opened")
		}
		if ents, _ := os.ReadDir(s.trees()); len(ents) != 0 {
			t.Errorf("left %v", ents)
		}
		if _, perr := s.Prune(t.Context(), 0); perr != nil {
			t.Errorf("prune: %v", perr)
		}
	} else if !errors.Is(err, ErrImage) && !errors.Is(err, ErrTooLarge) {
		t.Errorf("no error of images: %v", err)
	}
	if !strings.Contains(err.Error(), says) || len(err.Error()) > 2000 {
		t.Errorf("%.300v, want %q", err, says)
	}
	if left := inCache(t, cache); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestLayoutChoice(t *testing.T) {
	base := baseLayer(t)
	blobs := map[string][]byte{}
	entry := func(arch, tag string, how string) map[string]any {
		m := makeImage(t, how, base)
		if arch != "" {
			m.config["architecture"] = arch
		}
		config := doc(m.config)
		m.manifest["config"] = map[string]any{"digest": digestOf(config), "size": len(config)}
		manifest := doc(m.manifest)
		m.blobs[digestOf(config)], m.blobs[digestOf(manifest)] = config, manifest
		for d, b := range m.blobs {
			blobs[d] = b
		}
		e := map[string]any{"digest": digestOf(manifest), "size": len(manifest)}
		if arch != "" {
			e["platform"] = map[string]any{"os": "linux", "architecture": arch}
		}
		if tag != "" {
			e["annotations"] = map[string]string{"org.opencontainers.image.ref.name": tag}
		}
		return e
	}
	here, there := entry(runtime.GOARCH, "", ""), entry("s390x", "", "")
	index := doc(map[string]any{"manifests": []any{there, here}})
	blobs[digestOf(index)] = index
	nested := map[string]any{"digest": digestOf(index), "size": len(index)}
	self := map[string]any{"manifests": []any{nested}}
	a, b := entry("", "a", "gzip"), entry("", "b", "zstd")
	for _, tt := range []struct {
		name string
		pick string
		list []any
		want any // digest or what the error says
	}{
		{"this machine's", "", []any{there, here}, here["digest"]},
		{"of an index in an index", "", []any{nested}, here["digest"]},
		{"by tag", ":b", []any{a, b}, b["digest"]},
		{"by digest", "@" + a["digest"].(string), []any{a, b}, a["digest"]},
		{"not said which", "", []any{a, b}, errors.New("say which")},
		{"none for this machine", "", []any{there}, errors.New("only for")},
		{"no such tag", ":c", []any{a, b}, errors.New(`no "c"`)},
		{"none", "", nil, errors.New("no image")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			img, err := OpenImages(t.TempDir(), nil).Import(t.Context(), writeLayout(t, blobs, map[string]any{"manifests": tt.list})+tt.pick)
			if want, ok := tt.want.(error); ok {
				if err == nil || !strings.Contains(err.Error(), want.Error()) {
					t.Errorf("%v, want %v", err, want)
				}
				return
			}
			if err != nil || img.Digest != tt.want {
				t.Errorf("%v, %v", img, err)
			}
		})
	}
	// Indexes in indexes end.
	for range 6 {
		ix := doc(self)
		blobs[digestOf(ix)] = ix
		self = map[string]any{"manifests": []any{map[string]any{"digest": digestOf(ix), "size": len(ix)}}}
	}
	if _, err := OpenImages(t.TempDir(), nil).Import(t.Context(), writeLayout(t, blobs, self)); !errors.Is(err, ErrImage) {
		t.Errorf("%v", err)
	}
}

// A registry on the open net that leads into this network is not followed.
func TestRegistryLeadsInward(t *testing.T) {
	asked := false
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked = true; w.WriteHeader(http.StatusOK) }))
	defer inner.Close()
	c := &http.Client{Transport: outward("registry.example:5000")}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, inner.URL, nil)
	if resp, err := c.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("dialled a private address for another host")
	}
	if asked {
		t.Error("it was asked")
	}
	c.Transport = outward(strings.TrimPrefix(inner.URL, "http://")) // a registry that stands here itself
	if resp, err := c.Do(req); err != nil {
		t.Error(err)
	} else {
		_ = resp.Body.Close()
	}
}

func TestImportStops(t *testing.T) {
	ref := makeImage(t, "", baseLayer(t)).layout(t)
	cache := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenImages(cache, nil).Import(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left := inCache(t, cache); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// Foreign documents: any bytes are an image or an error, and leave nothing but an image.
func FuzzImport(f *testing.F) {
	layer := archive(f, file{"bin/sh", 0, "#!", 0o755})
	m := makeImage(f, "", layer)
	m.layout(f)
	f.Add(doc(m.manifest), doc(m.config), []byte(`{"manifests":[{"digest":"D","size":1}]}`))
	f.Add([]byte(`{"layers":[{}]}`), []byte(`{"rootfs":{"diff_ids":[""]}}`), []byte(`{"manifests":[]}`))
	f.Fuzz(func(t *testing.T, manifest, config, index []byte) {
		// Digests that hold, so that what stands behind them is reached.
		manifest = bytes.ReplaceAll(manifest, []byte("C"), []byte(digestOf(config)))
		index = bytes.ReplaceAll(index, []byte("D"), []byte(digestOf(manifest)))
		blobs := map[string][]byte{digestOf(layer): layer, digestOf(config): config, digestOf(manifest): manifest}
		dir := strings.TrimPrefix(writeLayout(t, blobs, map[string]any{}), "oci:")
		if err := os.WriteFile(filepath.Join(dir, "index.json"), index, 0o644); err != nil {
			t.Fatal(err)
		}
		cache := t.TempDir()
		s := OpenImages(cache, nil)
		img, err := s.Import(t.Context(), "oci:"+dir)
		if err != nil {
			if left := inCache(t, cache); len(left) != 0 {
				t.Fatalf("%v left %v", err, left)
			}
			return
		}
		if again, err := s.Get(img.Digest); err != nil || again.Layers != img.Layers {
			t.Fatalf("%v, %v", again, err)
		}
	})
}
