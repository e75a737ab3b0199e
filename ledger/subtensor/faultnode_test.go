package subtensor_test

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // WebSocket's handshake wants it
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// act is what a scripted node does with an answer.
type act int

const (
	send   act = iota
	silent     // never answers
	cut        // the connection ends
	half       // half of the answer, then the connection ends
	late       // after the answer to the next request, or a while later
	twice      // the same answer two times
	frame      // a frame that says it is larger than any memory
)

// asked is one request.
type asked struct {
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// text is a parameter that is a string; "" where it is none.
func (q *asked) text(i int) (s string) {
	if i < len(q.Params) {
		_ = json.Unmarshal(q.Params[i], &s) // a number is none
	}
	return s
}

// number is a parameter that is a number.
func (q *asked) number(i int) (n uint64, ok bool) {
	return n, i < len(q.Params) && json.Unmarshal(q.Params[i], &n) == nil
}

// script sees each request before the node does. A result that is not nil is
// answered instead of the node's.
type script func(q *asked, real func() json.RawMessage) (result any, do act)

// faultNode is a node that does what its script says.
type faultNode struct {
	t      testing.TB
	behind http.Handler
	script script
	http   *httptest.Server
	done   chan struct{}
}

func newFaultNode(t testing.TB, behind http.Handler, s script) *faultNode {
	t.Helper()
	f := &faultNode{t: t, behind: behind, script: s, done: make(chan struct{})}
	f.http = httptest.NewServer(f)
	t.Cleanup(func() {
		close(f.done)
		f.http.Close()
	})
	return f
}

func (f *faultNode) url(ws bool) string {
	if ws {
		return "ws" + strings.TrimPrefix(f.http.URL, "http")
	}
	return f.http.URL
}

// answer makes the answer to a request, and says what to do with it.
func (f *faultNode) answer(body []byte) ([]byte, act) {
	var q struct {
		asked
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		f.t.Errorf("the client asks %q: %v", body, err)
		return nil, cut
	}
	node := func() []byte {
		rec := httptest.NewRecorder()
		f.behind.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		return rec.Body.Bytes()
	}
	result, do := f.script(&q.asked, func() json.RawMessage {
		var r struct{ Result json.RawMessage }
		if err := json.Unmarshal(node(), &r); err != nil {
			f.t.Error(err)
		}
		return r.Result
	})
	if result == nil {
		return node(), do
	}
	if raw, ok := result.(rawAnswer); ok {
		return []byte(strings.ReplaceAll(string(raw), "$ID", string(q.ID))), do
	}
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
	if err != nil {
		f.t.Error(err)
	}
	return b, do
}

// rawAnswer is sent as it is, with $ID for the request's.
type rawAnswer string

// absent is an answer of null.
var absent = rawAnswer(`{"jsonrpc":"2.0","id":$ID,"result":null}`)

func (f *faultNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		f.socket(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b, do := f.answer(body)
	switch do {
	case silent:
		select {
		case <-r.Context().Done():
		case <-f.done:
		}
	case cut:
		panic(http.ErrAbortHandler)
	case half, frame:
		w.Header().Set("Content-Length", fmt.Sprint(len(b)*map[act]int{half: 1, frame: 1 << 20}[do]))
		_, _ = w.Write(b[:len(b)/2]) // the client may be gone
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write(b)
	}
}

func (f *faultNode) socket(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow()
	ws.SetReadLimit(1 << 20)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-f.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	var mu sync.Mutex // guards held and writes
	var held []byte
	write := func(b []byte) { _ = ws.Write(ctx, websocket.MessageText, b) } // the client may be gone
	release := func() {
		mu.Lock()
		defer mu.Unlock()
		if held != nil {
			write(held)
			held = nil
		}
	}
	for {
		_, body, err := ws.Read(ctx)
		if err != nil {
			return
		}
		b, do := f.answer(body)
		switch do {
		case silent:
		case cut:
			return
		case half:
			write(b[:len(b)/2])
		case late:
			release()
			mu.Lock()
			held = b
			mu.Unlock()
			time.AfterFunc(30*time.Millisecond, release) // where nothing else is asked
		case twice:
			mu.Lock()
			write(b)
			write(b)
			mu.Unlock()
		default:
			mu.Lock()
			write(b)
			mu.Unlock()
			release()
		}
	}
}

// hugeFrame is a node that takes a WebSocket and answers with the head of a
// frame of a terabyte, and nothing else.
func hugeFrame(t testing.TB) string {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
		_, _ = rw.Write(append(binary.BigEndian.AppendUint64([]byte{0x81, 127}, 1<<40), `{"jsonrpc":`...))
		_ = rw.Flush()
		<-done
	}))
	t.Cleanup(func() {
		close(done)
		s.Close()
	})
	return "ws" + strings.TrimPrefix(s.URL, "http")
}

// switchHandler is one node until it is upgraded, then another.
type switchHandler struct {
	upgraded  interface{ Load() bool }
	old, next http.Handler
}

func (s switchHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.upgraded.Load() {
		s.next.ServeHTTP(w, r)
		return
	}
	s.old.ServeHTTP(w, r)
}

// scriptKey answers one storage item with a value.
func scriptKey(key, value string) script {
	return func(q *asked, _ func() json.RawMessage) (any, act) {
		if q.Method == "state_getStorage" && q.text(0) == key {
			return value, send
		}
		return nil, send
	}
}
