package subtensor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// maxAnswer bounds what a node may answer, in bytes.
const maxAnswer = 64 << 20

// RPCError is a node's refusal.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// names of the codes that a node's transaction pool has.
var poolNames = map[int]string{
	1002: "VerificationError", 1010: "InvalidTransaction", 1011: "UnknownValidity", 1012: "TemporarilyBanned", 1013: "AlreadyImported", 1014: "PriorityTooLow",
	1015: "CycleDetected", 1016: "ImmediatelyDropped",
}

// Name is a stable name of the error.
func (e *RPCError) Name() string {
	if name, ok := poolNames[e.Code]; ok {
		return name
	}
	switch e.Code {
	case -32601:
		return "MethodNotFound"
	case -32602:
		return "InvalidParams"
	}
	return "RPC"
}

func (e *RPCError) Error() string {
	s := e.Message
	if len(e.Data) > 0 && len(e.Data) < 500 {
		s += ": " + strings.Trim(string(e.Data), `"`)
	}
	return fmt.Sprintf("%s (%s, %d)", s, e.Name(), e.Code)
}

func (e *RPCError) says(words ...string) bool {
	text := strings.ToLower(e.Message + " " + string(e.Data))
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

type rpcRequest struct {
	Version string `json:"jsonrpc"`
	ID      uint64 `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type rpcResponse struct {
	ID     *uint64         `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// transport carries requests to one node. An error that is no *RPCError is the
// transport's: it is not known whether the node saw the request.
type transport interface {
	call(ctx context.Context, method string, params []any) (json.RawMessage, error)
	close()
}

func encodeRequest(id uint64, method string, params []any) ([]byte, error) {
	if params == nil {
		params = []any{}
	}
	b, err := json.Marshal(rpcRequest{"2.0", id, method, params})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	return b, nil
}

type httpTransport struct {
	url    string
	client *http.Client
}

func (t *httpTransport) close() { t.client.CloseIdleConnections() }

func (t *httpTransport) call(ctx context.Context, method string, params []any) (json.RawMessage, error) {
	b, err := encodeRequest(1, method, params)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", t.url, err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := t.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", t.url, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", t.url, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("read answer of %s: more than %d bytes", t.url, maxAnswer)
	}
	var r rpcResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("read answer of %s: status %d, no JSON-RPC: %w", t.url, res.StatusCode, err)
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return r.Result, nil
}

var errClosed = errors.New("connection is closed")

// wsTransport carries many requests over one connection. The first error or
// an answer that does not come in time ends it: a half-dead connection is
// worse than none.
type wsTransport struct {
	url  string
	ws   *websocket.Conn
	done chan struct{} // closed by the reader when the connection ended

	mu      sync.Mutex // guards what follows
	next    uint64
	pending map[uint64]chan rpcResponse
	err     error
}

func dialWS(ctx context.Context, url string, over http.RoundTripper) (*wsTransport, error) {
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: over}}) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", url, err)
	}
	ws.SetReadLimit(maxAnswer)
	t := &wsTransport{url: url, ws: ws, done: make(chan struct{}), pending: map[uint64]chan rpcResponse{}}
	go t.read()
	return t, nil
}

func (t *wsTransport) read() {
	defer close(t.done)
	for {
		_, b, err := t.ws.Read(context.Background())
		var r rpcResponse
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		t.mu.Lock()
		if err != nil {
			t.err = err
			t.mu.Unlock()
			_ = t.ws.CloseNow()
			return
		}
		var to chan rpcResponse
		if r.ID != nil {
			to = t.pending[*r.ID]
			delete(t.pending, *r.ID)
		}
		t.mu.Unlock()
		if to != nil {
			to <- r
		}
	}
}

// close ends the connection; the reader ends with it.
func (t *wsTransport) close() {
	_ = t.ws.CloseNow()
	<-t.done
}

func (t *wsTransport) call(ctx context.Context, method string, params []any) (json.RawMessage, error) {
	answer := make(chan rpcResponse, 1)
	t.mu.Lock()
	t.next++
	id := t.next
	t.pending[id] = answer
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.pending, id)
		t.mu.Unlock()
	}()
	b, err := encodeRequest(id, method, params)
	if err != nil {
		return nil, err
	}
	if err := t.ws.Write(ctx, websocket.MessageText, b); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errClosed, err)
		}
		return nil, fmt.Errorf("ask %s: %w", t.url, err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			return nil, r.Error
		}
		return r.Result, nil
	case <-t.done:
		t.mu.Lock()
		defer t.mu.Unlock()
		return nil, fmt.Errorf("ask %s: %w: %w", t.url, errClosed, t.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("ask %s for %s: %w", t.url, method, ctx.Err())
	}
}

// endpoint is one node and how it did.
type endpoint struct {
	url  string
	over http.RoundTripper

	mu      sync.Mutex // guards what follows
	t       transport
	checked bool // its genesis is ours
	failed  int  // in a row
	until   time.Time
	err     error
}

// Health says how an endpoint does.
type Health struct {
	URL    string `json:"url"`
	InUse  bool   `json:"in_use"`
	Failed int    `json:"failed"` // calls in a row
	Error  string `json:"error,omitempty"`
}

// connection gives the endpoint's transport, made anew where there is none.
func (e *endpoint) connection(ctx context.Context) (transport, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.t != nil {
		return e.t, nil
	}
	if strings.HasPrefix(e.url, "ws://") || strings.HasPrefix(e.url, "wss://") {
		t, err := dialWS(ctx, e.url, e.over)
		if err != nil {
			return nil, err
		}
		e.t = t
	} else {
		e.t = &httpTransport{e.url, &http.Client{Transport: e.over}}
	}
	e.checked = false
	return e.t, nil
}

// broken drops a connection and keeps the endpoint out of use for a while.
func (e *endpoint) broken(t transport, now time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t != nil && e.t == t {
		e.t = nil
		go t.close() // it may wait for its reader
	}
	e.failed++
	e.err = err
	e.until = now.Add(time.Second << min(e.failed-1, 6))
}

func (e *endpoint) worked() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed, e.err, e.until = 0, nil, time.Time{}
}
