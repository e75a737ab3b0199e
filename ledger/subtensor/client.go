// Package subtensor is the client of a Bittensor chain, and of whatever else
// answers Substrate JSON-RPC as it does, such as ledger/rpc. What it encodes
// and decodes follows the runtime's own metadata.
//
// Nothing hangs: each call has a deadline, a connection that misses one is
// dropped, and what became of an extrinsic is read from the blocks, not from a
// subscription that may have died.
package subtensor

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Nodes of known networks.
var Networks = map[string]string{
	"finney": "wss://entrypoint-finney.opentensor.ai:443",
	"test":   "wss://test.finney.opentensor.ai:443",
	"local":  "ws://127.0.0.1:9944",
}

// Genesis is the hash of block 0 of the known networks that never change theirs.
var Genesis = map[string]string{
	"finney": "0x2f0555cc76fc2840a25a6ea3b9637146806f1f44b090c175ffde2a7e5ab36c03",
}

// Errors that callers branch on.
var (
	// ErrNoNode says that no endpoint answered; the last error of each is in it.
	ErrNoNode = errors.New("no node answers")
	// ErrGenesis says that an endpoint is of another chain.
	ErrGenesis = errors.New("node is of another chain")
	// ErrUnknownFate says that an extrinsic was sent and not seen in a block for
	// as long as it could be taken. It cannot be taken any more.
	ErrUnknownFate = errors.New("extrinsic was not taken into a block before it died")
	// ErrStalled says that no new block came while an extrinsic was on its way.
	ErrStalled = errors.New("no new block came")
	// ErrBadState says that a node's answer does not make sense.
	ErrBadState = errors.New("node's answer does not make sense")
)

// Config configures a client.
type Config struct {
	// URLs are the nodes, http, https, ws or wss, the preferred first.
	URLs []string
	// Genesis is the hash of the chain's block 0, 0x and 64 hex digits; a node of
	// another chain is refused. "" = the first node that answers decides.
	Genesis string
	// Signer gives the key of an address; nil = reads only.
	Signer func(address string) (auth.Signer, error)
	// Transport carries requests to http addresses; nil = the default one.
	Transport http.RoundTripper
	// Timeout is for one call; 0 = 30 s.
	Timeout time.Duration
	// Finalized waits for blocks that cannot be retracted; otherwise the first block counts.
	Finalized bool
	// Poll is how often blocks are looked for while an extrinsic is on its way; 0 = 1 s.
	Poll time.Duration
	// Stall is after how long without a new block the node is changed; 0 = 90 s.
	Stall time.Duration
	// Patience is after how long without a new block an extrinsic on its way is given up; 0 = 10 min.
	Patience time.Duration
	// Period is how many blocks an extrinsic lives; 0 = 128.
	Period uint64
	// Immortal makes extrinsics that never die, for signers that cannot be asked
	// again. One that is not seen is given up after Patience, and may be taken later.
	Immortal bool
	// Retracted is called when a block that held an extrinsic on its way is none any
	// more; the extrinsic is sent again and watched on. nil = nobody.
	Retracted func(hash string, block uint64)
	// Included is called with each extrinsic that came into a block, refused or not; nil = nobody.
	Included func(Included)
	// NoAPI reads metagraphs from storage, as from a runtime without the API.
	NoAPI bool
	// Relays are drand's HTTP relays, asked for rounds that the chain does not have; nil = none.
	Relays []string
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Client is a client. It is safe for concurrent use.
type Client struct {
	cfg   Config
	nodes []*endpoint

	mu      sync.Mutex // guards what follows
	current int        // index of the node in use
	genesis *[32]byte
	// runtimes are those read, the last one last.
	runtimes []*runtime
	best     uint64    // highest block told
	rose     time.Time // when best rose last
	queues   map[string]*sync.Mutex
}

// runtime is what was read of one spec version.
type runtime struct {
	spec, tx uint32
	meta     *scale.Metadata
}

var (
	_ ledger.Full      = (*Client)(nil)
	_ ledger.Sequencer = (*Client)(nil)
)

// New makes a client; it connects at the first call.
func New(cfg Config) (*Client, error) {
	if len(cfg.URLs) == 0 {
		return nil, errors.New("no node is named")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Poll == 0 {
		cfg.Poll = time.Second
	}
	if cfg.Stall == 0 {
		cfg.Stall = 90 * time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Minute
	}
	if cfg.Period == 0 {
		cfg.Period = 128
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Client{cfg: cfg, queues: map[string]*sync.Mutex{}}
	if cfg.Genesis != "" {
		h, err := hash32(cfg.Genesis)
		if err != nil {
			return nil, fmt.Errorf("genesis: %w", err)
		}
		c.genesis = &h
	}
	for _, u := range cfg.URLs {
		scheme, _, ok := strings.Cut(u, "://")
		if !ok || scheme != "http" && scheme != "https" && scheme != "ws" && scheme != "wss" {
			return nil, fmt.Errorf("node %q: want a ws, wss, http or https address", u)
		}
		c.nodes = append(c.nodes, &endpoint{url: u, over: cfg.Transport})
	}
	return c, nil
}

// Close drops all connections.
func (c *Client) Close() error {
	for _, e := range c.nodes {
		e.mu.Lock()
		t := e.t
		e.t = nil
		e.mu.Unlock()
		if t != nil {
			t.close()
		}
	}
	return nil
}

// Health lists the endpoints.
func (c *Client) Health() []Health {
	c.mu.Lock()
	current := c.current
	c.mu.Unlock()
	out := make([]Health, len(c.nodes))
	for i, e := range c.nodes {
		e.mu.Lock()
		out[i] = Health{URL: e.url, InUse: i == current, Failed: e.failed}
		if e.err != nil {
			out[i].Error = e.err.Error()
		}
		e.mu.Unlock()
	}
	return out
}

// call asks the node in use; where it fails, the others, those that failed
// lately last. sticky stays with the first that could be connected, for what must not be sent twice.
func (c *Client) call(ctx context.Context, sticky bool, out any, method string, params ...any) error {
	c.mu.Lock()
	first := c.current
	c.mu.Unlock()
	var problems []error
	failed := make([]error, len(c.nodes)) // in this call
	for _, rested := range []bool{true, false} {
		for i := range c.nodes {
			at := (first + i) % len(c.nodes)
			e := c.nodes[at]
			e.mu.Lock()
			rests := c.cfg.Now().Before(e.until)
			e.mu.Unlock()
			// A connection that the other side had closed is made anew; who let a
			// deadline pass is not asked twice.
			if failed[at] != nil && !errors.Is(failed[at], errClosed) || failed[at] == nil && rests == rested {
				continue
			}
			sent, err := c.ask(ctx, e, out, method, params)
			var refused *RPCError
			if err == nil || errors.As(err, &refused) {
				c.mu.Lock()
				c.current = at
				c.mu.Unlock()
				return err
			}
			failed[at] = err
			problems = append(problems, err)
			if ctx.Err() != nil || sticky && sent {
				return errors.Join(problems...)
			}
		}
	}
	return fmt.Errorf("%s: %w: %w", method, ErrNoNode, errors.Join(problems...))
}

// ask asks one endpoint. sent says that it may have seen the request.
func (c *Client) ask(ctx context.Context, e *endpoint, out any, method string, params []any) (sent bool, err error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	t, err := e.connection(ctx)
	if err == nil {
		err = c.check(ctx, e, t)
	}
	if err == nil {
		sent = true
		var raw json.RawMessage
		raw, err = t.call(ctx, method, params)
		if err == nil {
			if err = json.Unmarshal(raw, out); err != nil {
				err = fmt.Errorf("%w: %s of %s: %w", ErrBadState, method, e.url, err)
			}
		}
	}
	var refused *RPCError
	switch {
	case err == nil:
		e.worked()
	case !errors.As(err, &refused) && caller.Err() == nil: // who gives up says nothing of the node
		e.broken(t, c.cfg.Now(), err)
	}
	return sent, err
}

// check holds a new connection's genesis against that of the first.
func (c *Client) check(ctx context.Context, e *endpoint, t transport) error {
	e.mu.Lock()
	done := e.checked
	e.mu.Unlock()
	if done {
		return nil
	}
	raw, err := t.call(ctx, "chain_getBlockHash", []any{0})
	if err != nil {
		return fmt.Errorf("genesis of %s: %v", e.url, err) //nolint:errorlint // its text only: the caller tries the next node
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("genesis of %s: %w: %w", e.url, ErrBadState, err)
	}
	h, err := hash32(text)
	if err != nil {
		return fmt.Errorf("genesis of %s: %w", e.url, err)
	}
	c.mu.Lock()
	if c.genesis == nil {
		c.genesis = &h
	}
	same := *c.genesis == h
	c.mu.Unlock()
	if !same {
		return fmt.Errorf("%w: %s has genesis %x", ErrGenesis, e.url, h)
	}
	e.mu.Lock()
	e.checked = true
	e.mu.Unlock()
	return nil
}

func hash32(text string) (h [32]byte, err error) {
	b, err := unhex(text)
	if err != nil || len(b) != 32 {
		return h, fmt.Errorf("%w: %q is not a hash", ErrBadState, text[:min(len(text), 80)])
	}
	return [32]byte(b), nil
}

func unhex(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, fmt.Errorf("%w: hex does not begin with 0x", ErrBadState)
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	return b, nil
}

func hexed(b []byte) string { return "0x" + hex.EncodeToString(b) }

// point is a block of which everything is read, so that reads agree.
type point struct {
	number uint64
	hash   string
}

// head is the block that counts as the newest.
func (c *Client) head(ctx context.Context) (point, error) {
	p, err := c.newest(ctx, c.cfg.Finalized)
	if err == nil {
		c.rise(p.number)
	}
	return p, err
}

// newest is the newest block, or the newest that stays.
func (c *Client) newest(ctx context.Context, finalized bool) (p point, err error) {
	method := "chain_getBlockHash"
	if finalized {
		method = "chain_getFinalizedHead"
	}
	if err := c.call(ctx, false, &p.hash, method); err != nil {
		return p, err
	}
	if _, err := hash32(p.hash); err != nil {
		return p, err
	}
	var h struct {
		Number string `json:"number"`
	}
	if err := c.call(ctx, false, &h, "chain_getHeader", p.hash); err != nil {
		return p, err
	}
	if p.number, err = strconv.ParseUint(strings.TrimPrefix(h.Number, "0x"), 16, 32); err != nil {
		return p, fmt.Errorf("%w: block number %q", ErrBadState, h.Number)
	}
	return p, nil
}

// hashAt is the hash of the block of a number; "" where there is none yet.
func (c *Client) hashAt(ctx context.Context, number uint64) (string, error) {
	var text *string
	if err := c.call(ctx, false, &text, "chain_getBlockHash", number); err != nil || text == nil {
		return "", err
	}
	_, err := hash32(*text)
	return *text, err
}

// BlockHash returns the hash of a block of the chain; empty: it is not there yet.
func (c *Client) BlockHash(ctx context.Context, number uint64) (string, error) {
	newest, err := c.Block(ctx)
	if err != nil || number > newest {
		return "", err
	}
	return c.hashAt(ctx, number)
}

// rise is the watchdog: it sees that blocks come. A node that tells none for too
// long, or is far behind what another told, is left if there is another.
func (c *Client) rise(n uint64) {
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	const behind = 10
	if n > c.best || c.rose.IsZero() {
		c.best, c.rose = max(n, c.best), now
	}
	if now.Sub(c.rose) <= c.cfg.Stall && n+behind >= c.best {
		return
	}
	e := c.nodes[c.current]
	e.mu.Lock()
	t := e.t
	e.mu.Unlock()
	e.broken(t, now, fmt.Errorf("block %d of %d is the newest for %v", n, c.best, now.Sub(c.rose)))
	c.current = (c.current + 1) % len(c.nodes)
	c.rose = now
}

// Block implements ledger.Reader.
func (c *Client) Block(ctx context.Context) (uint64, error) {
	if _, err := c.head(ctx); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best, nil
}

// maxRuntimes bounds the runtimes remembered: the one in force, and that of blocks before an upgrade.
const maxRuntimes = 4

// runtime gives the runtime of a block, by its hash; of the newest where that
// is empty. Metadata is read once for each version.
func (c *Client) runtime(ctx context.Context, hash string) (*runtime, error) {
	params := []any{}
	if hash != "" {
		params = append(params, hash)
	}
	var v struct {
		Spec uint32 `json:"specVersion"`
		Tx   uint32 `json:"transactionVersion"`
	}
	if err := c.call(ctx, false, &v, "state_getRuntimeVersion", params...); err != nil {
		return nil, err
	}
	c.mu.Lock()
	for _, rt := range c.runtimes {
		if rt.spec == v.Spec && rt.tx == v.Tx {
			c.mu.Unlock()
			return rt, nil
		}
	}
	c.mu.Unlock()
	m, err := c.metadata(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("metadata of runtime %d: %w", v.Spec, err)
	}
	rt := &runtime{v.Spec, v.Tx, m}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runtimes = append(c.runtimes, rt); len(c.runtimes) > maxRuntimes {
		c.runtimes = slices.Delete(c.runtimes, 0, 1)
	}
	return rt, nil
}

// now gives the newest block that counts and the metadata of its runtime.
func (c *Client) now(ctx context.Context) (point, *scale.Metadata, error) {
	at, err := c.head(ctx)
	if err != nil {
		return at, nil, err
	}
	rt, err := c.runtime(ctx, at.hash)
	if err != nil {
		return at, nil, err
	}
	return at, rt.meta, nil
}

// metadata reads version 15, which has the APIs, or what the node has.
func (c *Client) metadata(ctx context.Context, at []any) (*scale.Metadata, error) {
	var text string
	err := c.call(ctx, false, &text, "state_call", append([]any{"Metadata_metadata_at_version", "0x0f000000"}, at...)...)
	if b, herr := unhex(text); err == nil && herr == nil {
		if m, err := scale.Decode(b); err == nil {
			return m, nil
		}
	}
	var refused *RPCError
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	if err := c.call(ctx, false, &text, "state_getMetadata", at...); err != nil {
		return nil, err
	}
	b, err := unhex(text)
	if err != nil {
		return nil, err
	}
	return scale.Decode(b)
}
