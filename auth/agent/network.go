package agent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth/certs"
)

// Scheme begins the address of an agent on another machine: tls://HOST:PORT.
const Scheme = "tls://"

const (
	// perAddress bounds the handshakes of one address that are under way: one that
	// stalls them takes no place from others.
	perAddress = 16
	// handshakes bounds those of all addresses.
	handshakes = 256
	// perName bounds the connections of one client.
	perName = 16
)

// ListenTLS opens an agent's port. Callers must show a certificate that from checks.
func ListenTLS(address string, from *certs.Server) (net.Listener, error) {
	if !from.On() || !from.Mutual() {
		return nil, errors.New("open agent port: it needs a certificate and the authority of its clients")
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open agent port: %w", err)
	}
	return from.Listener(ln, false), nil
}

// counts bounds what is under way, in all and for each key. The zero value is empty.
type counts struct {
	mu  sync.Mutex
	all map[string]int // guarded by mu
	sum int            // guarded by mu
}

// take counts one more, or reports that there are too many.
func (c *counts) take(key string, each, all int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum >= all || c.all[key] >= each {
		return false
	}
	if c.all == nil {
		c.all = map[string]int{}
	}
	c.all[key]++
	c.sum++
	return true
}

func (c *counts) leave(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum--
	if c.all[key]--; c.all[key] == 0 {
		delete(c.all, key)
	}
}

// takeTLS answers a caller on the port, once its handshake is over.
func (s *Server) takeTLS(ctx context.Context, wg *sync.WaitGroup, conn *tls.Conn) {
	from, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil || !s.meeting.take(from, perAddress, handshakes) {
		s.log.Warn("key agent has too many handshakes", "from", from)
		_ = conn.NetConn().Close() // no alert: that would wait for a caller who stalls
		return
	}
	wg.Go(func() {
		release := context.AfterFunc(ctx, func() { conn.NetConn().Close() })
		defer release()
		defer conn.Close()
		who, err := s.meet(ctx, conn)
		s.meeting.leave(from)
		if err != nil {
			s.log.Warn("key agent refused a caller", "from", from, "why", err)
			return
		}
		if why := s.still(who); why != "" {
			s.log.Warn("key agent refused a client", "client", who.name, "from", from, "why", why)
			s.write(conn, answer{Error: &Error{CodeRefused, why}})
			return
		}
		if !s.busy.take(who.name, min(perName, s.max), s.max) {
			s.log.Warn("key agent is full", "client", who.name, "connections", s.max)
			s.write(conn, answer{Error: &Error{CodeBusy, "too many connections"}})
			return
		}
		defer s.busy.leave(who.name)
		s.lines(conn, who)
	})
}

// meet makes the handshake: who asks is who the certificate names.
func (s *Server) meet(ctx context.Context, conn *tls.Conn) (*asker, error) {
	ctx, cancel := context.WithTimeout(ctx, s.handshake)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	chains := conn.ConnectionState().VerifiedChains
	if len(chains) == 0 || len(chains[0]) == 0 {
		return nil, errors.New("handshake: no certificate was verified")
	}
	who := &asker{until: chains[0][0].NotAfter}
	for _, c := range chains[0] { // an authority in between may end before its certificate does
		if c.NotAfter.Before(who.until) {
			who.until = c.NotAfter
		}
	}
	var err error
	if who.name, err = certs.Owner(chains[0][0]); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return who, nil
}

// still says why who may not ask now; "" = may. Clients are looked up for each
// request, so that one who was taken off the list is out at once.
func (s *Server) still(who *asker) (why string) {
	if who.name == "" {
		return ""
	}
	if s.now().After(who.until) {
		return "the certificate of " + who.name + " is over"
	}
	if who.client = s.clients()[who.name]; who.client == nil {
		return "the certificate's name " + who.name + " is not among the agent's clients"
	}
	return ""
}

// Signed is a line of an agent's audit: a signature that it gave.
type Signed struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // "client NAME", or "user UID"
	Key    string    `json:"key"`
	What   string    `json:"what"` // a form such as agon-v1, a call such as 7.0, "text" or "bytes"
	Bytes  int       `json:"bytes"`
	Sha256 string    `json:"sha256"` // of the message
}

func noted(a *ask, who *asker, at time.Time) Signed {
	sum := sha256.Sum256(a.Message)
	x := Signed{At: at.UTC(), Who: who.String(), Key: a.SS58, What: "bytes", Bytes: len(a.Message), Sha256: hex.EncodeToString(sum[:])}
	switch first, _, _ := strings.Cut(string(a.Message), "\n"); {
	case a.Op == opExtrinsic && len(a.Message) >= 2:
		x.What = fmt.Sprintf("call %d.%d", a.Message[0], a.Message[1])
	case slices.Contains([]string{AllowAgon, AllowBTAuth}, first):
		x.What = first
	case printable(a.Message):
		x.What = AllowText
	}
	return x
}

// AuditTo writes an audit as lines of JSON. Lines of one writer do not mix.
func AuditTo(w io.Writer) func(Signed) error {
	var mu sync.Mutex
	return func(x Signed) error {
		b, err := json.Marshal(x)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = w.Write(append(b, '\n'))
		return err
	}
}

// connect reaches the agent.
func (c *Client) connect() (net.Conn, error) {
	address, far := strings.CutPrefix(c.path, Scheme)
	if !far {
		return net.DialTimeout("unix", c.path, ioTimeout)
	}
	if c.over == nil || !c.over.Own() || !c.over.Shows() {
		return nil, errors.New("it asks for a certificate: name yours (--client-cert, --client-key) and the authority of the agent's (--ca)")
	}
	return c.over.Dial(context.Background(), address)
}
