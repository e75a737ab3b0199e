package netns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// Bounds of a door.
const (
	MaxConns      = 64               // connections at once; more wait
	headerTimeout = 10 * time.Second // for a request's headers
	maxHeader     = 64 << 10         // bytes of a request's headers
	idleTimeout   = 2 * time.Minute
)

// Doors relay what comes through a box's listeners. Close them before the namespace.
type Doors struct {
	servers    []*http.Server
	transports []*http.Transport
	pipes      []*pipes
}

// Open opens the listeners of doors inside n and serves them.
func (n *NS) Open(doors []sandbox.Door) (*Doors, error) {
	return Serve(doors, func(i int) (net.Listener, error) { return n.Listen(doors[i].Listen) })
}

// Serve serves doors on the listeners that listen opens for them, by index.
func Serve(doors []sandbox.Door, listen func(i int) (net.Listener, error)) (*Doors, error) {
	d := &Doors{}
	for i, door := range doors {
		l, err := listen(i)
		if err != nil {
			_ = d.Close()
			return nil, err
		}
		bounded := &boundListener{Listener: l, slots: make(chan struct{}, MaxConns), done: make(chan struct{})}
		if door.Dial != nil {
			d.pipes = append(d.pipes, pass(bounded, door.Dial))
			continue
		}
		target, err := url.Parse(door.Target)
		if err != nil {
			_ = l.Close()
			_ = d.Close()
			return nil, fmt.Errorf("%w: door %s: %w", sandbox.ErrSpec, door.Listen, err)
		}
		tr := &http.Transport{
			Proxy:               nil, // the gateway is near; no environment may send us elsewhere
			DisableCompression:  true,
			MaxIdleConnsPerHost: MaxConns,
			IdleConnTimeout:     idleTimeout,
			DialContext:         (&net.Dialer{Timeout: headerTimeout}).DialContext,
		}
		s := &http.Server{
			Handler:           relay(target, door.Header, tr),
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeader,
			ErrorLog:          log.New(io.Discard, "", 0), // what agents send is not our log
		}
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		d.servers, d.transports = append(d.servers, s), append(d.transports, tr)
		go func() {
			if door.TLS != nil {
				_ = s.Serve(tls.NewListener(bounded, door.TLS))
				return
			}
			_ = s.Serve(bounded)
		}()
	}
	return d, nil
}

// Close ends every relayed request and every connection at once.
func (d *Doors) Close() error {
	var err error
	for _, p := range d.pipes {
		err = errors.Join(err, p.close())
	}
	for _, s := range d.servers {
		err = errors.Join(err, s.Close())
	}
	for _, t := range d.transports {
		t.CloseIdleConnections()
	}
	return err
}

// relay passes requests to target with header set. Paths are not looked at:
// allow-lists belong to the gateway.
func relay(target *url.URL, header map[string]string, tr http.RoundTripper) http.Handler {
	p := &httputil.ReverseProxy{
		Transport:     tr,
		FlushInterval: -1, // server-sent events pass one by one
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target) // also the Host header
			for k, v := range header {
				r.Out.Header.Set(k, v)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, `{"error":{"message":"the gateway cannot be reached","type":"gateway_unreachable"}}`)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || r.Header.Get("Upgrade") != "" || !strings.HasPrefix(r.URL.Path, "/") {
			w.Header().Set("Connection", "close")
			http.Error(w, "only plain HTTP/1.1 requests pass here", http.StatusBadRequest)
			return
		}
		p.ServeHTTP(w, r)
	})
}

// boundListener accepts at most cap(slots) connections at a time.
type boundListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

func (l *boundListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundConn{Conn: c, free: func() { <-l.slots }}, nil
}

func (l *boundListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type boundConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *boundConn) Close() error {
	c.once.Do(c.free)
	return c.Conn.Close()
}

// CloseWrite ends what is sent, not what is received.
func (c *boundConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Close()
}
