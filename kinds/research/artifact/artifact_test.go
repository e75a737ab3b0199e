package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/fetch"
)

var body = bytes.Repeat([]byte("weights "), 1000)

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func serve(t *testing.T) (*httptest.Server, Config) {
	t.Helper()
	stop := make(chan struct{})
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write(body)
		case "/moved":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/good", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "https://10.0.0.1/x", http.StatusFound)
		case "/endless":
			w.Header().Set("Transfer-Encoding", "chunked")
			for r.Context().Err() == nil {
				if _, err := w.Write(body); err != nil {
					return
				}
			}
		case "/slow":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-stop
		case "/short":
			w.Header().Set("Transfer-Encoding", "chunked")
			_, _ = w.Write(body[:100])
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() { close(stop); srv.Close() })
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return srv, Config{
		Timeout: 5 * time.Second, TLS: &tls.Config{RootCAs: pool},
		Allow: func(a netip.Addr) bool { return a.IsLoopback() || fetch.Public(a) },
	}
}

// Rows 54 and 55: each failure in bounded time and disk, nothing left behind.
func TestFetch(t *testing.T) {
	srv, c := serve(t)
	const limit = 1 << 20
	good, size := sum(body), int64(len(body))
	for name, x := range map[string]struct {
		url, sha string
		size     int64
		err      string
	}{
		"good":                 {srv.URL + "/good", good, size, ""},
		"upper-case sha":       {srv.URL + "/good", strings.ToUpper(good), size, ""},
		"redirect":             {srv.URL + "/moved", good, size, ""},
		"wrong sha":            {srv.URL + "/good", sum([]byte("x")), size, "sha256 is not"},
		"wrong size":           {srv.URL + "/good", good, size + 1, "offers 8000 bytes"},
		"shorter than it says": {srv.URL + "/short", good, size, "only 100 bytes"},
		"endless":              {srv.URL + "/endless", good, size, "more than"},
		"stalls":               {srv.URL + "/slow", good, size, "deadline"},
		"absent":               {srv.URL + "/none", good, size, "answered 404"},
		"http":                 {"http" + strings.TrimPrefix(srv.URL, "https") + "/good", good, size, "https"},
		"file":                 {"file:///etc/passwd", good, size, "https"},
		"a local path":         {"/tmp/model", good, size, "https"},
		"user info":            {"https://u:p@example.com/x", good, size, "https"},
		"no sha":               {srv.URL + "/good", "", size, "64 hex digits"},
		"no size":              {srv.URL + "/good", good, 0, "artifact_size_bytes"},
		"over the limit":       {srv.URL + "/good", good, limit + 1, "artifact_size_bytes"},
		"redirect off https":   {srv.URL + "/plain", good, size, "leaves https"},
		"redirect inside":      {srv.URL + "/inside", good, size, "not a public one"},
		"redirect loop":        {srv.URL + "/loop", good, size, "redirects"},
		"private address":      {"https://192.168.1.1/x", good, size, "not a public one"},
		"metadata address":     {"https://169.254.169.254/latest", good, size, "not a public one"},
		"mapped address":       {"https://[::ffff:10.0.0.1]/x", good, size, "not a public one"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			if name == "stalls" {
				c.Timeout = 300 * time.Millisecond
			}
			dst := filepath.Join(t.TempDir(), "artifact")
			err := Fetch(context.Background(), c, x.url, x.sha, x.size, limit, dst)
			if x.err == "" {
				got, rerr := os.ReadFile(dst)
				if err != nil || rerr != nil || !bytes.Equal(got, body) {
					t.Fatal(err, rerr, len(got))
				}
				return
			}
			var bad *Error
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), x.err) {
				t.Fatalf("%v, want %q", err, x.err)
			}
			if _, err := os.Lstat(dst); !errors.Is(err, os.ErrNotExist) {
				t.Error("something is left:", err)
			}
		})
	}
}

// The loopback is what a validator's own parts listen on: without a test's
// permission it is refused.
func TestFetchRefusesThisHost(t *testing.T) {
	srv, c := serve(t)
	c.Allow = nil
	err := Fetch(context.Background(), c, srv.URL+"/good", sum(body), int64(len(body)), 1<<20, filepath.Join(t.TempDir(), "x"))
	if err == nil || !strings.Contains(err.Error(), "not a public one") {
		t.Fatal(err)
	}
}
