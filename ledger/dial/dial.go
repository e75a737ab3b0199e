// Package dial opens a ledger by the name that people give it: a network of the
// chain, the addresses of its nodes, or the address of an embedded ledger's server.
package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// Local names the embedded ledger of the arena's own server.
const Local = "local"

// maxAddresses bounds the nodes of one name.
const maxAddresses = 16

// Place is where a ledger is.
type Place struct {
	// Name is what was given; "" is the arena server's own ledger.
	Name string
	// URLs are the addresses, the preferred first; none for the arena server's own.
	URLs []string
	// Network says that Name is that of a known network, whose nodes agon knows itself.
	Network bool
}

// genesis is the hash of the chain's block 0, where the place is the network of one that is known.
func (p Place) genesis() string {
	for name, url := range subtensor.Networks {
		if p.Name == name || slices.Equal(p.URLs, []string{url}) { // people may name a network by its address
			return subtensor.Genesis[name]
		}
	}
	return ""
}

// Own reports whether the arena server's own ledger is meant.
func (p Place) Own() bool { return len(p.URLs) == 0 }

// Parse reads a name: "" and local are the arena server's own ledger, finney
// and test the chain's networks; else addresses with commas between them, all
// of the same ledger.
func Parse(name string) (Place, error) {
	bad := func(format string, args ...any) (Place, error) {
		return Place{}, &agon.Error{
			Code: "bad_ledger", Status: http.StatusUnprocessableEntity, Field: "ledger", Message: "ledger: " + fmt.Sprintf(format, args...),
			Mend: "give local, finney, test, or an http, https, ws or wss address",
		}
	}
	if name == "" || name == Local {
		return Place{}, nil
	}
	if at, ok := subtensor.Networks[name]; ok {
		return Place{Name: name, URLs: []string{at}, Network: true}, nil
	}
	p := Place{Name: name, URLs: strings.Split(name, ",")}
	if len(p.URLs) > maxAddresses {
		return bad("%d addresses, at most %d", len(p.URLs), maxAddresses)
	}
	for _, s := range p.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" {
			return bad("%q is neither local, finney, test nor an address", s[:min(len(s), 200)])
		}
		switch u.Scheme {
		case "http", "https", "ws", "wss":
		default:
			return bad("%q: want an http, https, ws or wss address", s[:min(len(s), 200)])
		}
	}
	return p, nil
}

// Config configures Open.
type Config struct {
	// Signer gives the key of an address; nil = reads only.
	Signer func(address string) (auth.Signer, error)
	// InBlock counts the first block of an extrinsic on a chain; else the one that stays.
	InBlock bool
	// Included is called with each extrinsic that came into a block of a chain; nil = nobody.
	Included func(subtensor.Included)
	// Retracted is called when a block that held a pending extrinsic was reorganised away; nil = nobody.
	Retracted func(hash string, block uint64)
	// Relays are drand's HTTP relays, for rounds that a chain does not have; nil = none.
	Relays []string
	// Over is how it is reached over TLS; nil = as any server.
	Over *certs.Client
	Now  func() time.Time // nil = time.Now
}

// Open opens the ledger at a place that is not the arena server's own. An http
// address is asked what it is, unless it has a path: where nothing answers that
// is an error, and the caller may try again. The second result closes the ledger.
func Open(ctx context.Context, p Place, cfg Config) (ledger.Full, func() error, error) {
	if p.Own() {
		return nil, nil, errors.New("open ledger: it is the arena server's own")
	}
	over, err := cfg.Over.Transport()
	if err != nil {
		return nil, nil, fmt.Errorf("open ledger: %w", err)
	}
	substrate, err := Substrate(ctx, p, over)
	if err != nil {
		return nil, nil, err
	}
	if substrate {
		c, err := subtensor.New(subtensor.Config{URLs: p.URLs, Now: cfg.Now, Signer: cfg.Signer, Finalized: !cfg.InBlock, Included: cfg.Included, Retracted: cfg.Retracted, Relays: cfg.Relays, Genesis: p.genesis(), Transport: over})
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
	c, err := remote.New(remote.Config{URL: p.URLs[0], Now: cfg.Now, Signer: cfg.Signer, Transport: over})
	if err != nil {
		return nil, nil, err
	}
	return c, func() error { return nil }, nil
}

// probeTimeout is how long an http address may take to say what it is.
const probeTimeout = 5 * time.Second

// maxInfo bounds the document of an embedded ledger, in bytes.
const maxInfo = 64 << 10

// Substrate reports whether a place speaks Substrate JSON-RPC and not agon's own protocol.
// over is how it is reached.
func Substrate(ctx context.Context, p Place, over http.RoundTripper) (bool, error) {
	u, err := url.Parse(p.URLs[0])
	if err != nil {
		return false, fmt.Errorf("read address of ledger: %w", err)
	}
	if strings.HasPrefix(u.Scheme, "ws") || len(p.URLs) > 1 || strings.Trim(u.Path, "/") != "" {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.URLs[0], "/")+remote.PathInfo, nil)
	if err != nil {
		return false, fmt.Errorf("ask ledger: %w", err)
	}
	res, err := (&http.Client{Transport: over}).Do(req)
	if err != nil {
		return false, &agon.Error{
			Code: "ledger_unavailable", Status: http.StatusBadGateway, Field: "ledger", Message: fmt.Sprintf("the ledger at %s does not answer: %v", p.URLs[0], err),
			Mend: "see that it runs", Fault: agon.FaultLedger, Err: err,
		}
	}
	defer res.Body.Close()
	// An embedded ledger answers with its document. A node knows no GET and says
	// so in many ways: 400, 404, 405, 415 or 426, or 200 with a page of its proxy.
	switch {
	case res.StatusCode >= http.StatusInternalServerError:
		return false, nil // what is wrong is said when it is asked
	case res.StatusCode != http.StatusOK:
		return true, nil
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxInfo))
	if err != nil {
		return false, fmt.Errorf("ask ledger: %w", err)
	}
	var info map[string]json.RawMessage
	return json.Unmarshal(b, &info) != nil || info["audience"] == nil, nil
}

// Lazy is a ledger that is opened when it is first asked, again while that
// fails. It is safe for concurrent use.
type Lazy struct {
	place Place
	cfg   Config

	mu   sync.Mutex // guards what follows
	l    ledger.Full
	stop func() error
}

// NewLazy makes a ledger that opens a place when it is asked.
func NewLazy(p Place, cfg Config) *Lazy { return &Lazy{place: p, cfg: cfg} }

func (z *Lazy) open(ctx context.Context) (ledger.Full, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.l != nil {
		return z.l, nil
	}
	l, stop, err := Open(ctx, z.place, z.cfg)
	if err != nil {
		return nil, err
	}
	z.l, z.stop = l, stop
	return l, nil
}

// Close closes what was opened.
func (z *Lazy) Close() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.stop == nil {
		return nil
	}
	stop := z.stop
	z.l, z.stop = nil, nil
	return stop()
}

// Block implements ledger.Reader.
func (z *Lazy) Block(ctx context.Context) (uint64, error) {
	l, err := z.open(ctx)
	if err != nil {
		return 0, err
	}
	return l.Block(ctx)
}

// BlockHash returns the hash of a block; empty: it is not there yet. A ledger
// without hashes answers errors.ErrUnsupported.
func (z *Lazy) BlockHash(ctx context.Context, number uint64) (string, error) {
	l, err := z.open(ctx)
	if err != nil {
		return "", err
	}
	h, ok := l.(interface {
		BlockHash(ctx context.Context, number uint64) (string, error)
	})
	if !ok {
		return "", errors.ErrUnsupported
	}
	return h.BlockHash(ctx, number)
}

// Genesis is the hash of the chain's block 0. A ledger that is not a chain answers errors.ErrUnsupported.
func (z *Lazy) Genesis(ctx context.Context) (string, error) {
	l, err := z.open(ctx)
	if err != nil {
		return "", err
	}
	g, ok := l.(interface {
		Genesis(ctx context.Context) (string, error)
	})
	if !ok {
		return "", errors.ErrUnsupported
	}
	return g.Genesis(ctx)
}

// Burnable implements ledger.Burns; a ledger without burns answers errors.ErrUnsupported.
func (z *Lazy) Burnable(ctx context.Context, netuid uint16, coldkey, hotkey string) (int64, error) {
	b, err := z.burns(ctx)
	if err != nil {
		return 0, err
	}
	return b.Burnable(ctx, netuid, coldkey, hotkey)
}

// Burned implements ledger.Burns; a ledger without burns answers errors.ErrUnsupported.
func (z *Lazy) Burned(ctx context.Context, block string, index int, hotkey string) (*ledger.Burn, error) {
	b, err := z.burns(ctx)
	if err != nil {
		return nil, err
	}
	return b.Burned(ctx, block, index, hotkey)
}

func (z *Lazy) burns(ctx context.Context) (ledger.Burns, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	b, ok := l.(ledger.Burns)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return b, nil
}

// Sequence implements ledger.Sequencer.
func (z *Lazy) Sequence(ctx context.Context, address string) (ledger.Sequence, error) {
	l, err := z.open(ctx)
	if err != nil {
		return ledger.Sequence{}, err
	}
	s, ok := l.(ledger.Sequencer)
	if !ok {
		return ledger.Sequence{}, errors.ErrUnsupported
	}
	return s.Sequence(ctx, address)
}

// Metagraph implements ledger.Reader.
func (z *Lazy) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	return l.Metagraph(ctx, netuid)
}

// Commitments implements ledger.Reader.
func (z *Lazy) Commitments(ctx context.Context, netuid uint16) ([]ledger.Commitment, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	return l.Commitments(ctx, netuid)
}

// History implements ledger.Reader.
func (z *Lazy) History(ctx context.Context, netuid uint16, hotkey string, from uint64) ([]ledger.Commitment, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	return l.History(ctx, netuid, hotkey, from)
}

// Register implements ledger.Writer.
func (z *Lazy) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	l, err := z.open(ctx)
	if err != nil {
		return 0, err
	}
	return l.Register(ctx, netuid, hotkey, coldkey)
}

// Commit implements ledger.Writer.
func (z *Lazy) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (uint64, error) {
	l, err := z.open(ctx)
	if err != nil {
		return 0, err
	}
	return l.Commit(ctx, netuid, hotkey, fields...)
}

// SetWeights implements ledger.Writer.
func (z *Lazy) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	l, err := z.open(ctx)
	if err != nil {
		return err
	}
	return l.SetWeights(ctx, netuid, hotkey, w)
}

// CommitWeights implements ledger.WeightCommitter.
func (z *Lazy) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	l, err := z.open(ctx)
	if err != nil {
		return err
	}
	return l.CommitWeights(ctx, netuid, hotkey, hash)
}

// RevealWeights implements ledger.WeightCommitter.
func (z *Lazy) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	l, err := z.open(ctx)
	if err != nil {
		return err
	}
	return l.RevealWeights(ctx, netuid, hotkey, w, salt)
}

// timelocks is the ledger's side of timelocked weights, if it has one.
func (z *Lazy) timelocks(ctx context.Context) (ledger.TimelockCommitter, error) {
	l, err := z.open(ctx)
	if err != nil {
		return nil, err
	}
	t, ok := l.(ledger.TimelockCommitter)
	if !ok {
		return nil, ledger.ErrNoTimelocks
	}
	return t, nil
}

// SealWeights implements ledger.TimelockCommitter.
func (z *Lazy) SealWeights(ctx context.Context, m *ledger.Metagraph, hotkey string, w ledger.Weights) (ledger.Sealed, error) {
	t, err := z.timelocks(ctx)
	if err != nil {
		return ledger.Sealed{}, err
	}
	return t.SealWeights(ctx, m, hotkey, w)
}

// CommitSealed implements ledger.TimelockCommitter.
func (z *Lazy) CommitSealed(ctx context.Context, netuid uint16, hotkey string, s ledger.Sealed) error {
	t, err := z.timelocks(ctx)
	if err != nil {
		return err
	}
	return t.CommitSealed(ctx, netuid, hotkey, s)
}

// OpenWeights implements ledger.TimelockCommitter.
func (z *Lazy) OpenWeights(ctx context.Context, hotkey string, s ledger.Sealed) (ledger.Weights, error) {
	t, err := z.timelocks(ctx)
	if err != nil {
		return ledger.Weights{}, err
	}
	return t.OpenWeights(ctx, hotkey, s)
}
