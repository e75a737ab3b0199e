package rootfs

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/agon-arena/agon/internal/fetch"
)

// Where images come from: a registry, a directory in OCI layout, or a saved
// archive in OCI or docker form. All of it is foreign: every document and name
// has a limit, and what a manifest says of sizes and digests is checked.

const (
	maxDocument = 4 << 20 // bytes of an index, a manifest or a configuration
	maxMembers  = 200_000 // files of an archive
	maxDescents = 4       // indexes in indexes
)

// ErrImage is an image that cannot be used, and why.
var ErrImage = errors.New("bad image")

func badImage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrImage, fmt.Sprintf(format, args...))
}

// source is one image where it comes from.
type source struct {
	manifest []byte // as it stands there, or as made for a docker archive
	config   []byte
	layers   []layer
	// open gives the bytes of a layer as they are stored there.
	open  func(ctx context.Context, i int) (io.ReadCloser, error)
	close func() error
}

// layer is one layer as its manifest names it.
type layer struct {
	digest string // sha256:… of the stored bytes
	size   int64
}

// digest names the image: of its manifest.
func (s *source) digest() string { return digestOf(s.manifest) }

func digestOf(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}

// openSource finds the image that a reference names.
func openSource(ctx context.Context, ref string) (*source, error) {
	switch scheme, rest, _ := strings.Cut(ref, ":"); {
	case scheme == "oci" && rest != "":
		dir, pick := splitPick(rest)
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, badImage("%s: %v", ref, err)
		}
		s, err := layoutSource(dirFiles{root}, pick)
		return closing(s, err, root.Close)
	case scheme == "archive" && rest != "":
		file, pick := splitPick(rest)
		f, err := os.Open(file)
		if err != nil {
			return nil, badImage("%s: %v", ref, err)
		}
		s, err := archiveSource(f, pick)
		return closing(s, err, f.Close)
	}
	return registrySource(ctx, ref)
}

// splitPick takes "PATH:NAME" and "PATH@sha256:…" apart: the longest path that
// is there, for names have colons and slashes too.
func splitPick(s string) (at, pick string) {
	if i := strings.LastIndex(s, "@sha256:"); i > 0 {
		return s[:i], s[i+1:]
	}
	for at = s; ; {
		if _, err := os.Stat(at); err == nil {
			return at, strings.TrimPrefix(s[len(at):], ":")
		}
		i := strings.LastIndexByte(at, ':')
		if i <= 0 {
			return s, ""
		}
		at = at[:i]
	}
}

func closing(s *source, err error, end func() error) (*source, error) {
	if err != nil {
		_ = end()
		return nil, err
	}
	s.close = end
	return s, nil
}

// files are the named files of a layout or an archive.
type files interface {
	open(name string) (io.ReadCloser, int64, error)
}

type dirFiles struct{ root *os.Root }

func (d dirFiles) open(name string) (io.ReadCloser, int64, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = badImage("%.200q is not a file", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, fi.Size(), nil
}

// tarFiles are the members of an archive on disk, by where they stand in it.
type tarFiles struct {
	f  *os.File
	at map[string][2]int64
}

func (t *tarFiles) open(name string) (io.ReadCloser, int64, error) {
	p, ok := t.at[path.Clean(name)]
	if !ok {
		return nil, 0, fmt.Errorf("%.200q: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(io.NewSectionReader(t.f, p[0], p[1])), p[1], nil
}

func readDocument(f files, name string) ([]byte, error) {
	r, size, err := f.open(name)
	if err != nil {
		return nil, badImage("%v", err)
	}
	defer r.Close()
	if size > maxDocument {
		return nil, badImage("%.200q has %d bytes, at most %d", name, size, maxDocument)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil || len(b) > maxDocument {
		return nil, badImage("read %.200q: %v", name, err)
	}
	return b, nil
}

func archiveSource(f *os.File, pick string) (*source, error) {
	t := &tarFiles{f: f, at: map[string][2]int64{}}
	links := map[string]string{}
	r := tar.NewReader(f)
	for n := 0; ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, badImage("%s is not an archive that can be read (a compressed one must be unpacked first): %v", path.Base(f.Name()), err)
		}
		if n >= maxMembers {
			return nil, badImage("%s has more than %d files", path.Base(f.Name()), maxMembers)
		}
		member := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			off, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, fmt.Errorf("read archive: %w", err)
			}
			t.at[member] = [2]int64{off, h.Size}
		case tar.TypeSymlink:
			links[member] = path.Join(path.Dir(member), h.Linkname)
		case tar.TypeLink:
			links[member] = path.Clean(h.Linkname)
		}
	}
	for from, to := range links { // one step: what saves images links to files only
		if p, ok := t.at[to]; ok {
			if _, taken := t.at[from]; !taken {
				t.at[from] = p
			}
		}
	}
	if _, ok := t.at["index.json"]; ok {
		return layoutSource(t, pick)
	}
	return dockerSource(t, pick)
}

// descriptor is one entry of an index or a manifest.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

type manifestDoc struct {
	SchemaVersion int          `json:"schemaVersion"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
	Manifests     []descriptor `json:"manifests"`
}

// blobName is where a layout keeps the bytes of a digest.
func blobName(digest string) (string, error) {
	h, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || !isHex(h) {
		return "", badImage("digest %.100q: want sha256 and 64 hex digits", digest)
	}
	return "blobs/sha256/" + h, nil
}

func isHex(h string) bool {
	_, err := hex.DecodeString(h)
	return err == nil && len(h) == 64 && h == strings.ToLower(h)
}

// blobDocument reads a document by its descriptor and checks both.
func blobDocument(f files, d descriptor) ([]byte, error) {
	p, err := blobName(d.Digest)
	if err != nil {
		return nil, err
	}
	b, err := readDocument(f, p)
	if err != nil {
		return nil, err
	}
	if int64(len(b)) != d.Size || digestOf(b) != d.Digest {
		return nil, badImage("%s does not have the size or digest that is said of it", d.Digest)
	}
	return b, nil
}

func parse(b []byte, into any, what string) error {
	if err := json.Unmarshal(b, into); err != nil {
		return badImage("%s: %v", what, err)
	}
	return nil
}

// layoutSource finds the image of an OCI layout: the one that is picked by name
// or digest, else the only one for this machine.
func layoutSource(f files, pick string) (*source, error) {
	b, err := readDocument(f, "index.json")
	if err != nil {
		return nil, err
	}
	var doc manifestDoc
	if err := parse(b, &doc, "index.json"); err != nil {
		return nil, err
	}
	for depth := 0; ; depth++ {
		d, err := choose(doc.Manifests, pick)
		if err != nil {
			return nil, err
		}
		if depth == maxDescents {
			return nil, badImage("indexes stand in more than %d indexes", maxDescents)
		}
		if b, err = blobDocument(f, d); err != nil {
			return nil, err
		}
		doc = manifestDoc{}
		if err := parse(b, &doc, "manifest "+d.Digest); err != nil {
			return nil, err
		}
		if len(doc.Manifests) == 0 {
			break
		}
		pick = ""
	}
	s := &source{manifest: b, open: func(_ context.Context, i int) (io.ReadCloser, error) {
		p, err := blobName(doc.Layers[i].Digest)
		if err != nil {
			return nil, err
		}
		r, _, err := f.open(p)
		return r, err
	}}
	if s.config, err = blobDocument(f, doc.Config); err != nil {
		return nil, err
	}
	for _, l := range doc.Layers {
		if _, err := blobName(l.Digest); err != nil {
			return nil, err
		}
		s.layers = append(s.layers, layer{l.Digest, l.Size})
	}
	return s, nil
}

func choose(list []descriptor, pick string) (descriptor, error) {
	var fit []descriptor
	var others, names []string
	for _, d := range list {
		tag := d.Annotations["org.opencontainers.image.ref.name"]
		if tag != "" {
			names = append(names, fmt.Sprintf("%.100q", tag))
		}
		if pick != "" {
			if d.Digest == pick || tag == pick {
				return d, nil
			}
			continue
		}
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
			others = append(others, fmt.Sprintf("%.40s/%.40s", p.OS, p.Architecture))
			continue
		}
		fit = append(fit, d)
	}
	switch {
	case pick != "":
		return descriptor{}, badImage("the layout holds no %.100q; names in it: %.1000s", pick, cmp.Or(strings.Join(names, ", "), "none"))
	case len(fit) == 1:
		return fit[0], nil
	case len(fit) > 1:
		return descriptor{}, badImage("the layout holds %d images; say which: %.1000s", len(fit), strings.Join(names, ", "))
	case len(others) > 0:
		return descriptor{}, badImage("no image for linux/%s, only for %.1000s", runtime.GOARCH, strings.Join(others, ", "))
	}
	return descriptor{}, badImage("the layout holds no image")
}

// dockerSource reads what docker, podman, buildah and skopeo save. Its layers
// are plain, so they have the digests of the configuration.
func dockerSource(f files, pick string) (*source, error) {
	b, err := readDocument(f, "manifest.json")
	if err != nil {
		return nil, badImage("the archive has neither index.json nor manifest.json at its top")
	}
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := parse(b, &list, "manifest.json"); err != nil {
		return nil, err
	}
	at, names := -1, []string{}
	for i, m := range list {
		if pick == "" && len(list) == 1 || slices.ContainsFunc(m.RepoTags, func(tag string) bool { return tag == pick || strings.HasSuffix(tag, "/"+pick) }) {
			at = i
		}
		for _, tag := range m.RepoTags {
			names = append(names, fmt.Sprintf("%.100q", tag))
		}
	}
	if at < 0 {
		return nil, badImage("the archive holds %d images, say which by its name (archive:FILE:NAME): %.1000s", len(list), strings.Join(names, ", "))
	}
	m := list[at]
	s := &source{}
	if s.config, err = readDocument(f, m.Config); err != nil {
		return nil, err
	}
	ids, err := diffIDs(s.config)
	if err != nil {
		return nil, err
	}
	if len(ids) != len(m.Layers) {
		return nil, badImage("the configuration names %d layers, the archive %d", len(ids), len(m.Layers))
	}
	doc := map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": map[string]any{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digestOf(s.config), "size": len(s.config)},
	}
	layers := []map[string]any{}
	for i, l := range m.Layers {
		r, size, err := f.open(l)
		if err != nil {
			return nil, badImage("%v", err)
		}
		_ = r.Close()
		s.layers = append(s.layers, layer{ids[i], size})
		layers = append(layers, map[string]any{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": ids[i], "size": size})
	}
	doc["layers"] = layers
	if s.manifest, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	s.open = func(_ context.Context, i int) (io.ReadCloser, error) {
		r, _, err := f.open(m.Layers[i])
		return r, err
	}
	return s, nil
}

// diffIDs are the digests of an image's plain layers, as its configuration has them.
func diffIDs(config []byte) ([]string, error) {
	var c struct {
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := parse(config, &c, "configuration"); err != nil {
		return nil, err
	}
	for _, d := range c.Rootfs.DiffIDs {
		if _, err := blobName(d); err != nil {
			return nil, err
		}
	}
	return c.Rootfs.DiffIDs, nil
}

// registrySource asks a registry. Credentials are those that docker's or
// podman's configuration names for it, of the mirrors that registries.conf names first. A registry that sends us to an address
// inside this network is not followed, unless it stands there itself.
func registrySource(ctx context.Context, ref string) (*source, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, badImage("%.200q is not an image: want a registry's NAME@sha256:…, oci:DIR or archive:FILE.tar", ref)
	}
	conf, err := readRegistries(registriesFile(os.Getenv))
	if err != nil {
		return nil, err
	}
	places, err := conf.places(r)
	if err != nil {
		return nil, err
	}
	var img v1.Image
	var failed []error
	for _, at := range places {
		img, err = remote.Image(at, remote.WithContext(ctx), remote.WithTransport(outward(at.Context().RegistryStr())), remote.WithAuthFromKeychain(authn.DefaultKeychain),
			remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		if err == nil {
			break
		}
		failed = append(failed, fmt.Errorf("pull image %s: %w", at, err))
		if ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(failed...)
	}
	s := &source{close: func() error { return nil }}
	if s.manifest, err = img.RawManifest(); err == nil {
		s.config, err = img.RawConfigFile()
	}
	if err != nil {
		return nil, fmt.Errorf("pull image %s: %w", ref, err)
	}
	if len(s.manifest) > maxDocument || len(s.config) > maxDocument {
		return nil, badImage("manifest or configuration has more than %d bytes", maxDocument)
	}
	var doc manifestDoc
	if err := parse(s.manifest, &doc, "manifest"); err != nil {
		return nil, err
	}
	if digestOf(s.config) != doc.Config.Digest {
		return nil, badImage("the configuration is not the one that the manifest names")
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != len(doc.Layers) {
		return nil, badImage("its layers: %v", err)
	}
	for _, l := range doc.Layers {
		if _, err := blobName(l.Digest); err != nil {
			return nil, err
		}
		s.layers = append(s.layers, layer{l.Digest, l.Size})
	}
	s.open = func(_ context.Context, i int) (io.ReadCloser, error) { return layers[i].Compressed() }
	return s, nil
}

// outward is a transport for a registry: what stands on the open net does not
// lead into ours.
func outward(registry string) http.RoundTripper {
	host, _, _ := strings.Cut(registry, ":")
	return fetch.Outward(host)
}

// platform says what machine a configuration is for.
func platform(config []byte) error {
	var c struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	if err := parse(config, &c, "configuration"); err != nil {
		return err
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH {
		return badImage("it is for %.40s/%.40s, this machine is linux/%s", c.OS, c.Architecture, runtime.GOARCH)
	}
	return nil
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// compressed tells how a layer's bytes begin.
func compressed(head []byte) string {
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return "gzip"
	case bytes.HasPrefix(head, zstdMagic):
		return "zstd"
	}
	return ""
}
