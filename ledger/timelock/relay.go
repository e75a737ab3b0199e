package timelock

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Relays are drand's public HTTP relays.
var Relays = []string{"https://api.drand.sh", "https://api2.drand.sh", "https://api3.drand.sh", "https://drand.cloudflare.com"}

const (
	maxBeacon    = 16 << 10 // bytes of a relay's answer
	relayTimeout = 10 * time.Second
)

// ErrNoBeacon is wrapped where no relay gave the signature of a round.
var ErrNoBeacon = errors.New("no relay has the round")

// Relay reads signatures of rounds over drand's HTTP API. It believes nobody:
// each is checked against quicknet's key.
type Relay struct {
	// Hosts are tried in this order, http or https, without a path.
	Hosts  []string
	Client *http.Client // nil = http.DefaultClient
}

// Signature returns the signature of a round. All hosts fail within ten
// seconds each.
func (r *Relay) Signature(ctx context.Context, round uint64) ([]byte, error) {
	var errs []error
	for _, host := range r.Hosts {
		sig, err := r.ask(ctx, host, round)
		if err == nil {
			return sig, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("%w %d: %w", ErrNoBeacon, round, errors.Join(errs...))
}

func (r *Relay) ask(ctx context.Context, host string, round uint64) ([]byte, error) {
	u, err := url.Parse(host)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("relay %q: want http://host or https://host", host)
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	at := fmt.Sprintf("%s/%s/public/%d", strings.TrimSuffix(host, "/"), ChainHash, round)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("ask relay %s: %w", host, err)
	}
	c := r.Client
	if c == nil {
		c = http.DefaultClient
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask relay %s: %w", host, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask relay %s: status %d", host, res.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBeacon+1))
	if err != nil {
		return nil, fmt.Errorf("ask relay %s: %w", host, err)
	}
	sig, err := parseBeacon(b, round)
	if err != nil {
		return nil, fmt.Errorf("answer of relay %s: %w", host, err)
	}
	return sig, nil
}

// parseBeacon reads a relay's answer for a round and checks its signature.
func parseBeacon(b []byte, round uint64) ([]byte, error) {
	if len(b) > maxBeacon {
		return nil, fmt.Errorf("more than %d bytes", maxBeacon)
	}
	var x struct {
		Round     uint64 `json:"round"`
		Signature string `json:"signature"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, fmt.Errorf("no beacon: %w", err)
	}
	if x.Round != round {
		return nil, fmt.Errorf("round %d, asked for %d", x.Round, round)
	}
	sig, err := hex.DecodeString(x.Signature)
	if err != nil {
		return nil, errors.New("signature is not hex")
	}
	return sig, Verify(round, sig)
}
