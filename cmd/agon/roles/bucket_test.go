package roles

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon/blob/s3/s3test"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
)

// counted counts the bytes of blobs that a server itself sent.
type counted struct{ bytes atomic.Int64 }

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK && strings.HasPrefix(r.URL.Path, "/v1/blobs/") {
		c.bytes.Add(resp.ContentLength)
	}
	return resp, err
}

// A server whose blobs are in a bucket sends its readers there: none of the
// bytes pass through it. Those that the bucket cannot give still do.
func TestBlobsInABucket(t *testing.T) {
	bucket := s3test.Start(t)
	for _, direct := range []bool{true, false} {
		at := bucket.Bucket(t)
		if direct {
			at += "&direct=" + url.QueryEscape(bucket.Endpoint())
		}
		o := kit.Options{
			Data: t.TempDir(), Listen: "127.0.0.1:0", Blobs: at, Kits: kinds.All(), Log: slog.New(slog.DiscardHandler),
			Getenv: func(name string) string {
				if v := bucket.Getenv(name); v != "" {
					return v
				}
				return os.Getenv(name)
			},
		}
		s, err := openServer(t.Context(), o, o.Kinds(""))
		if err != nil {
			t.Fatal(err)
		}
		s.gate.open.Store(true)
		c, err := client.New(s.url(), s.Operator.Hotkey)
		if err != nil {
			t.Fatal(err)
		}
		seen := &counted{}
		c.HTTP.Transport = seen
		want := bytes.Repeat([]byte("evidence "), 1000)
		d, err := c.PutBlob(context.Background(), "", want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Blob(context.Background(), d)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("direct %v: %d bytes, %v", direct, len(got), err)
		}
		if n := seen.bytes.Load(); (n == 0) != direct {
			t.Errorf("direct %v: %d bytes passed through the server", direct, n)
		}
		s.close()
	}
}
