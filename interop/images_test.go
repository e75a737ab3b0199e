//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// What buildah and skopeo save is imported, in both forms, and the second time
// nothing is copied; what agon exports is read by both.
func TestSavedArchives(t *testing.T) {
	for _, tool := range []string{"buildah", "skopeo"} {
		if _, err := exec.LookPath(tool); err != nil {
			interoptest.Absent(t, tool+" (Debian: apt-get install buildah skopeo)")
		}
	}
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	sh := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		var errs strings.Builder
		cmd.Dir, cmd.Stderr = dir, &errs
		cmd.Env = append(os.Environ(), "STORAGE_DRIVER=vfs", "BUILDAH_ISOLATION=chroot", "AGON_CACHE="+at("cache"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
	buildah := func(args ...string) string {
		t.Helper()
		return sh("buildah", append([]string{"--root", at("storage"), "--runroot", at("run")}, args...)...)
	}
	type image struct {
		Digest  string
		Layers  int
		Bytes   int64
		Copied  int64
		Licence string
		Missing []string
		Config  struct {
			Env     []string
			Dir     string   `json:"working_dir"`
			Command []string `json:"cmd"`
		}
	}
	agon := func(args ...string) (x image) {
		t.Helper()
		if out := sh(agonBinary(t), append(args, "--data", at("data"), "-o", "json")...); json.Unmarshal([]byte(out), &x) != nil {
			t.Fatalf("agon %v: %s", args, out)
		}
		return x
	}
	if err := os.WriteFile(at("one"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("two"), []byte("two\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := buildah("from", "scratch")
	buildah("copy", c, "one", "/srv/one")
	buildah("config", "--env", "FROM_IMAGE=yes", "--workingdir", "/srv", "--cmd", "sh", "--label", "org.opencontainers.image.licenses=MIT", c)
	buildah("commit", c, "first")
	c = buildah("from", "localhost/first")
	buildah("copy", c, "two", "/bin/sh")
	buildah("commit", c, "localhost/second:v1")
	buildah("push", "localhost/second:v1", "docker-archive:"+at("b-docker.tar")+":second:v1")
	buildah("push", "localhost/second:v1", "oci-archive:"+at("b-oci.tar")+":v1")
	sh("skopeo", "copy", "oci-archive:"+at("b-oci.tar")+":v1", "docker-archive:"+at("s-docker.tar")+":x/second:v1")
	sh("skopeo", "copy", "docker-archive:"+at("b-docker.tar"), "oci-archive:"+at("s-oci.tar")+":v1")
	var last image
	for _, f := range []string{"b-docker", "b-oci", "s-docker", "s-oci"} {
		x := agon("image", "import", "archive:"+at(f+".tar"))
		if x.Layers != 2 || x.Bytes == 0 || x.Licence != "MIT" || strings.Join(x.Config.Env, " ") != "FROM_IMAGE=yes" || x.Config.Dir != "/srv" || strings.Join(x.Config.Command, " ") != "sh" {
			t.Errorf("%s: %+v", f, x)
		}
		again := agon("image", "import", "archive:"+at(f+".tar"))
		if again.Digest != x.Digest || again.Copied != 0 {
			t.Errorf("%s, the second time: %+v", f, again)
		}
		last = again
	}
	if c := agon("image", "check", last.Digest); strings.Join(c.Missing, " ") != "git python3" {
		t.Errorf("check: %+v", c)
	}
	agon("image", "export", last.Digest, at("out"))
	if out := sh("skopeo", "inspect", "oci:"+at("out")); !strings.Contains(out, last.Digest) {
		t.Errorf("skopeo reads another image:\n%s", out)
	}
	sh("skopeo", "copy", "oci:"+at("out"), "docker-archive:"+at("back.tar")+":back:v1")
	buildah("pull", "docker-archive:"+at("back.tar"))
}
