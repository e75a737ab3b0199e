package subtensor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// faulty stands before a node. change sees each request and its answer, and
// returns what is answered; nil cuts the connection.
func faulty(t *testing.T, node http.Handler, change func(method string, answer []byte) []byte) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var q struct {
			Method string `json:"method"`
		}
		if err := json.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		node.ServeHTTP(rec, r)
		out := change(q.Method, rec.Body.Bytes())
		if out == nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(out) // the client may be gone
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func same(_ string, b []byte) []byte { return b }

// result makes an answer.
func result(v any) []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": v})
	if err != nil {
		panic(err)
	}
	return b
}

func refusal(code int, data string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"Invalid Transaction","data":%q}}`, code, data)
}

func registers(t *testing.T, c *subtensor.Client) error {
	t.Helper()
	_, err := c.Register(t.Context(), netuid, ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold"))
	return err
}

// TestAnswerLost cuts the connection after the node has the extrinsic: it is
// found in a block, and sent once.
func TestAnswerLost(t *testing.T) {
	l, s := newBed(t)
	var sent atomic.Int32
	url := faulty(t, s.Config.Handler, func(method string, b []byte) []byte {
		if method == "author_submitExtrinsic" {
			sent.Add(1)
			return nil
		}
		return b
	})
	c := client(t, subtensor.Config{URLs: []string{url, s.URL}})
	if err := registers(t, c); err != nil {
		t.Fatal(err)
	}
	m, err := l.Metagraph(t.Context(), netuid)
	if err != nil || len(m.Neurons) != 2 || sent.Load() != 1 {
		t.Errorf("%d neurons, sent %d times: %v", len(m.Neurons), sent.Load(), err)
	}
}

// TestUpgrade tells another version once: the pool refuses the signature, and
// the client signs anew for the version in force.
func TestUpgrade(t *testing.T) {
	_, s := newBed(t)
	var asked atomic.Int32
	url := faulty(t, s.Config.Handler, func(method string, b []byte) []byte {
		if method == "state_getRuntimeVersion" && asked.Add(1) == 1 {
			return bytes.Replace(b, []byte(`"specVersion":424`), []byte(`"specVersion":423`), 1)
		}
		return b
	})
	if err := registers(t, client(t, subtensor.Config{URLs: []string{url}})); err != nil {
		t.Fatal(err)
	}
	if asked.Load() < 2 {
		t.Error("the version was asked for once")
	}
}

// TestHalfOpen never answers: the deadline passes, the other node is used and
// the first is known as broken.
func TestHalfOpen(t *testing.T) {
	_, s := newBed(t)
	release := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer dead.Close()
	defer close(release)
	c := client(t, subtensor.Config{URLs: []string{dead.URL, s.URL}, Timeout: 3 * time.Second})
	if _, err := c.Metagraph(t.Context(), netuid); err != nil {
		t.Fatal(err)
	}
	if h := c.Health(); h[0].Failed == 0 || h[0].Error == "" || !h[1].InUse {
		t.Errorf("health %+v", h)
	}
	alone := client(t, subtensor.Config{URLs: []string{dead.URL}, Timeout: 50 * time.Millisecond})
	if _, err := alone.Block(t.Context()); !errors.Is(err, subtensor.ErrNoNode) {
		t.Errorf("no node: %v", err)
	}
}

// TestHalfOpenSocket holds connections that never answer and such that end
// after one request: each is dropped, and the call goes on elsewhere.
func TestHalfOpenSocket(t *testing.T) {
	_, s := newBed(t)
	for name, answers := range map[string]bool{"silent": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ws, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				defer ws.CloseNow()
				conns.Add(1)
				for {
					if _, _, err := ws.Read(r.Context()); err != nil || answers {
						return
					}
				}
			}))
			defer bad.Close()
			at := func(u string) string { return "ws" + strings.TrimPrefix(u, "http") }
			c := client(t, subtensor.Config{URLs: []string{at(bad.URL), at(s.URL)}, Timeout: 5 * time.Second})
			if _, err := c.Block(t.Context()); err != nil {
				t.Fatal(err)
			}
			if h := c.Health(); h[0].InUse || h[0].Failed != 1 || conns.Load() != 1 {
				t.Errorf("%d connections, health %+v", conns.Load(), h)
			}
		})
	}
}

func TestWrongGenesis(t *testing.T) {
	_, s := newBed(t)
	other := faulty(t, s.Config.Handler, func(method string, b []byte) []byte {
		if method == "chain_getBlockHash" {
			return result("0x" + strings.Repeat("ab", 32))
		}
		return b
	})
	c := client(t, subtensor.Config{URLs: []string{s.URL, other}})
	if _, err := c.Block(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.CloseClientConnections()
	s.Close()
	if _, err := c.Block(t.Context()); !errors.Is(err, subtensor.ErrGenesis) {
		t.Errorf("a node of another chain: %v", err)
	}
}

// TestPoolCodes names what a pool refuses.
func TestPoolCodes(t *testing.T) {
	_, s := newBed(t)
	for _, x := range []struct {
		code       int
		data, want string
	}{
		{1010, "Custom error: 6", "RateLimitExceeded"},
		{1010, "Inability to pay some fees", "InabilityToPay"},
		{1010, "Transaction call is not expected", "InvalidTransaction"},
		{1011, "", "UnknownValidity"},
		{1012, "", "TemporarilyBanned"},
		{1014, "Priority is too low: (18446744073709551615 vs 1)", "PriorityTooLow"},
		{1016, "", "ImmediatelyDropped"},
		{1010, "Transaction has a bad signature", "InvalidTransaction"},
	} {
		url := faulty(t, s.Config.Handler, func(method string, b []byte) []byte {
			if method == "author_submitExtrinsic" {
				return refusal(x.code, x.data)
			}
			return b
		})
		err := registers(t, client(t, subtensor.Config{URLs: []string{url}}))
		var refused *ledger.Error
		var pool *subtensor.RPCError
		switch {
		case errors.As(err, &refused) && refused.Name == x.want:
		case errors.As(err, &pool) && pool.Name() == x.want:
		default:
			t.Errorf("%d %s: %v, want %s", x.code, x.data, err, x.want)
		}
	}
}

// TestLies answers what makes no sense: an error each time, and no panic.
func TestLies(t *testing.T) {
	_, s := newBed(t)
	for _, lie := range []struct {
		method string
		answer []byte
	}{
		{"state_call", result("0x01")},
		{"state_call", result("0xff")},
		{"state_call", result("zz")},
		{"state_call", result("0x01" + "feffffff")},
		{"state_call", result(17)},
		{"state_call", []byte("not JSON")},
		{"state_queryStorageAt", result([]any{map[string]any{"changes": []any{[]any{"0x00", "0x01"}}}})},
		{"state_getKeysPaged", result([]string{"0x02", "0x01"})},
		{"state_getRuntimeVersion", result(map[string]any{"specVersion": -1})},
		{"chain_getHeader", result(map[string]any{"number": "0xzz"})},
		{"chain_getBlockHash", result("0x12")},
		{"chain_getHeader", []byte(`{`)},
	} {
		var armed atomic.Bool
		url := faulty(t, s.Config.Handler, func(method string, b []byte) []byte {
			if armed.Load() && method == lie.method {
				return lie.answer
			}
			return b
		})
		c := client(t, subtensor.Config{URLs: []string{url}})
		if lie.method != "state_getRuntimeVersion" {
			if _, err := c.Metagraph(t.Context(), netuid); err != nil {
				t.Fatal(err)
			}
		}
		armed.Store(true)
		if _, err := c.Metagraph(t.Context(), netuid); err == nil {
			t.Errorf("%s answers %s: no error", lie.method, lie.answer)
		}
	}
}

// TestStall leaves a node that tells no new blocks.
func TestStall(t *testing.T) {
	_, s := newBed(t)
	now := time.Unix(1, 0)
	c := client(t, subtensor.Config{URLs: []string{s.URL, faulty(t, s.Config.Handler, same)}, Now: func() time.Time { return now }, Stall: time.Minute})
	for range 2 {
		if _, err := c.Block(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * time.Minute)
	}
	if h := c.Health(); h[0].InUse || !h[1].InUse {
		t.Errorf("health %+v", h)
	}
}
