package rootfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

// Places of an image by the longest prefix, mirrors first.
func TestMirrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "registries.conf")
	text := `
unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "docker.io"
location = "docker.io"
[[registry.mirror]]
location = "mirror.example/hub"
[[registry]]
prefix = "docker.io/library"
location = "own.example/base"
[[registry]]
prefix = "*.example.org"
blocked = true
[[registry]]
location = "quay.example"
insecure = true
[[registry.mirror]]
location = "near.example"
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readRegistries(registriesFile(func(k string) string {
		return map[string]string{"CONTAINERS_REGISTRIES_CONF": file}[k]
	}))
	if err != nil {
		t.Fatal(err)
	}
	digest := "@sha256:" + strings.Repeat("ab", 32)
	for ref, want := range map[string]string{
		"python:3.13":              "own.example/base/python:3.13",
		"someone/thing" + digest:   "mirror.example/hub/someone/thing" + digest + " index.docker.io/someone/thing" + digest,
		"quay.example/a/b:1":       "near.example/a/b:1 quay.example/a/b:1",
		"quay.examples/a/b:1":      "quay.examples/a/b:1",
		"other.example/x" + digest: "other.example/x" + digest,
		"a.example.org/x:1":        "",
	} {
		r, err := name.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.places(r)
		var got []string
		for _, x := range list {
			got = append(got, x.Name())
		}
		if (err == nil) != (want != "") || strings.Join(got, " ") != want {
			t.Errorf("%s: %v %v, want %s", ref, got, err, want)
		}
	}
	for name, bad := range map[string]string{"no TOML": "[[registry", "a mirror that is no place": "[[registry]]\nlocation = \"x.example\"\n[[registry.mirror]]\nlocation = \"NO PLACE\"\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readRegistries(file)
		if err == nil {
			_, err = c.places(must(parseRef("x.example/a:1")))
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if c, err := readRegistries(filepath.Join(t.TempDir(), "none")); err != nil || len(c.Registry) != 0 {
		t.Errorf("%v %v", c, err)
	}
}

func parseRef(s string) (name.Reference, error) { return name.ParseReference(s) }
