package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
)

// DefaultTimeout bounds one request.
const DefaultTimeout = 15 * time.Second

const (
	maxAnswer  = 256 << 20 // bytes: the metagraph of a full subnet with dense weights is some 2 MB
	maxProblem = 64 << 10
)

// Config configures a client.
type Config struct {
	// URL is where the ledger is served, without a path.
	URL string
	// Signer returns the key of an address, which signs its extrinsics. nil = this client only reads.
	Signer func(address string) (auth.Signer, error)
	// Timeout bounds one request; 0 = DefaultTimeout.
	Timeout time.Duration
	// Transport is how to reach it; nil = http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of signatures; nil = time.Now.
	Now func() time.Time
}

// Client is a ledger in another process. All methods may run at once. It tries
// once: a write whose answer was lost may have happened, so the caller reads
// before it writes again. Errors that are not refusals carry agon.FaultLedger.
type Client struct {
	base    string
	signer  func(string) (auth.Signer, error)
	timeout time.Duration
	now     func() time.Time
	http    http.Client

	newest atomic.Uint64 // block: a ledger that falls back is not believed

	mu       sync.Mutex // guards audience
	audience string
}

var _ ledger.Full = (*Client)(nil)

// New makes a client. It does not connect.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
		return nil, &agon.Error{Code: "bad_url", Status: http.StatusUnprocessableEntity, Field: "ledger", Message: fmt.Sprintf("ledger %q is not an address: want http://host:port", cfg.URL)}
	}
	c := &Client{base: u.Scheme + "://" + u.Host, signer: cfg.Signer, timeout: cfg.Timeout, now: cfg.Now}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.http.Transport = cfg.Transport
	// A signature is for one address.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Info asks what the ledger is.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	seen := c.newest.Load()
	var i Info
	if err := c.get(ctx, PathInfo, &i); err != nil {
		return nil, err
	}
	return &i, c.saw(seen, i.Block)
}

// Block implements ledger.Reader.
func (c *Client) Block(ctx context.Context) (uint64, error) {
	i, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	return i.Block, nil
}

// Subnets implements ledger.Full.
func (c *Client) Subnets(ctx context.Context) ([]uint16, error) {
	i, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	return i.Subnets, nil
}

// Metagraph implements ledger.Reader.
func (c *Client) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	seen := c.newest.Load()
	var m ledger.Metagraph
	if err := c.get(ctx, subnet(netuid), &m); err != nil {
		return nil, err
	}
	if m.Netuid != netuid {
		return nil, unavailable("the ledger answered for another subnet", nil)
	}
	for i, n := range m.Neurons {
		if int(n.UID) != i {
			return nil, unavailable("the ledger's metagraph has gaps", nil)
		}
	}
	for _, row := range m.Weights {
		if len(row.UIDs) != len(row.Values) {
			return nil, unavailable("the ledger's weights have uids without values", nil)
		}
	}
	if err := c.saw(seen, m.Block); err != nil {
		return nil, err
	}
	return &m, nil
}

// Commitments implements ledger.Reader.
func (c *Client) Commitments(ctx context.Context, netuid uint16) (out []ledger.Commitment, err error) {
	err = c.get(ctx, subnet(netuid)+"/commitments", &out)
	return out, err
}

// History implements ledger.Reader.
func (c *Client) History(ctx context.Context, netuid uint16, hotkey string, from uint64) (out []ledger.Commitment, err error) {
	err = c.get(ctx, subnet(netuid)+"/commitments/"+url.PathEscape(hotkey)+"?from="+strconv.FormatUint(from, 10), &out)
	return out, err
}

// Balance implements ledger.Staker.
func (c *Client) Balance(ctx context.Context, coldkey string) (uint64, error) {
	var b Balance
	err := c.get(ctx, PathBalances+url.PathEscape(coldkey), &b)
	return b.Rao, err
}

// Register implements ledger.Writer, signed by the coldkey, or by the hotkey
// where the coldkey's secret is not here and the registration is free.
func (c *Client) Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uint16, error) {
	x := &Extrinsic{Call: CallRegister, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey}
	in, err := c.submit(ctx, x, coldkey, hotkey)
	return in.UID, err
}

// Commit implements ledger.Writer.
func (c *Client) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (uint64, error) {
	in, err := c.submit(ctx, &Extrinsic{Call: CallCommit, Netuid: netuid, Hotkey: hotkey, Fields: fields}, hotkey)
	return in.Block, err
}

// SetWeights implements ledger.Writer.
func (c *Client) SetWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallSetWeights, Netuid: netuid, Hotkey: hotkey, Weights: &w}, hotkey)
	return err
}

// CommitWeights implements ledger.WeightCommitter.
func (c *Client) CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash ledger.Hash) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallCommitWeights, Netuid: netuid, Hotkey: hotkey, Hash: &hash}, hotkey)
	return err
}

// RevealWeights implements ledger.WeightCommitter.
func (c *Client) RevealWeights(ctx context.Context, netuid uint16, hotkey string, w ledger.Weights, salt []uint16) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallRevealWeights, Netuid: netuid, Hotkey: hotkey, Weights: &w, Salt: salt}, hotkey)
	return err
}

// AddStake implements ledger.Staker.
func (c *Client) AddStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallAddStake, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Rao: rao}, coldkey)
	return err
}

// RemoveStake implements ledger.Staker.
func (c *Client) RemoveStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error {
	_, err := c.submit(ctx, &Extrinsic{Call: CallRemoveStake, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Rao: rao}, coldkey)
	return err
}

func subnet(netuid uint16) string { return PathSubnets + strconv.Itoa(int(netuid)) }

// saw keeps the newest block. seen is what was known before the question: an
// answer that is older than that comes from a ledger that lost blocks.
func (c *Client) saw(seen, block uint64) error {
	if block < seen {
		return unavailable(fmt.Sprintf("the ledger is behind: it was at block %d and says %d", seen, block), nil)
	}
	for {
		newest := c.newest.Load()
		if block <= newest || c.newest.CompareAndSwap(newest, block) {
			return nil
		}
	}
}

// submit signs x by the first of signers whose key is here and sends it.
func (c *Client) submit(ctx context.Context, x *Extrinsic, signers ...string) (in Included, err error) {
	body, err := json.Marshal(x)
	if err != nil {
		return in, fmt.Errorf("encode extrinsic: %w", err)
	}
	if len(body) > MaxExtrinsic {
		return in, &agon.Error{Code: "too_large", Status: http.StatusRequestEntityTooLarge, Limit: fmt.Sprintf("%d bytes", MaxExtrinsic), Message: "the extrinsic is too large"}
	}
	key, err := c.key(signers)
	if err != nil {
		return in, err
	}
	audience, err := c.audienceOf(ctx)
	if err != nil {
		return in, err
	}
	err = c.do(ctx, http.MethodPost, PathExtrinsics, body, &in, func(r *http.Request) error { return auth.SignRequest(r, body, key, audience, c.now()) })
	var coded *agon.Error
	if errors.As(err, &coded) && coded.Status == http.StatusUnauthorized {
		c.mu.Lock()
		c.audience = "" // it may be another ledger by now
		c.mu.Unlock()
	}
	return in, err
}

func (c *Client) key(signers []string) (auth.Signer, error) {
	var first error
	for _, address := range signers {
		if _, err := auth.ParseSS58(address); err != nil { // the ledger says which field that is; any key will do to ask it
			continue
		}
		if c.signer == nil {
			break
		}
		key, err := c.signer(address)
		if err == nil {
			return key, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, &agon.Error{Code: "no_key", Status: http.StatusUnauthorized, Message: "no key here may sign for " + strings.Join(signers, " or "), Err: first}
}

func (c *Client) audienceOf(ctx context.Context) (string, error) {
	c.mu.Lock()
	audience := c.audience
	c.mu.Unlock()
	if audience != "" {
		return audience, nil
	}
	i, err := c.Info(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audience = i.Audience
	return c.audience, nil
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out, nil)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any, sign func(*http.Request) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if sign != nil {
		if err := sign(req); err != nil {
			return err
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unavailable("the ledger at "+c.base+" does not answer", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
		if err != nil {
			return unavailable("the ledger's answer broke off", err)
		}
		return parseProblem(resp.StatusCode, b)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return unavailable("the ledger's answer broke off", err)
	case len(b) > maxAnswer:
		return unavailable(fmt.Sprintf("the ledger's answer is over %d bytes", maxAnswer), nil)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return unavailable("the ledger's answer cannot be read", err)
	}
	return nil
}

// parseProblem makes an error of an error answer, which may be anything.
func parseProblem(status int, b []byte) error {
	var p Problem
	if err := json.Unmarshal(b, &p); err != nil || p.Code == "" || len(p.Code) > 100 {
		return unavailable(fmt.Sprintf("the ledger answers with status %d", status), nil)
	}
	if p.Refused && status < 500 {
		return &ledger.Error{Name: p.Code, Message: p.Detail}
	}
	fault := agon.FaultNone
	if status >= 500 {
		fault = agon.FaultLedger
	}
	return &agon.Error{Code: p.Code, Status: status, Field: p.Field, Limit: p.Limit, Message: p.Detail, Mend: p.Mend, Fault: fault}
}

func unavailable(message string, err error) error {
	return &agon.Error{Code: "ledger_unavailable", Status: http.StatusBadGateway, Message: message, Mend: "try again later; see that the ledger runs", Fault: agon.FaultLedger, Err: err}
}
