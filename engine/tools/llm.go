package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon/gateway"
)

// LLM answers llm_chat. Chat sends an OpenAI chat completion request (fields
// already reduced to those of the tool, the output limit set) and returns the
// reply's bytes, or a *Failure. Safe for concurrent use; it does not retry.
type LLM interface {
	Name() string
	Chat(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error)
}

// GatewayLLM sends llm_chat through a gateway session, whose own account
// bounds the real money; the session's prices are the arena's.
type GatewayLLM struct {
	Session gateway.Session
	// Alias maps a tool's model to the gateway's name of it, where they differ
	// (a deployment under another name, the script of a demo). "*" maps all others.
	Alias map[string]string
	// Client is for tests; default: one without proxy and redirects.
	Client *http.Client
}

// Name implements LLM.
func (GatewayLLM) Name() string { return "gateway" }

var direct = &http.Client{
	Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

const maxChatReply = 4 << 20

// Chat implements LLM.
func (g GatewayLLM) Chat(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	return g.post(ctx, "/v1/chat/completions", model, body)
}

// Embed implements Embedder.
func (g GatewayLLM) Embed(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	return g.post(ctx, "/v1/embeddings", model, body)
}

func (g GatewayLLM) post(ctx context.Context, path, model string, body map[string]json.RawMessage) ([]byte, error) {
	name := model
	if a, ok := g.Alias[model]; ok {
		name = a
	} else if a, ok := g.Alias["*"]; ok {
		name = a
	}
	c := g.Client
	if c == nil {
		c = direct
	}
	out, status, err := postChat(ctx, c, g.Session.BaseURL()+path, g.Session.Header(), name, body)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return out, nil
	case status == http.StatusGatewayTimeout:
		return nil, &Failure{Class: "timeout"}
	case status == http.StatusTooManyRequests:
		return nil, &Failure{Class: "budget", Own: true} // the run's account, not the provider
	case status < 500:
		return nil, &Failure{Class: "refused", Own: true, Detail: fmt.Sprintf("status %d", status)}
	}
	return nil, &Failure{Class: "server", Detail: fmt.Sprintf("status %d", status)}
}

// postChat sends a body as JSON with the model's name in it.
func postChat(ctx context.Context, c *http.Client, address string, header map[string]string, model string, body map[string]json.RawMessage) ([]byte, int, error) {
	m, _ := json.Marshal(model) // a string always encodes
	body["model"] = m
	b, err := json.Marshal(body)
	if err != nil {
		return nil, 0, fmt.Errorf("encode chat request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(b))
	if err != nil {
		return nil, 0, fmt.Errorf("make chat request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, 0, transportFailure(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(io.LimitReader(resp.Body, maxChatReply+1))
	switch {
	case err != nil:
		return nil, 0, transportFailure(ctx, err)
	case len(out) > maxChatReply:
		return nil, 0, &Failure{Class: "bad_reply", Detail: "reply is too large"}
	}
	return out, resp.StatusCode, nil
}

// KeyedLLM asks a provider with somebody's own key, who pays for it and whose fault it
// is if the key is not taken.
type KeyedLLM struct {
	Provider string
	BaseURL  string // without /v1
	Key      string
}

// Name implements LLM.
func (k KeyedLLM) Name() string { return k.Provider }

// Chat implements LLM.
func (k KeyedLLM) Chat(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	return k.post(ctx, "/v1/chat/completions", model, body)
}

// Embed implements Embedder.
func (k KeyedLLM) Embed(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	return k.post(ctx, "/v1/embeddings", model, body)
}

func (k KeyedLLM) post(ctx context.Context, path, model string, body map[string]json.RawMessage) ([]byte, error) {
	out, status, err := postChat(ctx, direct, strings.TrimRight(k.BaseURL, "/")+path, map[string]string{"Authorization": "Bearer " + k.Key}, model, body)
	if err != nil {
		return nil, err
	}
	f := &Failure{Detail: fmt.Sprintf("status %d", status)}
	switch {
	case status == http.StatusOK:
		return out, nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Class, f.Own = "auth", true
	case status == http.StatusPaymentRequired:
		f.Class, f.Own = "payment", true
	case status == http.StatusTooManyRequests:
		f.Class, f.Own = "rate_limit", true
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		f.Class = "timeout"
	case status < 500:
		f.Class, f.Own = "refused", true
	default:
		f.Class = "server"
	}
	return nil, f
}

func transportFailure(ctx context.Context, err error) error {
	var timeout interface{ Timeout() bool }
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout()) {
		return &Failure{Class: "timeout"}
	}
	return &Failure{Class: "server", Detail: "connection failed"}
}

const (
	maxMessages = 256
	maxTools    = 64
	// messageTokens is added for each message's role and framing.
	messageTokens = 16
)

// planChat reads llm_chat. Unknown keywords are dropped, as the seed passes
// extras through to a provider that we do not let them reach.
func (s *Session) planChat(a *args) (*plan, error) {
	if s.cfg.LLM == nil {
		return nil, errNoBackend
	}
	model := strings.ToLower(strings.TrimSpace(a.str("model", true, 200)))
	price, ok := s.cfg.Models[model]
	if a.err == nil && !ok {
		return nil, fmt.Errorf("%w: model is not offered", errInvalid)
	}
	body := map[string]json.RawMessage{}
	prompt := int64(0)
	messages, n, err := chatMessages(a)
	if err != nil {
		return nil, err
	}
	body["messages"] = messages
	framing := int64(n) * messageTokens
	prompt += int64(len(messages)) // a token is at least a byte
	if v, ok := a.float("temperature", 0, 2); ok {
		body["temperature"] = v
	}
	for _, name := range []string{"response_format", "tools"} {
		if v, ok := a.raw(name); ok {
			body[name] = v
			prompt += int64(len(v))
		}
	}
	if v, ok := body["tools"]; ok {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil || len(list) > maxTools {
			a.fail("tools", "want a list of at most %d", maxTools)
		}
	}
	if v := a.oneOf("tool_choice", "", "auto", "required", "none"); v != "" && body["tools"] != nil {
		body["tool_choice"], _ = json.Marshal(v)
	}
	if v := a.oneOf("reasoning_effort", "", "low", "medium", "high"); v != "" {
		body["reasoning_effort"], _ = json.Marshal(v)
	}
	limit := a.num("max_output_tokens", 0, 1, 1<<20, false)
	if other := a.num("max_tokens", 0, 1, 1<<20, false); limit == 0 {
		limit = other
	}
	if a.err != nil {
		return nil, a.err
	}
	most := price.maxOutput()
	if limit > 0 {
		most = min(most, limit)
	}
	// What the session can pay for bounds the answer, so that a call near the
	// end of the budget is shorter instead of refused.
	left := s.left()
	if price.cost(prompt, 0, 0) > left/16 { // counting costs more than the rest of the call: only where it matters
		prompt = min(prompt, countTokens(messages)+int64(len(body["tools"])+len(body["response_format"])))
	}
	prompt += framing
	out := price.affordable(left, prompt, most)
	if out < 1 {
		return nil, errBudget
	}
	body["max_tokens"] = json.RawMessage(itoa(out))
	return &plan{
		policy: LogOnly, model: model, backend: s.cfg.LLM.Name(), worst: price.cost(prompt, out, out), timeout: longTimeout,
		run: func(ctx context.Context) (*reply, error) {
			b, err := s.cfg.LLM.Chat(ctx, model, body)
			if err != nil {
				return nil, err
			}
			return readChat(b, price)
		},
	}, nil
}

// chatMessages reads the messages of llm_chat and writes them as OpenAI's.
func chatMessages(a *args) (json.RawMessage, int, error) {
	raw, ok := a.raw("messages")
	var in []map[string]json.RawMessage
	if !ok || json.Unmarshal(raw, &in) != nil || len(in) == 0 || len(in) > maxMessages {
		a.fail("messages", "want 1 to %d messages", maxMessages)
		return nil, 0, a.err
	}
	out := make([]map[string]json.RawMessage, 0, len(in))
	for _, m := range in {
		c := &args{kw: m}
		role := c.oneOf("role", "", "system", "user", "assistant", "tool")
		if role == "" {
			c.fail("role", "it is missing")
		}
		n := map[string]json.RawMessage{}
		n["role"], _ = json.Marshal(role)
		if v, ok := c.raw("content"); ok {
			text, ok := plainContent(v)
			if !ok {
				c.fail("content", "want text")
			}
			n["content"], _ = json.Marshal(text)
		} else if role != "assistant" {
			c.fail("content", "it is missing")
		}
		for _, name := range []string{"tool_calls", "tool_call_id"} {
			if v, ok := c.raw(name); ok {
				n[name] = v
			}
		}
		if c.err != nil {
			return nil, 0, c.err
		}
		out = append(out, n)
	}
	b, err := json.Marshal(out)
	return b, len(out), err
}

// plainContent reads a string, or a list of text parts as the seed's replies hold them.
func plainContent(v json.RawMessage) (string, bool) {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s, true
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(v, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Text == nil {
			return "", false
		}
		b.WriteString(*p.Text)
	}
	return b.String(), true
}

// readChat turns a chat completion into the seed's shape.
func readChat(b []byte, price ModelPrice) (*reply, error) {
	if checkDepth(b) != nil {
		return nil, &Failure{Class: "bad_reply", Detail: "reply is nested too deep"}
	}
	var in struct {
		ID      string `json:"id"`
		Choices []struct {
			Index   int `json:"index"`
			Message struct {
				Role      string          `json:"role"`
				Content   json.RawMessage `json:"content"`
				Refusal   *string         `json:"refusal"`
				Reasoning *string         `json:"reasoning"`
				Reason2   *string         `json:"reasoning_content"`
				ToolCalls []struct {
					ID       string `json:"id"`
					Type     string `json:"type"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
			FinishReason *string         `json:"finish_reason"`
			Logprobs     json.RawMessage `json:"logprobs"`
		} `json:"choices"`
		Usage *struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
			Total      int64 `json:"total_tokens"`
			PromptMore *struct {
				Cached *int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
			CompletionMore *struct {
				Reasoning *int64 `json:"reasoning_tokens"`
			} `json:"completion_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(b, &in); err != nil || len(in.Choices) == 0 {
		return nil, &Failure{Class: "bad_reply", Detail: "reply is not a chat completion"}
	}
	choices := make([]any, 0, len(in.Choices))
	for _, c := range in.Choices {
		content := []any{}
		if len(c.Message.Content) > 0 && !bytes.Equal(c.Message.Content, []byte("null")) {
			text, ok := plainContent(c.Message.Content)
			if !ok {
				return nil, &Failure{Class: "bad_reply", Detail: "reply's content is not text"}
			}
			content = append(content, map[string]any{"type": "text", "text": text})
		}
		m := map[string]any{"role": "assistant", "content": content}
		if len(c.Message.ToolCalls) > 0 {
			calls := make([]any, 0, len(c.Message.ToolCalls))
			for _, t := range c.Message.ToolCalls {
				calls = append(calls, map[string]any{"id": t.ID, "type": "function", "name": t.Function.Name, "arguments": t.Function.Arguments})
			}
			m["tool_calls"] = calls
		}
		if c.Message.Refusal != nil {
			m["refusal"] = *c.Message.Refusal
		}
		if r := c.Message.Reasoning; r != nil {
			m["reasoning"] = *r
		} else if r := c.Message.Reason2; r != nil {
			m["reasoning"] = *r
		}
		choices = append(choices, map[string]any{"index": c.Index, "message": m, "finish_reason": c.FinishReason, "logprobs": nil})
	}
	out := &reply{}
	response := map[string]any{"id": in.ID, "choices": choices, "finish_reason": in.Choices[0].FinishReason}
	if u := in.Usage; u != nil {
		total := u.Total
		if total == 0 {
			total = u.Prompt + u.Completion
		}
		shown := map[string]any{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": total}
		reasoning := int64(0)
		if u.PromptMore != nil && u.PromptMore.Cached != nil {
			shown["prompt_cached_tokens"] = *u.PromptMore.Cached
		}
		if u.CompletionMore != nil && u.CompletionMore.Reasoning != nil {
			reasoning = *u.CompletionMore.Reasoning
			shown["reasoning_tokens"] = reasoning
		}
		response["usage"] = shown
		out.usage = &usage{u.Prompt, u.Completion, total}
		out.cost = price.cost(u.Prompt, u.Completion, reasoning)
	} else {
		response["usage"] = map[string]any{} // SDKs want the key
		// Without usage the worst case is charged: a provider that hides it is not a discount.
		out.cost = 1 << 62
	}
	out.response = response
	return out, nil
}
