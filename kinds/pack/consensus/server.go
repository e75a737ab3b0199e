package consensus

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/signin"
)

// Server keeps payloads at a server of such arenas: POST
// /api/v1/consensus/payload, read again at /c/{sha256}.
type Server struct {
	URL    string // without a slash at its end
	Signer auth.Signer
	Now    func() time.Time
	Client *http.Client // nil: one that waits a minute
}

func (s *Server) client() *http.Client {
	if s.Client != nil {
		return s.Client
	}
	return &http.Client{Timeout: time.Minute}
}

// Put implements Store. That the server has the payload already is as good.
func (s *Server) Put(ctx context.Context, b []byte) (string, error) {
	ts := s.Now().Unix()
	sig, err := s.Signer.Sign(signin.Message("trajectoryrl-consensus", s.Signer.SS58(), strconv.FormatInt(ts, 10)))
	if err != nil {
		return "", fmt.Errorf("sign payload: %w", err)
	}
	body, err := json.Marshal(map[string]any{"validator_hotkey": s.Signer.SS58(), "timestamp": ts, "signature": "0x" + hex.EncodeToString(sig), "payload": json.RawMessage(b)})
	if err != nil {
		return "", fmt.Errorf("encode payload: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/consensus/payload", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("store payload: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client().Do(req)
	if err != nil {
		return "", fmt.Errorf("store payload: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusConflict {
		return "", fmt.Errorf("store payload: status %d", resp.StatusCode)
	}
	var out struct {
		Hash  string `json:"content_hash"`
		URL   string `json:"url"`
		Short string `json:"short_url"`
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return "", errors.New("store payload: the server's answer is not JSON")
	}
	for _, at := range []string{out.Short, out.URL, out.Hash} {
		if at != "" {
			if !Verify(at, b) {
				return "", fmt.Errorf("store payload: the server's address %.100q does not name these bytes", at)
			}
			return at, nil
		}
	}
	return "", errors.New("store payload: the server names no address")
}

// Get implements Store.
func (s *Server) Get(ctx context.Context, address string) ([]byte, string, error) {
	d := agon.Digest(address)
	if d.Validate() != nil {
		return nil, "", ErrNotHere
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/c/"+string(d), nil)
	if err != nil {
		return nil, "", fmt.Errorf("read payload: %w", err)
	}
	resp, err := s.client().Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("read payload: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, "", ErrNotHere
	case resp.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("read payload: status %d", resp.StatusCode)
	}
	b, err := readPayload(resp.Body)
	return b, "server", err
}

// urlDigest is the digest that an address of a server ends with.
var urlDigest = lazyregexp.New(`^https?://\S+/(sha256:[0-9a-f]{64})$`)

// Both keeps payloads in several stores at once, so that one may be down.
type Both []Store

// Put implements Store: in all stores at once; one that takes it is enough.
// The address is a content id, a URL, or "id;url".
func (s Both) Put(ctx context.Context, b []byte) (string, error) {
	at, errs := make([]string, len(s)), make([]error, len(s))
	var wg sync.WaitGroup
	for i, one := range s {
		wg.Go(func() { at[i], errs[i] = one.Put(ctx, b) })
	}
	wg.Wait()
	var id, url string
	for _, a := range at {
		switch web := strings.HasPrefix(a, "http://") || strings.HasPrefix(a, "https://"); {
		case a == "":
		case web && url == "":
			url = a
		case !web && id == "":
			id = a
		}
	}
	switch {
	case id != "" && url != "":
		return id + ";" + url, nil
	case id != "" || url != "":
		return id + url, nil
	}
	return "", errors.Join(errs...)
}

// Get implements Store: the first store that has bytes of that name. Others
// are asked where one gives other bytes, or none for a while.
func (s Both) Get(ctx context.Context, address string) ([]byte, string, error) {
	var places []place
	for _, one := range s {
		places = append(places, func(ctx context.Context) ([]byte, string, error) {
			b, from, err := one.Get(ctx, address)
			if err == nil && !Verify(address, b) {
				err = fmt.Errorf("%s: other bytes than the address names", from)
			}
			return b, from, err
		})
	}
	return firstOf(ctx, places)
}
