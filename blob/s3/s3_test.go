package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/blob/blobtest"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/blob/s3/s3test"
)

func open(t *testing.T, s *s3test.Server, url string, o Options) *Store {
	t.Helper()
	o.Getenv, o.Now = s.Getenv, time.Now
	x, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestServer(t *testing.T) { server(t, s3test.Start(t)) }

// TestSeaweedFS is the same on a second real server, which differs where S3 leaves it open.
func TestSeaweedFS(t *testing.T) {
	server(t, s3test.StartWith(t, s3test.Options{Program: s3test.SeaweedFS}))
}

func server(t *testing.T, s *s3test.Server) {
	t.Run("conformance", func(t *testing.T) {
		blobtest.Run(t, 1<<16, func(t *testing.T) blob.Store { return open(t, s, s.Bucket(t), Options{MaxBytes: 1 << 16}) })
	})
	t.Run("conformance with a cache", func(t *testing.T) {
		blobtest.Run(t, 1<<16, func(t *testing.T) blob.Store {
			cache, err := blobfs.Open(t.TempDir(), blobfs.Options{Cache: true, Quota: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			return open(t, s, s.Bucket(t), Options{MaxBytes: 1 << 16, Cache: cache})
		})
	})
	t.Run("collector", func(t *testing.T) {
		blobtest.RunCollector(t, func(t *testing.T) blob.Collector { return open(t, s, s.Bucket(t), Options{}) })
	})
	t.Run("parts", func(t *testing.T) { parts(t, s) })
	t.Run("damage is found and mended", func(t *testing.T) { damage(t, s) })
	t.Run("direct reads", func(t *testing.T) { direct(t, s) })
	t.Run("reads through the cache", func(t *testing.T) { cached(t, s) })
	t.Run("a server that compares", func(t *testing.T) { compares(t, s) })
	t.Run("a cache that fails", func(t *testing.T) { broken(t, s) })
	t.Run("a put meets a sweep", func(t *testing.T) { meets(t, s) })
	t.Run("copies", func(t *testing.T) { copies(t, s) })
	t.Run("no bucket", func(t *testing.T) {
		_, err := Open(t.Context(), "s3://nowhere?style=path&endpoint="+url.QueryEscape(s.Endpoint()), Options{Getenv: s.Getenv, Now: time.Now})
		var e *agon.Error
		if !errors.As(err, &e) || e.Field != "blobs" || !strings.Contains(e.Message, "nowhere") {
			t.Fatalf("got %v", err)
		}
	})
}

// parts puts a blob that goes in several parts, twice.
func parts(t *testing.T, s *s3test.Server) {
	x := open(t, s, s.Bucket(t), Options{})
	b := bytes.Repeat([]byte("0123456789abcdef"), (2*partBytes+4096)/16)
	for range 2 {
		d, err := x.Put(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.Get(t.Context(), d); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

func damage(t *testing.T, s *s3test.Server) {
	x := open(t, s, s.Bucket(t), Options{})
	b := []byte("the truth")
	d, err := x.Put(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"the trutH", "the"} {
		if _, err := s.Client().PutObject(t.Context(), x.bucket, x.key(d), strings.NewReader(other), int64(len(other)), minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Get(t.Context(), d); !errors.Is(err, blob.ErrCorrupt) {
			t.Fatalf("get of %q: %v, want ErrCorrupt", other, err)
		}
	}
	if _, err := x.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got, err := x.Get(t.Context(), d); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("after mending: %q, %v", got, err)
	}
}

// direct reads a blob without the store's credentials, until the time is over.
func direct(t *testing.T, s *s3test.Server) {
	bucket := s.Bucket(t)
	x := open(t, s, bucket+"&direct="+url.QueryEscape(s.Endpoint()), Options{})
	d, err := x.Put(t.Context(), []byte("for validators"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(u string) (int, string) {
		t.Helper()
		r, err := http.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(b)
	}
	u, err := x.Direct(t.Context(), d, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if code, b := read(u); code != 200 || b != "for validators" {
		t.Errorf("signed: %d %q", code, b)
	}
	if code, _ := read(strings.Replace(u, "X-Amz-Expires=60", "X-Amz-Expires=6000", 1)); code != 403 {
		t.Errorf("with a longer time: %d, want 403", code)
	}
	bare, _, _ := strings.Cut(u, "?")
	if code, _ := read(bare); code != 403 {
		t.Errorf("unsigned: %d, want 403", code)
	}
	if u, err := x.Direct(t.Context(), agon.Sum([]byte("not there")), time.Minute); u != "" || err != nil {
		t.Errorf("of a missing blob: %q, %v", u, err)
	}
	if u, err := open(t, s, bucket, Options{}).Direct(t.Context(), d, time.Minute); u != "" || err != nil {
		t.Errorf("without a way for readers: %q, %v", u, err)
	}
}

// cached reads a blob that the server no longer has.
func cached(t *testing.T, s *s3test.Server) {
	cache, err := blobfs.Open(t.TempDir(), blobfs.Options{Cache: true, Quota: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, s, s.Bucket(t), Options{Cache: cache})
	d, err := x.Put(t.Context(), []byte("read twice"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if b, err := x.Get(t.Context(), d); err != nil || string(b) != "read twice" {
			t.Fatalf("read %d: %q, %v", i, b, err)
		}
		if err := s.Client().RemoveObject(t.Context(), x.bucket, x.key(d), minio.RemoveObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := x.Has(t.Context(), d); ok || err != nil {
		t.Fatalf("has: %v, %v; the server lost it", ok, err)
	}
}

// compares puts what the server must refuse: an object that is there, and bytes of another sum.
func compares(t *testing.T, s *s3test.Server) {
	x := open(t, s, s.Bucket(t), Options{})
	b := []byte("once")
	sum := sha256.Sum256(b)
	d := agon.Sum(b)
	if err := x.send(t.Context(), d, sum, b, false); err != nil {
		t.Fatal(err)
	}
	if err := x.send(t.Context(), d, sum, b, false); status(err) != http.StatusPreconditionFailed {
		t.Errorf("a second time on the condition that it is not there: %v, want 412", err)
	}
	other := agon.Sum([]byte("other"))
	if err := x.send(t.Context(), other, sum, []byte("other"), false); err == nil {
		t.Error("bytes of another sum were taken")
	}
	if ok, err := x.Has(t.Context(), other); ok || err != nil {
		t.Errorf("bytes of another sum are there: %v, %v", ok, err)
	}
}

// full is a cache on a disk that is full and fails.
type full struct{ blob.Store }

func (full) Put(context.Context, []byte) (agon.Digest, error) { return "", syscall.ENOSPC }

func (full) Get(context.Context, agon.Digest) ([]byte, error) { return nil, syscall.EIO }

// broken reads a blob past a cache that fails: the server has it.
func broken(t *testing.T, s *s3test.Server) {
	x := open(t, s, s.Bucket(t), Options{Cache: full{}})
	d, err := x.Put(t.Context(), []byte("kept elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := x.Get(t.Context(), d); err != nil || string(b) != "kept elsewhere" {
		t.Fatalf("%q, %v", b, err)
	}
}

// meets puts a blob again while it is swept: the put waits for the mark, and the blob stays.
func meets(t *testing.T, s *s3test.Server) {
	x := open(t, s, s.Bucket(t), Options{})
	b := []byte("needed again")
	d, err := x.Put(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	put := make(chan error, 1)
	first := d.Hex()[:2]
	// The second look of a Sweep is below the mark: what puts now has to wait.
	err = x.sweep(t.Context(), first, func(fn func(blob.Kept)) error {
		return x.below(t.Context(), first, func(k blob.Kept) error {
			if _, err := s.Client().StatObject(t.Context(), x.bucket, x.gone(first), minio.StatObjectOptions{}); err != nil {
				return err
			}
			go func() { _, err := x.Put(t.Context(), b); put <- err }()
			select {
			case err := <-put:
				t.Errorf("the put returned during the sweep: %v", err)
				put <- err
			case <-time.After(2 * markPause): // it does not return: nothing to wait for
			}
			fn(k)
			return nil
		})
	}, func(blob.Kept) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	if got, err := x.Get(t.Context(), d); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("after put and sweep: %q, %v", got, err)
	}
}

// copies copies a folder to a bucket and back.
func copies(t *testing.T, s *s3test.Server) {
	from, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		if _, err := from.Put(t.Context(), bytes.Repeat([]byte{byte(i)}, i)); err != nil {
			t.Fatal(err)
		}
	}
	back, err := blobfs.Open(t.TempDir(), blobfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bucket := open(t, s, s.Bucket(t)+"&region=us-east-1", Options{})
	for i, want := range []int64{40, 0} {
		for _, way := range []struct{ from, to blob.Collector }{{from, bucket}, {bucket, back}} {
			c, err := blob.Copy(t.Context(), way.from, way.to)
			if err != nil || c.Blobs != 40 || c.Copied != want || c.Bytes != 40*39/2 {
				t.Fatalf("copy %d: %+v, %v; want %d copied", i, c, err, want)
			}
		}
	}
}

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"s3://", "bucket"},
		{"s3://A", "bucket"},
		{"s3://key:secret@bucket", "credentials"},
		{"s3://bucket?endpoint=ftp://x", "endpoint"},
		{"s3://bucket?endpoint=https://x/path", "endpoint"},
		{"s3://bucket?direct=x", "direct"},
		{"s3://bucket?style=both", "style"},
		{"s3://bucket?colour=red", "colour"},
		{"s3://bucket?region=a&region=b", "region"},
		{"s3://bucket//a//b", "prefix"},
		{"s3:bucket", "cannot be read"},
	} {
		_, err := parseURL(c.url)
		var e *agon.Error
		if !errors.As(err, &e) || e.Field != "blobs" || !strings.Contains(e.Message, c.want) || strings.Contains(e.Message, "secret@") {
			t.Errorf("%s: %v, want an error about %s", c.url, err, c.want)
		}
	}
	p, err := parseURL("s3://bucket/a/b/?endpoint=http://127.0.0.1:9000&direct=https://s3.example&style=path&region=eu")
	if err != nil || p.bucket != "bucket" || p.prefix != "a/b/" || p.endpoint.Host != "127.0.0.1:9000" || p.direct.Host != "s3.example" || p.region != "eu" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func FuzzURL(f *testing.F) {
	f.Add("s3://bucket/prefix?endpoint=https://host:9000&region=r&style=host&direct=http://h")
	f.Fuzz(func(t *testing.T, raw string) {
		p, err := parseURL(raw)
		if err == nil && (p.bucket == "" || p.endpoint == nil || strings.Contains(p.prefix, "//")) {
			t.Fatalf("%q gave %+v", raw, p)
		}
	})
}

// A server with a certificate of an authority of ours is believed where that is named.
func TestServerTLS(t *testing.T) {
	l := certs.Life{From: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)}
	a, pem, _, err := certs.NewAuthority("own", l)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Issue("bucket", []string{"127.0.0.1"}, l)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	s := s3test.StartWith(t, s3test.Options{Cert: file("cert.pem", cert), Key: file("key.pem", key), Roots: roots})
	over, err := certs.OpenClient(certs.Files{CA: file("ca.pem", pem)}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	at := s.Bucket(t)
	x := open(t, s, at, Options{Over: over})
	d, err := x.Put(t.Context(), []byte("bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := x.Get(t.Context(), d); err != nil || string(b) != "bytes" {
		t.Errorf("read %q %v", b, err)
	}
	if _, err := Open(t.Context(), at, Options{Getenv: s.Getenv, Now: time.Now}); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("believed without its authority: %v", err)
	}
}
