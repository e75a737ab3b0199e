package consensus

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/fetch"
)

// Stores that are huge or lie about the length of what they give are refused, having been read up to the limit
// and a socket's buffers; another store that has the payload is asked as if they were not there.
func TestHostileStores(t *testing.T) {
	good := sound().Canonical()
	key, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 64<<20))
	_ = z.Close()
	var sent atomic.Int64
	pour := func(w http.ResponseWriter, most int) {
		for piece := make([]byte, 32<<10); most > 0; most -= len(piece) {
			n, err := w.Write(piece)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	for name, answer := range map[string]func(w http.ResponseWriter){
		"endless":              func(w http.ResponseWriter) { pour(w, 1<<30) },
		"huge and says so":     func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1073741824"); pour(w, 1<<30) },
		"one byte too many":    func(w http.ResponseWriter) { _, _ = w.Write(append(bytes.Clone(good), ' ')) },
		"shorter than it says": func(w http.ResponseWriter) { w.Header().Set("Content-Length", "100000"); _, _ = w.Write(good) },
		"longer than it says": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)-1))
			_, _ = w.Write(good[:len(good)-1])
		},
		"small, and unpacks large": func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "gzip"); _, _ = w.Write(bomb.Bytes()) },
		"nothing":                  func(http.ResponseWriter) {},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("ETag", `"x"`)
				w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
				answer(w)
			}))
			defer h.Close()
			env := func(k string) string {
				return map[string]string{"S3_ENDPOINT_URL": h.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}[k]
			}
			kept := Folder{t.TempDir()}
			if _, err := kept.Put(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			url := fetch.New(fetch.Config{MaxBytes: MaxPayload, AllowPrivate: true})
			for at, address := range map[string]string{
				"ipfs+" + h.URL + "/api/v0": CIDv1(good), "s3://packs/window": string(agon.Sum(good)), h.URL: string(agon.Sum(good)), "url": h.URL + "/c/" + string(agon.Sum(good)),
			} {
				sent.Store(0)
				var b []byte
				var err error
				start := time.Now()
				if at == "url" {
					b, err = url.Get(t.Context(), address)
				} else {
					s, oerr := OpenStore(at, env, key, time.Now)
					if oerr != nil {
						t.Fatal(oerr)
					}
					b, _, err = s.Get(t.Context(), address)
					if got, _, berr := (Both{s, kept}).Get(t.Context(), string(agon.Sum(good))); berr != nil || !bytes.Equal(got, good) {
						t.Errorf("%s: the other store was not heard: %v", at, berr)
					}
				}
				if err == nil && Verify(address, b) {
					t.Errorf("%s: %d bytes were believed", at, len(b))
				}
				if n := sent.Load(); n > 4*(MaxPayload+8<<20) || len(b) > MaxPayload+1 || time.Since(start) > 20*time.Second {
					t.Errorf("%s: it took %d bytes of %d that were sent, %s", at, len(b), n, time.Since(start))
				}
			}
		})
	}
}
