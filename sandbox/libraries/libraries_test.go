package libraries

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

func TestParseRefuses(t *testing.T) {
	hash := " --hash=sha256:" + strings.Repeat("a", 64)
	for list, says := range map[string]string{
		"":                                "names no package",
		"six==1.0":                        "has no hash",
		"six>=1.0" + hash:                 "want NAME==VERSION",
		"six" + hash:                      "want NAME==VERSION",
		"-r /etc/passwd":                  "want NAME==VERSION",
		"--index-url http://x.example/":   "want NAME==VERSION",
		"six @ https://x.example/six.whl": "want NAME==VERSION",
		"../six==1.0" + hash:              "want NAME==VERSION",
		"six==1.0 --hash=md5:00":          "want --hash=sha256",
		"six==1.0" + hash + " --pre":      "want --hash=sha256",
		"six==1.0" + hash + "; x":         "want --hash=sha256",
		strings.Repeat("six==1.0"+hash+"\n", 501): "more than 500",
		"#" + strings.Repeat("x", MaxList):        "bytes, at most",
	} {
		if _, err := Parse([]byte(list)); !errors.Is(err, ErrList) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80q: %v, want %q", list, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("six==1.0 \\\n  --hash=sha256:" + strings.Repeat("a", 64) + "\n# x"))
	f.Fuzz(func(t *testing.T, list []byte) {
		packages, err := Parse(list)
		if err == nil && len(packages) == 0 || err != nil && !errors.Is(err, ErrList) {
			t.Fatal(packages, err)
		}
	})
}

// wheel makes a package of one module.
func wheel(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	info := name + "-1.0.dist-info/"
	for _, f := range [][2]string{
		{name + ".py", text},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""},
	} {
		e, err := w.Create(f[0])
		if err == nil {
			_, err = e.Write([]byte(f[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A list is installed once in a real box, from an index of ours, and found by the
// agent's Python; other bytes than the list's are refused and leave nothing.
func TestEnsure(t *testing.T) {
	own, err := rootfs.Ensure(t.Context(), rootfs.Config{})
	if errors.Is(err, rootfs.ErrUnsupported) {
		t.Skip("LOUD: no root file system can be made here, this test did not run: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp("", "agon-libraries-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(state)
	d, _, err := probe.Probe(context.Background(), probe.Config{Rootfs: own, StateDir: state, Want: os.Getenv("AGON_DRIVER")})
	if err != nil {
		t.Skip("LOUD: no sandbox works here, this test did not run: ", err)
	}
	w := wheel(t, "thing", "word = 'of the library'\n")
	asked := 0
	index := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/simple/thing/":
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, `<a href="/f/thing-1.0-py3-none-any.whl">thing-1.0-py3-none-any.whl</a>`)
		case "/f/thing-1.0-py3-none-any.whl":
			asked++
			_, _ = rw.Write(w)
		default:
			http.NotFound(rw, r)
		}
	}))
	defer index.Close()
	s := &Store{Dir: t.TempDir(), Own: own, Driver: d, getenv: func(k string) string {
		if k == "PIP_INDEX_URL" {
			return index.URL + "/simple"
		}
		return ""
	}}
	bad := []byte("thing==1.0 --hash=sha256:" + strings.Repeat("a", 64))
	if _, err := s.Ensure(t.Context(), bad); !errors.Is(err, ErrList) {
		t.Fatalf("other bytes than the list's: %v", err)
	}
	if ents, _ := os.ReadDir(s.Dir); len(ents) != 1 { // the lock
		t.Errorf("left %v", ents)
	}
	list := []byte("thing==1.0 --hash=" + string(agon.Sum(w)))
	dir, err := s.Ensure(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	n := asked
	if again, err := s.Ensure(t.Context(), list); err != nil || again != dir || asked != n {
		t.Errorf("%s, %v, asked %d times", again, err, asked)
	}
	m, env, err := Mount(own, dir)
	if err != nil {
		t.Fatal(err)
	}
	box, err := d.Start(t.Context(), sandbox.Spec{Name: "agent", Rootfs: own, Mounts: []sandbox.Mount{m}, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var out bytes.Buffer
	x, err := box.Exec(t.Context(), sandbox.Cmd{Args: []string{"python3", "-I", "-c", "import thing, requests; print(thing.word)"}, Stdout: &out, Stderr: &out})
	if err != nil || x.Code != 0 || strings.TrimSpace(out.String()) != "of the library" {
		t.Errorf("%+v, %v: %s", x, err, out.String())
	}
}
