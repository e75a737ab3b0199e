package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

func TestContentIDs(t *testing.T) {
	for text, want := range map[string][2]string{
		"hello world":   {"bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e", "Qmf412jQZiuVUtdgnB36FXFX7xg5V6KEbSJ4dpQuhkLyfD"},
		"hello world\n": {"", "QmT78zSuBmuS4z925WZfrqQ1qHaJ56DQaTfyMUF7F8ff5o"},
	} {
		b := []byte(text)
		if want[0] != "" && CIDv1(b) != want[0] || want[1] != "" && CIDv0(b) != want[1] {
			t.Errorf("%q: %s %s", text, CIDv1(b), CIDv0(b))
		}
		for _, at := range []string{CIDv0(b), CIDv1(b), string(agon.Sum(b))} {
			if !Verify(at, b) || Verify(at, []byte("other")) {
				t.Errorf("%s is not checked", at)
			}
		}
	}
	if Verify("https://a.example/x", []byte("x")) {
		t.Error("a URL names no bytes")
	}
}

func TestFolder(t *testing.T) {
	f := Folder{filepath.Join(t.TempDir(), "new")}
	at, err := f.Put(t.Context(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if b, _, err := f.Get(t.Context(), at); err != nil || string(b) != "x" {
		t.Errorf("%s %v", b, err)
	}
	for _, bad := range []string{"", "../x", string(agon.Sum([]byte("y"))), "sha256:" + strings.Repeat("/", 64)} {
		if _, _, err := f.Get(t.Context(), bad); !errors.Is(err, ErrNotHere) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	d := agon.Sum(nil)
	if err := os.WriteFile(filepath.Join(f.Dir, d.Hex()+".json"), make([]byte, MaxPayload+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Get(t.Context(), string(d)); err == nil {
		t.Error("a payload over the limit was read")
	}
}

// A node whose answer is not of the bytes, a gateway that gives other bytes:
// neither is believed, the next source is asked.
func TestIPFS(t *testing.T) {
	kept := map[string][]byte{}
	lie, down := false, false
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v0/add", func(w http.ResponseWriter, r *http.Request) {
		f, _, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		b, _ := io.ReadAll(f)
		at := CIDv1(b)
		kept[at] = b
		if lie {
			at = CIDv1([]byte("something else"))
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"Hash": at})
	})
	mux.HandleFunc("POST /api/v0/cat", func(w http.ResponseWriter, r *http.Request) {
		b, ok := kept[r.URL.Query().Get("arg")]
		if !ok || down {
			http.Error(w, "no", 500)
			return
		}
		_, _ = w.Write(b)
	})
	node := httptest.NewServer(mux)
	defer node.Close()
	corrupt := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer corrupt.Close()
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(kept[strings.TrimPrefix(r.URL.Path, "/ipfs/")])
	}))
	defer good.Close()
	env := func(k string) string {
		return map[string]string{"IPFS_GATEWAYS": corrupt.URL + ", " + good.URL}[k]
	}
	s, err := OpenStore("ipfs+"+node.URL+"/api/v0", env, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b := sound().Canonical()
	at, err := s.Put(t.Context(), b)
	if err != nil || at != CIDv1(b) {
		t.Fatal(at, err)
	}
	if got, from, err := s.Get(t.Context(), at); err != nil || string(got) != string(b) || from != "ipfs" {
		t.Errorf("%v from %s", err, from)
	}
	down = true
	if got, from, err := s.Get(t.Context(), at); err != nil || string(got) != string(b) || from != good.URL {
		t.Errorf("%v from %s", err, from)
	}
	lie = true
	if _, err := s.Put(t.Context(), b); err == nil {
		t.Error("a content id of other bytes was taken")
	}
	if _, _, err := s.Get(context.Background(), "../x"); !errors.Is(err, ErrNotHere) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "s3://", "https://x.example", "folder,s3://"} {
		if _, err := OpenStore(bad, env, nil, time.Now); err == nil {
			t.Errorf("%q was opened", bad)
		}
	}
}

// The bucket is spoken to as S3 clients do; the hash is the caller's to check.
func TestS3(t *testing.T) {
	objects := map[string][]byte{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPut:
			b, _ := io.ReadAll(r.Body)
			if r.Header.Get("X-Amz-Content-Sha256") == "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" || strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
				// One signed chunk: size;signature, the bytes, and an empty chunk.
				_, rest, _ := strings.Cut(string(b), "\r\n")
				body, _, _ := strings.Cut(rest, "\r\n0;")
				b = []byte(body)
			}
			objects[r.URL.Path] = b
			w.Header().Set("ETag", `"x"`)
		default:
			b, ok := objects[r.URL.Path]
			if !ok {
				w.WriteHeader(404)
				_, _ = w.Write([]byte(`<Error><Code>NoSuchKey</Code></Error>`))
				return
			}
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			_, _ = w.Write(b)
		}
	}))
	defer h.Close()
	s, err := OpenStore("s3://packs/window", func(k string) string {
		return map[string]string{"S3_ENDPOINT_URL": h.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}[k]
	}, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b := sound().Canonical()
	at, err := s.Put(t.Context(), b)
	if err != nil || at != string(agon.Sum(b)) {
		t.Fatal(at, err)
	}
	if got, from, err := s.Get(t.Context(), at); err != nil || string(got) != string(b) || from != "s3" {
		t.Errorf("%v %s %.80q", err, from, got)
	}
	if _, _, err := s.Get(t.Context(), string(agon.Sum([]byte("none")))); !errors.Is(err, ErrNotHere) {
		t.Errorf("%v", err)
	}
}

type brokenStore struct{ lies []byte }

func (s brokenStore) Put(context.Context, []byte) (string, error) {
	return "", errors.New("it is down")
}

func (s brokenStore) Get(context.Context, string) ([]byte, string, error) {
	if s.lies != nil {
		return s.lies, "a liar", nil
	}
	return nil, "", errors.New("it is down")
}

// Of two stores one may be down, or give other bytes; an address names what
// both have.
func TestBoth(t *testing.T) {
	good := Folder{t.TempDir()}
	b := sound().Canonical()
	at, err := Both{brokenStore{}, good}.Put(t.Context(), b)
	if err != nil || at != string(agon.Sum(b)) {
		t.Fatal(at, err)
	}
	for name, s := range map[string]Both{"down": {brokenStore{}, good}, "other bytes": {brokenStore{[]byte("{}")}, good}, "not there": {Folder{t.TempDir()}, good}} {
		if got, from, err := s.Get(t.Context(), at); err != nil || string(got) != string(b) || from != "folder" {
			t.Errorf("%s: %v from %s", name, err, from)
		}
	}
	if _, err := (Both{brokenStore{}, brokenStore{}}).Put(t.Context(), b); err == nil {
		t.Error("nobody took it, and it was stored")
	}
	if _, _, err := (Both{Folder{t.TempDir()}, good}).Get(t.Context(), string(agon.Sum(nil))); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
	if _, _, err := (Both{brokenStore{[]byte("{}")}, brokenStore{}}).Get(t.Context(), at); err == nil || !strings.Contains(err.Error(), "other bytes") {
		t.Error(err)
	}
}
