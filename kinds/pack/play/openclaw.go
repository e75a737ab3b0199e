package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// OpenClaw is another harness: an agent behind an OpenAI-style gateway, by its
// address. What it says of its own cost is its word, so it serves for trying
// packs, never for an arena's score.
type OpenClaw struct {
	URL    string
	Token  string        // bearer; empty: sandbox-token-12345
	Wait   time.Duration // for an answer; 180 s
	Client *http.Client  // nil: one without redirects
}

// maxHarness bounds an answer of a harness, in bytes.
const maxHarness = 8 << 20

// HarnessReply is what a harness answered. Known is false where it told no cost.
type HarnessReply struct {
	Response string
	Raw      json.RawMessage
	Cost     Cost
	Known    bool
}

type openClawUsage struct {
	Input      int64    `json:"input_tokens"`
	Output     int64    `json:"output_tokens"`
	CacheRead  int64    `json:"cache_read_tokens"`
	CacheWrite int64    `json:"cache_write_tokens"`
	Cost       *float64 `json:"total_cost_usd"`
	Models     []struct {
		Model    string  `json:"model"`
		Provider string  `json:"provider"`
		Count    int     `json:"count"`
		Cost     float64 `json:"cost_usd"`
	} `json:"model_usage"`
}

// Ask sends one message in a session and returns the answer with its cost:
// told with the answer, or asked for afterwards.
func (o OpenClaw) Ask(ctx context.Context, session, message string) (*HarnessReply, error) {
	wait := o.Wait
	if wait <= 0 {
		wait = 180 * time.Second
	}
	body, err := json.Marshal(map[string]any{"model": "openclaw", "stream": false, "messages": []map[string]string{{"role": "user", "content": message}}})
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	raw, err := o.do(ctx, http.MethodPost, "/v1/chat/completions", session, body, wait)
	if err != nil {
		return nil, err
	}
	var in struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Usage *openClawUsage `json:"x_openclaw_usage"`
	}
	if err := json.Unmarshal(raw, &in); err != nil || len(in.Choices) == 0 {
		return nil, errors.New("ask harness: the answer is not a chat completion")
	}
	out := &HarnessReply{Response: in.Choices[0].Message.Content, Raw: raw}
	usage := in.Usage
	if usage == nil || usage.Cost == nil {
		// Not told with the answer: some gateways know it only afterwards.
		if raw, err := o.do(ctx, http.MethodGet, "/api/sessions/"+url.PathEscape(session)+"/usage", session, nil, 10*time.Second); err == nil {
			var later openClawUsage
			if json.Unmarshal(raw, &later) == nil && later.Cost != nil {
				usage = &later
			}
		}
	}
	if usage != nil {
		out.Cost, out.Known = usage.cost()
	}
	return out, nil
}

func (u *openClawUsage) cost() (c Cost, known bool) {
	micros := func(usd float64) agon.Micros {
		if !(usd >= 0 && usd <= 1e6) {
			return 0
		}
		return agon.Micros(math.Round(usd * 1e6))
	}
	c = Cost{Input: max(0, u.Input), Output: max(0, u.Output), Models: []ModelCost{}}
	for _, m := range u.Models {
		c.Calls += max(0, m.Count)
	}
	for _, m := range u.Models {
		share := 0.0
		if c.Calls > 0 {
			share = float64(max(0, m.Count)) / float64(c.Calls)
		}
		c.Models = append(c.Models, ModelCost{Model: plain.Short(m.Model, 100), Provider: plain.Short(m.Provider, 100), Count: max(0, m.Count), Share: share, Micros: micros(m.Cost)})
	}
	if u.Cost != nil && *u.Cost >= 0 && *u.Cost <= 1e6 {
		c.Micros, c.USD, known = micros(*u.Cost), *u.Cost, true
	}
	return c, known
}

func (o OpenClaw) do(ctx context.Context, method, path, session string, body []byte, within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(o.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask harness: %w", err)
	}
	token := o.Token
	if token == "" {
		token = "sandbox-token-12345"
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Openclaw-Session-Key", session)
	req.Header.Set("Content-Type", "application/json")
	c := o.Client
	if c == nil {
		c = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask harness: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxHarness+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read harness: %w", err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("ask harness: status %d: %s", resp.StatusCode, plain.Short(string(b), 200))
	case len(b) > maxHarness:
		return nil, fmt.Errorf("ask harness: the answer has more than %d bytes", maxHarness)
	}
	return b, nil
}
