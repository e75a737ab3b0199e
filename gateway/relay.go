package gateway

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth/certs"
)

// relay is the way to a gateway that is reached with certificates: doors of boxes and
// judges, which have none, call it on this machine. It passes on calls of sessions
// only, and those need a session's token at the gateway.
type relay struct {
	url  string
	srv  *http.Server
	over *http.Transport
}

func openRelay(to *url.URL, over *certs.Client) (*relay, error) {
	t, err := over.Transport()
	if err != nil {
		return nil, err
	}
	t.MaxIdleConnsPerHost, t.DisableCompression = 256, true
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &httputil.ReverseProxy{
		Transport: t, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"error":{"message":"the gateway cannot be reached","type":"gateway_unreachable"}}`)
		},
	}
	r := &relay{url: "http://" + ln.Addr().String(), over: t, srv: &http.Server{
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !ours(q.URL) {
				http.NotFound(w, q)
				return
			}
			p.ServeHTTP(w, q)
		}),
	}}
	go func() { _ = r.srv.Serve(ln) }() // until close
	return r, nil
}

// ours are paths of sessions: control requests are the validator's alone. Paths that
// the gateway might read in another way are none.
func ours(u *url.URL) bool {
	return strings.HasPrefix(u.Path, "/") && u.RawPath == "" && !strings.HasPrefix(u.Path, "/gateway/") && u.Path != "/gateway" && !strings.Contains(u.Path, "//") && !strings.Contains(u.Path, "/.")
}

func (r *relay) close() error {
	err := r.srv.Close()
	r.over.CloseIdleConnections()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
