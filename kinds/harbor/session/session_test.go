package session_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/harbor/session"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// serve is a server over real boxes, and a client of it.
func serve(t *testing.T, most int) (*session.Server, func(method, path string, body any) (int, []byte)) {
	t.Helper()
	d, root, err := kit.OpenDriver(t.Context(), kittest.Options(t.TempDir(), nil))
	if err != nil {
		t.Fatalf("no box, nothing can be tried: %v", err)
	}
	return over(t, d, rootfs.NewRoots(root, nil), most)
}

func over(t *testing.T, d sandbox.Driver, roots *rootfs.Roots, most int) (*session.Server, func(method, path string, body any) (int, []byte)) {
	t.Helper()
	tools := t.TempDir()
	if err := os.Chmod(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tools+"/apt-get", []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := session.New(session.Config{
		Driver: d, Roots: roots, Token: "secret", Max: most, Idle: time.Hour, Tools: tools, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Most: agon.Limits{WallMS: 60_000, CPUMilli: 2000, MemoryBytes: 1 << 30, Pids: 128, DiskBytes: 256 << 20, Inodes: 10_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() { srv.Close(); s.Close() })
	return s, func(method, path string, body any) (int, []byte) {
		t.Helper()
		var in io.Reader
		switch b := body.(type) {
		case nil:
		case []byte:
			in = bytes.NewReader(b)
		default:
			text, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			in = bytes.NewReader(text)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, in)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, out
	}
}

func TestBox(t *testing.T) {
	_, do := serve(t, 1)
	must := func(want int, method, path string, body any) []byte {
		t.Helper()
		status, b := do(method, path, body)
		if status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, b)
		}
		return b
	}
	ask := map[string]any{"name": "one", "workdir": "/app", "env": map[string]string{"A": "b"}, "memory_mb": 256, "cpus": 0.5}
	must(201, "POST", "/v1/boxes", ask)
	must(200, "POST", "/v1/boxes", ask) // a caller that lost the answer finds the same box
	must(409, "POST", "/v1/boxes", map[string]any{"name": "one"})
	must(429, "POST", "/v1/boxes", map[string]any{"name": "two"})
	run := func(body map[string]any) session.Result {
		t.Helper()
		var r session.Result
		if err := json.Unmarshal(must(200, "POST", "/v1/boxes/one/exec", body), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct {
		body map[string]any
		want session.Result
	}{
		{map[string]any{"command": `pwd; echo $A-$B; id -u; echo oops >&2; exit 3`, "env": map[string]string{"B": "c"}}, session.Result{Stdout: "/app\nb-c\n0\n", Stderr: "oops\n", ReturnCode: 3}},
		{map[string]any{"args": []string{"cat"}, "stdin": []byte("in")}, session.Result{Stdout: "in"}},
		{map[string]any{"command": "id -u", "user": 1000}, session.Result{Stdout: "1000\n"}},
		{map[string]any{"command": "apt-get install -y curl && mkdir /anywhere && touch /usr/bin/mine"}, session.Result{}},
		{map[string]any{"command": "sleep 60", "timeout_sec": 0.3}, session.Result{ReturnCode: 124, Limit: "wall"}},
	} {
		got := run(c.body)
		got.MS = 0
		if got != c.want {
			t.Errorf("%v: %+v, want %+v", c.body, got, c.want)
		}
	}
	must(204, "PUT", "/v1/boxes/one/file?path=/deep/er/f&mode=755", []byte("#!/bin/sh\necho ran\n"))
	if got := run(map[string]any{"command": "/deep/er/f"}); got.Stdout != "ran\n" {
		t.Errorf("%+v", got)
	}
	if b := must(200, "GET", "/v1/boxes/one/file?path=/deep/er/f", nil); !bytes.Contains(b, []byte("echo ran")) {
		t.Errorf("%s", b)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "sub/x", Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	must(204, "PUT", "/v1/boxes/one/tree?path=/tests", buf.Bytes())
	found := ""
	for r := tar.NewReader(bytes.NewReader(must(200, "GET", "/v1/boxes/one/tree?path=/tests", nil))); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		found += h.Name + " "
	}
	if !strings.Contains(found, "./sub/x") {
		t.Errorf("tree holds %s", found)
	}
	must(404, "GET", "/v1/boxes/one/file?path=/none", nil)
	must(422, "GET", "/v1/boxes/one/file?path=/tests", nil)
	must(422, "PUT", "/v1/boxes/one/file?path=/tests", []byte("x"))
	must(204, "DELETE", "/v1/boxes/one", nil)
	must(204, "DELETE", "/v1/boxes/one", nil)
	must(404, "POST", "/v1/boxes/one/exec", map[string]any{"command": "true"})
}

// none is a driver that must not be asked.
type none struct{ sandbox.Driver }

func (none) Info() agon.Driver { return agon.Driver{Name: "none"} }
func (none) Start(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return nil, fmt.Errorf("%w: full", sandbox.ErrHost)
}

func TestRefusals(t *testing.T) {
	s, do := over(t, none{}, rootfs.NewRoots("/", nil), 3)
	for _, c := range []struct {
		body, code, field string
		status            int
	}{
		{`{`, "bad_json", "body", 422},
		{`{"nmae": "x"}`, "bad_json", "body", 422},
		{`{} {}`, "bad_json", "body", 422},
		{`{"name": "../x"}`, "bad_field", "name", 422},
		{`{"cpus": -1}`, "bad_field", "cpus", 422},
		{`{"cpus": 1000}`, "bad_field", "cpus", 422},
		{`{"memory_mb": 100000}`, "bad_field", "memory_mb", 422},
		{`{"workdir": "app"}`, "bad_field", "workdir", 422},
		{`{"env": {"A=B": ""}}`, "bad_field", "env", 422},
		{`{"image": "debian:latest"}`, "bad_image", "image", 422},
		{`{"name": "` + strings.Repeat("x", session.MaxBody) + `"}`, "too_large", "body", 413},
		{`{}`, "host", "", 503},
	} {
		status, b := do("POST", "/v1/boxes", []byte(c.body))
		var p struct{ Code, Field string }
		if err := json.Unmarshal(b, &p); err != nil || status != c.status || p.Code != c.code || p.Field != c.field {
			t.Errorf("%.60s: %d %s (%v)", c.body, status, b, err)
		}
	}
	if status, b := do("GET", "/v1/boxes", nil); status != 200 || string(b) != "{\"items\":[]}\n" {
		t.Errorf("what was refused stays: %d %s", status, b)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/v1/boxes", nil))
	if w.Code != 401 {
		t.Errorf("without a token: %d", w.Code)
	}
}

// No request that is not a box's takes the server down, or is answered as if it were one.
func FuzzCreate(f *testing.F) {
	for _, s := range []string{`{}`, `{"name":"x","cpus":1e308}`, `{"env":{"":""}}`, `{"memory_mb":-9223372036854775808}`, `{"image":"sha256:0"}`} {
		f.Add([]byte(s))
	}
	s, err := session.New(session.Config{
		Driver: none{}, Roots: rootfs.NewRoots("/", nil), Token: "secret", Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Most: agon.Limits{CPUMilli: 1000, MemoryBytes: 1 << 30, DiskBytes: 1 << 30},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("@")) {
			t.Skip("an image would be asked for")
		}
		r := httptest.NewRequest("POST", "/v1/boxes", bytes.NewReader(b))
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 422 && w.Code != 413 && w.Code != 503 {
			t.Errorf("%q: %d", b, w.Code)
		}
	})
}
