// Package remote asks search providers that others run. What it returns of them is
// bounded, does not hold the key, and an error says no word of theirs.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway/provider"
)

// MaxReply bounds a reply, in bytes.
const MaxReply = 4 << 20

// Do sends one request and returns the body of a 200, at most 4 MiB. Every error is a
// *tools.Failure. A reply that holds key is handed to nobody.
func Do(c *http.Client, req *http.Request, key string) ([]byte, error) {
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, lost(req.Context(), err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, &tools.Failure{Class: class(resp.StatusCode), Own: resp.StatusCode == 400 || resp.StatusCode == 422, Detail: fmt.Sprintf("status %d", resp.StatusCode)}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	switch {
	case err != nil:
		return nil, lost(req.Context(), err)
	case len(b) > MaxReply:
		return nil, Bad("reply is larger than 4 MiB")
	case provider.Echoes(b, key):
		return nil, Bad("reply holds our key")
	}
	return b, nil
}

// Bad is the failure of a reply that is not what it should be.
func Bad(detail string) error { return &tools.Failure{Class: "bad_reply", Detail: detail} }

func lost(ctx context.Context, err error) error {
	var t interface{ Timeout() bool }
	if ctx.Err() != nil || (errors.As(err, &t) && t.Timeout()) {
		return &tools.Failure{Class: "timeout"}
	}
	return &tools.Failure{Class: "server", Detail: "connection failed"}
}

func class(status int) string {
	switch {
	case status == 400, status == 422:
		return "refused"
	case status == 401, status == 403: // SearXNG answers 403 where json is not allowed
		return "auth"
	case status == 402:
		return "payment"
	case status == 408, status == 504:
		return "timeout"
	case status == 429:
		return "rate_limit"
	case status >= 500:
		return "server"
	}
	return "bad_reply"
}
