package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// subscriptions need a connection.
var subscriptions = []string{
	"chain_subscribeNewHeads", "chain_subscribeNewHead", "chain_subscribeAllHeads", "chain_subscribeFinalizedHeads", "chain_subscribeFinalisedHeads",
	"chain_unsubscribeNewHeads", "chain_unsubscribeNewHead", "chain_unsubscribeAllHeads", "chain_unsubscribeFinalizedHeads", "chain_unsubscribeFinalisedHeads",
	"state_subscribeRuntimeVersion", "state_unsubscribeRuntimeVersion", "state_subscribeStorage", "state_unsubscribeStorage",
	"author_submitAndWatchExtrinsic", "author_unwatchExtrinsic",
}

const (
	maxSubscriptions = 64
	maxHeads         = 32 // heads that are reported one by one after a jump
	writeTimeout     = 20 * time.Second
)

// conn is one connection.
type conn struct {
	*Server
	ws *websocket.Conn

	mu    sync.Mutex // guards what follows
	next  int
	heads map[string]string   // names of messages by subscription
	watch map[string][]string // keys by subscription
	said  map[string]string   // the last answer by subscription
	after [][]byte            // what is sent after the answer under way
	sent  map[string]uint64   // blocks of extrinsics that are not told as final yet, by subscription
	in    map[string]bool     // those that are told as in a block
}

const finalizedHead = "chain_finalizedHead"

func (s *Server) websocket(w http.ResponseWriter, r *http.Request) {
	// Any page may ask: there is nothing here but what is public, and extrinsics carry their own signature.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	ws.SetReadLimit(MaxRequest)
	ctx, cancel := context.WithCancel(r.Context())
	c := &conn{Server: s, ws: ws, heads: map[string]string{}, watch: map[string][]string{}, said: map[string]string{}, sent: map[string]uint64{}, in: map[string]bool{}}
	var follow sync.WaitGroup
	follow.Go(func() { c.follow(ctx) })
	defer func() {
		cancel()
		follow.Wait()
		_ = ws.CloseNow() // whatever is left of it
	}()
	methods := c.table()
	for {
		_, body, err := ws.Read(ctx)
		if err != nil {
			return
		}
		answer, err := json.Marshal(s.read(ctx, body, methods))
		if err != nil {
			s.cfg.Log.Error("encode answer", "err", err)
			return
		}
		if err := c.send(ctx, answer); err != nil {
			return
		}
		c.mu.Lock()
		after := c.after
		c.after = nil
		c.mu.Unlock()
		for _, b := range after {
			if err := c.send(ctx, b); err != nil {
				return
			}
		}
	}
}

func (c *conn) send(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, b)
}

func message(method, id string, result any) ([]byte, error) {
	return json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": map[string]any{"subscription": id, "result": result}})
}

// later queues a message for when the answer under way is sent. c.mu is held.
func (c *conn) later(method, id string, result any) error {
	b, err := message(method, id, result)
	if err == nil {
		c.after = append(c.after, b)
	}
	return err
}

func (c *conn) id() (string, error) {
	if len(c.heads)+len(c.watch)+len(c.sent) >= maxSubscriptions {
		return "", &rpcError{Code: -32000, Message: fmt.Sprintf("at most %d subscriptions", maxSubscriptions)}
	}
	c.next++
	return fmt.Sprintf("agon%d", c.next), nil
}

func (c *conn) table() map[string]method {
	heads := func(told string) method {
		return func(ctx context.Context, _ []json.RawMessage) (any, error) {
			n, err := c.newest(ctx)
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			id, err := c.id()
			if err != nil {
				return nil, err
			}
			c.heads[id] = told
			if told == finalizedHead {
				n = c.final(n)
			}
			h, err := c.header(ctx, n)
			if err != nil {
				return nil, err
			}
			return id, c.later(told, id, h)
		}
	}
	end := func(_ context.Context, p []json.RawMessage) (any, error) {
		var id string
		if _, err := arg(p, 0, "subscription", &id); err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.heads, id)
		delete(c.watch, id)
		delete(c.said, id)
		delete(c.sent, id)
		delete(c.in, id)
		return true, nil
	}
	t := map[string]method{
		"chain_subscribeNewHeads": heads("chain_newHead"), "chain_subscribeNewHead": heads("chain_newHead"), "chain_subscribeAllHeads": heads("chain_allHead"),
		"chain_subscribeFinalizedHeads": heads(finalizedHead), "chain_subscribeFinalisedHeads": heads(finalizedHead),
		"state_subscribeRuntimeVersion": func(context.Context, []json.RawMessage) (any, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			id, err := c.id()
			if err != nil {
				return nil, err
			}
			return id, c.later("state_runtimeVersion", id, c.version())
		},
		"state_subscribeStorage":         c.subscribeStorage,
		"author_submitAndWatchExtrinsic": c.submitAndWatch,
	}
	for _, name := range subscriptions {
		if t[name] == nil {
			t[name] = end
		}
	}
	return t
}

func (c *conn) subscribeStorage(ctx context.Context, p []json.RawMessage) (any, error) {
	var keys []string
	if _, err := arg(p, 0, "keys", &keys); err != nil || len(keys) > maxKeys {
		return nil, badParams("keys: a list of at most %d", maxKeys)
	}
	n, err := c.newest(ctx)
	if err != nil {
		return nil, err
	}
	v, err := c.changes(ctx, n, keys)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	c.watch[id] = keys
	c.said[id] = sayable(v)
	return id, c.later("state_storage", id, v)
}

// sayable is an answer without its block, to be compared.
func sayable(v any) string {
	m, _ := v.(map[string]any)
	return fmt.Sprint(m["changes"])
}

func (c *conn) submitAndWatch(ctx context.Context, p []json.RawMessage) (any, error) {
	b, ok, err := hexArg(p, 0, "extrinsic")
	if err != nil || !ok {
		return nil, badParams("extrinsic is missing or no hex")
	}
	_, number, err := c.submit(ctx, b)
	if err != nil {
		return nil, err
	}
	newest, err := c.newest(ctx)
	if err != nil {
		return nil, err
	}
	// Who watches values, such as the account's nonce, has them before the extrinsic's end.
	if err := c.tell(ctx, newest, newest); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	if err := c.later("author_extrinsicUpdate", id, "ready"); err != nil {
		return nil, err
	}
	c.sent[id] = number
	all, err := c.included(ctx, newest)
	c.after = append(c.after, all...)
	return id, err
}

// included tells of extrinsics whose block is told. c.mu is held.
func (c *conn) included(ctx context.Context, newest uint64) (out [][]byte, err error) {
	for id, number := range c.sent {
		if number > newest {
			continue
		}
		var told []string
		if !c.in[id] {
			c.in[id] = true
			told = append(told, "inBlock")
		}
		if number <= c.final(newest) {
			delete(c.sent, id)
			delete(c.in, id)
			told = append(told, "finalized")
		}
		hash, err := c.hexHashOf(ctx, number)
		if err != nil {
			return nil, err
		}
		for _, status := range told {
			b, err := message("author_extrinsicUpdate", id, map[string]any{status: hash})
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// follow tells new blocks and changed values until the connection ends.
func (c *conn) follow(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Poll)
	defer tick.Stop()
	last, err := c.newest(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var n uint64
		if n, err = c.newest(ctx); err == nil {
			err = c.tell(ctx, last, n)
			last = n
		}
	}
	if ctx.Err() == nil {
		c.cfg.Log.Debug("follow blocks", "err", err)
		_ = c.ws.CloseNow() // the other side connects again
	}
}

func (c *conn) tell(ctx context.Context, last, newest uint64) error {
	c.mu.Lock()
	var out [][]byte
	for n := max(last+1, newest-min(newest, maxHeads)+1); n <= newest && len(c.heads) > 0; n++ {
		for id, told := range c.heads {
			if told == finalizedHead && n <= c.cfg.Lag {
				continue
			}
			at := n
			if told == finalizedHead {
				at = c.final(n)
			}
			h, err := c.header(ctx, at)
			var b []byte
			if err == nil {
				b, err = message(told, id, h)
			}
			if err != nil {
				c.mu.Unlock()
				return err
			}
			out = append(out, b)
		}
	}
	watch := make(map[string][]string, len(c.watch))
	for id, keys := range c.watch {
		watch[id] = keys
	}
	c.mu.Unlock()
	for id, keys := range watch {
		v, err := c.changes(ctx, newest, keys)
		if err != nil {
			return err
		}
		c.mu.Lock()
		if _, still := c.watch[id]; still && c.said[id] != sayable(v) {
			c.said[id] = sayable(v)
			b, err := message("state_storage", id, v)
			if err != nil {
				c.mu.Unlock()
				return err
			}
			out = append(out, b)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	ended, err := c.included(ctx, newest)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	for _, b := range append(out, ended...) {
		if err := c.send(ctx, b); err != nil {
			return err
		}
	}
	return nil
}
