// Package agent keeps hotkeys in a process of their own: it signs for daemons that
// hold no key, over a unix socket or, for machines of a fleet, over mutual TLS.
//
// The protocol is one JSON object a line, one answer for each, in order:
//
//	{"op":"list"}                                       -> {"keys":["5Grw…"]}
//	{"op":"sign","ss58":"5Grw…","message":"<base64>"}   -> {"signature":"<128 hex>"}
//	{"op":"extrinsic","ss58":"5Grw…","message":"<base64>"}
//
// An extrinsic's message is its whole payload: call, extra and additional. The agent
// hashes it where it has over 256 bytes, as chains do, and sees before what it
// signs. Config.Policy says what it signs at all.
//
// or {"error":"…","code":"…"} with a code of this package. On a socket the kernel
// says who asks (SO_PEERCRED); it has mode 0600, its directory mode 0700. Over TLS
// the client's certificate says it, and Config.Clients what is signed for that name.
package agent

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
)

// Limits; those of a port stand in network.go.
const (
	MaxMessage = 64 << 10  // bytes of one message to sign
	maxLine    = 100 << 10 // bytes of one line: a message in base64, and the rest
	maxPath    = 100       // bytes of a socket's path; the kernel takes 107
	// DefaultMaxConns is how many may be connected at once.
	DefaultMaxConns = 64
)

// Times.
const (
	idleTimeout = 10 * time.Minute // between two lines of a client
	ioTimeout   = 10 * time.Second // for an answer to be written, or to come
)

// EnvSocket names the environment variable that tells daemons the agent's socket.
const EnvSocket = "AGON_KEY_AGENT"

// Codes of answers.
const (
	CodeBadRequest = "bad_request"
	CodeTooLarge   = "too_large"
	CodeUnknownKey = "unknown_key"
	CodeRefused    = "refused"
	CodePolicy     = "policy"
	CodeBusy       = "busy"
	CodeInternal   = "internal"
)

// Error is an answer that is an error.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"error"`
}

func (e *Error) Error() string { return "key agent: " + e.Message }

// Ops of the protocol.
const (
	opList      = "list"
	opSign      = "sign"
	opExtrinsic = "extrinsic"
)

type ask struct {
	Op      string `json:"op"`
	SS58    string `json:"ss58,omitempty"`
	Message []byte `json:"message,omitempty"`
}

type answer struct {
	Keys      []string `json:"keys,omitempty"`
	Signature string   `json:"signature,omitempty"`
	*Error
}

// Server signs with its keys for whom it may.
type Server struct {
	keys map[string]auth.Signer
	list []string
	uids []int
	max  int
	only Policy
	spending
	clients func() Clients
	audit   func(Signed) error
	now     func() time.Time
	log     *slog.Logger
	busy    counts // connections that may ask
	meeting counts // handshakes
	// handshake is how long one may take; a test shortens it.
	handshake time.Duration
	// peer returns the user at the other end; a test replaces it.
	peer func(*net.UnixConn) (int, error)
}

// Config is what a Server is made of.
type Config struct {
	Keys     []auth.Signer // hotkeys, or a coldkey; at least one
	Policy   Policy        // what may be signed; the zero value = everything
	UIDs     []int         // users who may ask; nil = the agent's own
	MaxConns int           // 0 = DefaultMaxConns
	// Clients says who may ask over TLS, for each request; nil: no client may.
	Clients func() Clients
	// Audit notes each signature before it leaves; where it fails there is none. It may be nil.
	Audit func(Signed) error
	Now   func() time.Time // nil = time.Now
	Log   *slog.Logger     // refusals are logged, messages and signatures are not
}

// New makes a server.
func New(c Config) (*Server, error) {
	s := &Server{keys: map[string]auth.Signer{}, uids: c.UIDs, max: c.MaxConns, only: c.Policy, clients: c.Clients, audit: c.Audit, now: c.Now, log: c.Log, peer: peerUID, handshake: certs.HandshakeTime}
	for _, k := range c.Keys {
		s.keys[k.SS58()] = k
	}
	if len(s.keys) == 0 {
		return nil, errors.New("key agent: no key to sign with")
	}
	for address := range s.keys {
		s.list = append(s.list, address)
	}
	slices.Sort(s.list)
	if s.uids == nil {
		s.uids = []int{os.Getuid()}
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.max == 0 {
		s.max = DefaultMaxConns
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.clients == nil {
		s.clients = func() Clients { return nil }
	}
	return s, nil
}

// Listen opens the socket: mode 0600, in a directory of ours of mode 0700,
// which is made where it is missing. A socket that a dead agent left is
// replaced, a live agent is not.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("open agent socket: path of %d bytes: at most %d", len(path), maxPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open agent socket: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("open agent socket: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || int(st.Uid) != os.Getuid() {
		return nil, fmt.Errorf("open agent socket: %s must be a directory of yours that nobody else may enter: chmod 700 %s", dir, dir)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("open agent socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("open agent socket: %s is there and is not a socket", path)
	default:
		if conn, err := net.DialTimeout("unix", path, ioTimeout); err == nil {
			conn.Close()
			return nil, fmt.Errorf("open agent socket: an agent listens on %s already", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("open agent socket: %w", err)
		}
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open agent socket: %w", err)
	}
	// Until here the directory keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("open agent socket: %w", err)
	}
	return ln, nil
}

// Serve answers until ctx ends; it closes ln, which removes a socket, and
// every connection, and returns when all is over. The error is that of ln.
// ln is of Listen or of ListenTLS.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			ln.Close()
			return fmt.Errorf("accept on agent socket: %w", err)
		}
		if t, ok := conn.(*tls.Conn); ok {
			s.takeTLS(ctx, &wg, t)
			continue
		}
		if !s.busy.take("", s.max, s.max) {
			s.log.Warn("key agent is full", "connections", s.max)
			s.write(conn, answer{Error: &Error{CodeBusy, "too many connections"}})
			conn.Close()
			continue
		}
		wg.Go(func() {
			defer s.busy.leave("")
			release := context.AfterFunc(ctx, func() { conn.Close() })
			defer release()
			defer conn.Close()
			s.serve(conn)
		})
	}
}

// asker is who asks: a user of this machine, or a client by its certificate.
type asker struct {
	uid    int
	name   string    // of the certificate; "": the kernel told the user
	until  time.Time // when the certificate ends
	client *Caller   // of the name, as the clients stand now; nil: a user
}

func (w *asker) String() string {
	if w.name != "" {
		return "client " + w.name
	}
	return "user " + strconv.Itoa(w.uid)
}

// serve answers a user of this machine until the connection ends, errs or idles.
func (s *Server) serve(conn net.Conn) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		s.log.Error("key agent listens on neither a socket nor TLS")
		return
	}
	uid, err := s.peer(c)
	if err != nil || !slices.Contains(s.uids, uid) {
		s.log.Warn("key agent refused a user", "uid", uid, "err", err)
		s.write(conn, answer{Error: &Error{CodeRefused, "this user may not use the agent"}})
		return
	}
	s.lines(conn, &asker{uid: uid})
}

// lines answers line by line.
func (s *Server) lines(conn net.Conn, who *asker) {
	lines := bufio.NewReaderSize(conn, maxLine)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
			return
		}
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			// The rest of the line cannot be told from a new one: the end.
			s.write(conn, answer{Error: &Error{CodeTooLarge, fmt.Sprintf("line over %d bytes", maxLine)}})
			return
		case err != nil:
			return
		}
		if why := s.still(who); why != "" {
			s.log.Warn("key agent refused a client", "client", who.name, "why", why)
			s.write(conn, answer{Error: &Error{CodeRefused, why}})
			return
		}
		if !s.write(conn, s.answer(line, who)) {
			return
		}
	}
}

func refused(code, format string, args ...any) answer {
	return answer{Error: &Error{code, fmt.Sprintf(format, args...)}}
}

func (s *Server) answer(line []byte, who *asker) answer {
	var a ask
	if err := json.Unmarshal(line, &a); err != nil {
		return refused(CodeBadRequest, "line is not a JSON object of this protocol")
	}
	switch a.Op {
	case opList:
		return answer{Keys: slices.DeleteFunc(slices.Clone(s.list), func(k string) bool { return !who.client.has(k) })}
	case opSign, opExtrinsic:
	default:
		return refused(CodeBadRequest, "op is neither list, sign nor extrinsic")
	}
	if len(a.Message) > MaxMessage {
		return refused(CodeTooLarge, "message of %d bytes: at most %d", len(a.Message), MaxMessage)
	}
	key, ok := s.keys[a.SS58]
	if !ok || !who.client.has(a.SS58) {
		s.log.Warn("key agent was asked for a key that it has not", "who", who)
		return refused(CodeUnknownKey, "the agent has no such key")
	}
	if why := s.allowed(&a, who); why != "" {
		s.log.Warn("key agent does not sign", "key", a.SS58, "who", who, "why", why)
		return refused(CodePolicy, "the agent's policy does not allow this: %s", why)
	}
	msg := a.Message
	if a.Op == opExtrinsic {
		msg = signed(msg)
	}
	sig, err := key.Sign(msg)
	if err != nil {
		s.log.Error("key agent cannot sign", "key", a.SS58, "err", err)
		return refused(CodeInternal, "cannot sign")
	}
	if s.audit != nil {
		if err := s.audit(noted(&a, who, s.now())); err != nil {
			s.log.Error("key agent does not sign what it cannot note", "err", err)
			return refused(CodeInternal, "the agent cannot note what it signs")
		}
	}
	return answer{Signature: hex.EncodeToString(sig)}
}

// allowed says why the agent's policy, or the client's, forbids a message; "" = both allow it.
func (s *Server) allowed(a *ask, who *asker) (why string) {
	list := []scope{{"", &s.only}}
	if who.client != nil {
		list = append(list, scope{who.name, &who.client.only})
	}
	var rao uint64
	for _, x := range list {
		if a.Op == opSign {
			why = x.policy.text(a.Message)
		} else if why = x.policy.call(a.Message); why == "" && !x.policy.open() {
			var moved uint64
			if moved, why = x.policy.over(a.Message); moved > 0 {
				rao = moved
			}
		}
		if why != "" {
			return why
		}
	}
	return s.spend(a.SS58, rao, list, s.now())
}

func (s *Server) write(conn net.Conn, a answer) bool {
	b, err := json.Marshal(a)
	if err != nil {
		panic("agent: an answer does not encode: " + err.Error()) // strings only
	}
	if err := conn.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return false
	}
	_, err = conn.Write(append(b, '\n'))
	return err == nil
}

// Client is an auth.Signer whose key is in an agent.
type Client struct {
	path    string
	over    *certs.Client // where path is a Scheme address
	address string
	public  [32]byte

	mu    sync.Mutex
	conn  net.Conn      // guarded by mu; nil = connect at the next use
	lines *bufio.Reader // guarded by mu; of conn
}

var _ auth.Signer = (*Client)(nil)

// Dial returns a signer for address, or for the agent's only key where address
// is "". place is a socket's path, or tls://HOST:PORT, which over connects to (nil for
// a socket). The agent must answer and have the key. Close it after use; it
// connects again by itself when the agent was restarted.
func Dial(place, address string, over *certs.Client) (*Client, error) {
	keys, err := List(place, over)
	if err != nil {
		return nil, err
	}
	switch {
	case address == "" && len(keys) == 1:
		address = keys[0]
	case address == "":
		return nil, fmt.Errorf("key agent has %d keys: name one", len(keys))
	case !slices.Contains(keys, address):
		return nil, &Error{CodeUnknownKey, "the agent has no key " + address}
	}
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return nil, fmt.Errorf("key agent: %w", err)
	}
	return &Client{path: place, over: over, address: address, public: pub}, nil
}

// List returns the addresses that the agent at place signs for.
func List(place string, over *certs.Client) ([]string, error) {
	c := &Client{path: place, over: over}
	defer c.Close()
	a, err := c.call(ask{Op: opList})
	if err != nil {
		return nil, err
	}
	return a.Keys, nil
}

// SS58 returns the address.
func (c *Client) SS58() string { return c.address }

// Sign asks the agent for a signature over msg, at most MaxMessage bytes, and
// checks it. An *Error is the agent's own refusal.
func (c *Client) Sign(msg []byte) ([]byte, error) {
	if len(msg) > MaxMessage {
		return nil, &Error{CodeTooLarge, fmt.Sprintf("message of %d bytes: at most %d", len(msg), MaxMessage)}
	}
	return c.sign(opSign, msg, msg)
}

// sign asks for a signature; signed is what the agent signs of the message.
func (c *Client) sign(op string, message, msg []byte) ([]byte, error) {
	a, err := c.call(ask{Op: op, SS58: c.address, Message: message})
	if err != nil {
		return nil, err
	}
	return checked(a.Signature, c.public, msg)
}

// Close ends the connection. The client may be used again.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop()
}

// drop runs under mu.
func (c *Client) drop() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn, c.lines = nil, nil
	return err
}

// call asks once, and once more on a new connection where an old one turns out
// dead: to sign twice does no harm.
func (c *Client) call(a ask) (answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.conn != nil
	out, err := c.try(a)
	if err != nil && kept {
		out, err = c.try(a)
	}
	if err != nil {
		return answer{}, fmt.Errorf("ask key agent at %s: %w", c.path, err)
	}
	if out.Error != nil {
		return answer{}, out.Error
	}
	return out, nil
}

// try runs under mu. It leaves no connection behind an error.
func (c *Client) try(a ask) (out answer, err error) {
	defer func() {
		if err != nil || out.Error != nil {
			_ = c.drop()
		}
	}()
	if c.conn == nil {
		conn, err := c.connect()
		if err != nil {
			return answer{}, err
		}
		c.conn, c.lines = conn, bufio.NewReaderSize(conn, maxLine)
	}
	if err := c.conn.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return answer{}, err
	}
	line, err := json.Marshal(a)
	if err != nil {
		return answer{}, err
	}
	// An agent that refuses a connection answers and closes it before it reads: its answer counts more than our error.
	_, werr := c.conn.Write(append(line, '\n'))
	reply, err := c.lines.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, io.EOF) && werr == nil {
			err = io.ErrUnexpectedEOF
		}
		return answer{}, errors.Join(werr, err)
	}
	if err := json.Unmarshal(reply, &out); err != nil {
		return answer{}, errors.New("answer is not of this protocol")
	}
	return out, nil
}
