// Package judge asks models for verdicts: versioned prompts, strict parsing,
// retries, a cache and a budget (the gateway session's). It is shared by the
// kinds that grade with a model.
//
// What is judged was written by a thief. It travels as strings of one JSON
// document, so that it cannot leave its place; a reply counts only if the whole
// of it is the object that the prompt asks for. Whatever else happens is an
// error, and an error is never a verdict.
package judge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// Limits of what is sent and believed.
const (
	maxInput = 512 << 10 // the rendered document, bytes
	maxReply = 64 << 10  // what the model says, bytes
	maxBody  = 2 << 20   // the completion that holds it, bytes
)

var (
	// ErrNoVerdict says that no valid reply came: the provider's failure, or a
	// model that does not keep to the form. Never the contestant's.
	ErrNoVerdict = errors.New("no verdict")
	// ErrForm is wrapped as well where the model answered, but not in the form.
	ErrForm = errors.New("reply is not in the form")
	// ErrBudget says that the judge's own budget is used up.
	ErrBudget = errors.New("the judge's budget is used up")
	// ErrInput says that the case cannot be sent: too large or not text.
	ErrInput = errors.New("case cannot be judged")
)

// Prompt is one versioned prompt.
type Prompt struct {
	Name    string
	Version int
	System  string
	// MaxTokens bounds the reply.
	MaxTokens int
}

// Hash covers everything that reaches the model besides the case.
func (p Prompt) Hash() agon.Digest {
	b, err := json.Marshal([]any{"agon-judge-prompt-v1", p.Name, p.Version, p.System, p.MaxTokens})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return agon.Sum(b)
}

// ID names a prompt in a scorer's version: "support.1-1f2e3d4c".
func (p Prompt) ID() string { return fmt.Sprintf("%s.%d-%s", p.Name, p.Version, p.Hash().Hex()[:8]) }

// Scorer is the version of a scorer that judges with p on model; it changes
// whenever the same record could be judged differently.
func Scorer(kind string, p Prompt, model string) string {
	if model == "" {
		model = "default"
	}
	return kind + "+" + p.ID() + "+" + model
}

// Cache keeps valid replies by key. Safe for concurrent use.
type Cache interface {
	// Get returns what was put under key; ok is false if there is nothing.
	Get(ctx context.Context, key string) (reply string, ok bool, err error)
	// Put is durable when it returns.
	Put(ctx context.Context, key, reply string) error
}

// Config is what a judge is made of.
type Config struct {
	// Session pays and records. It is needed, and bounds what judging costs.
	Session gateway.Session
	Model   string // empty: the session's first
	// Cache is optional. It is not used without Model: the session's first may
	// be another tomorrow.
	Cache Cache
	// Attempts at a valid reply, default 3; Timeout of each, default 30 s.
	Attempts int
	Timeout  time.Duration
	// Sleep waits between attempts; default really does. It returns early with ctx.
	Sleep  func(ctx context.Context, d time.Duration) error
	Client *http.Client // default: no proxy, no redirects
}

// Judge asks. Safe for concurrent use.
type Judge struct{ cfg Config }

// New checks c.
func New(c Config) (*Judge, error) {
	if c.Session == nil {
		return nil, errors.New("make judge: no gateway session is given")
	}
	if c.Model == "" {
		c.Cache = nil
	}
	if c.Attempts <= 0 {
		c.Attempts = 3
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.Client == nil {
		c.Client = direct
	}
	return &Judge{c}, nil
}

var direct = &http.Client{
	Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answer is a valid reply.
type Answer struct {
	Text   string // the object, as the model wrote it
	Cached bool
	Tries  int // calls made for it; 0 from the cache
}

// Ask sends a case and returns the first reply that check accepts. input
// becomes the document; check gets the reply's object, already known to be one
// JSON object without duplicate keys. Errors wrap ErrNoVerdict, ErrBudget,
// ErrInput or the context's.
func (j *Judge) Ask(ctx context.Context, p Prompt, input any, check func(obj []byte) error) (Answer, error) {
	doc, err := Document(input)
	if err != nil {
		return Answer{}, err
	}
	key := j.key(p, doc)
	if j.cfg.Cache != nil {
		text, ok, err := j.cfg.Cache.Get(ctx, key)
		if err != nil {
			return Answer{}, fmt.Errorf("read judge cache: %w", err)
		}
		// What is on disk is checked like what came from the model.
		if obj, perr := Object(text); ok && perr == nil && check(obj) == nil {
			return Answer{Text: string(obj), Cached: true}, nil
		}
	}
	body, err := j.request(p, doc)
	if err != nil {
		return Answer{}, err
	}
	var last error
	for try := 1; try <= j.cfg.Attempts; try++ {
		if try > 1 {
			if err := j.cfg.Sleep(ctx, time.Duration(try-1)*500*time.Millisecond); err != nil {
				return Answer{}, err
			}
		}
		text, err := j.send(ctx, body)
		if errors.Is(err, ErrBudget) {
			return Answer{}, err
		}
		if ctx.Err() != nil {
			return Answer{}, ctx.Err()
		}
		if err != nil {
			last = err
			continue
		}
		obj, err := Object(text)
		if err == nil {
			err = check(obj)
		}
		if err != nil {
			last = fmt.Errorf("%w: %w", ErrForm, err)
			continue
		}
		if j.cfg.Cache != nil {
			if err := j.cfg.Cache.Put(ctx, key, string(obj)); err != nil {
				return Answer{}, fmt.Errorf("write judge cache: %w", err)
			}
		}
		return Answer{Text: string(obj), Tries: try}, nil
	}
	return Answer{}, fmt.Errorf("%w after %d attempts: %w", ErrNoVerdict, j.cfg.Attempts, last)
}

// Document renders a case. Strings are escaped beyond what JSON needs: no byte
// of them can look like markup, a fence or a control character.
func Document(input any) ([]byte, error) {
	b, err := json.Marshal(input) // escapes <, > and & too
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if len(b) > maxInput {
		return nil, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrInput, len(b), maxInput)
	}
	return bytes.ReplaceAll(b, []byte("`"), []byte(`\u0060`)), nil
}

// key names a question: prompt, model and case.
func (j *Judge) key(p Prompt, doc []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("agon-judge-v1"), []byte(p.Hash()), []byte(j.cfg.Model), doc} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (j *Judge) request(p Prompt, doc []byte) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	body := struct {
		Model       string    `json:"model,omitempty"`
		Messages    []message `json:"messages"`
		Temperature int       `json:"temperature"`
		MaxTokens   int       `json:"max_tokens,omitempty"`
	}{j.cfg.Model, []message{{"system", p.System}, {"user", string(doc)}}, 0, p.MaxTokens}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return b, nil
}

// send makes one call and returns what the model said.
func (j *Judge) send(ctx context.Context, body []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, j.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.cfg.Session.BaseURL()+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("make judge request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range j.cfg.Session.Header() {
		req.Header.Set(k, v)
	}
	resp, err := j.cfg.Client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask judge: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read judge's reply: %w", err)
	case len(b) > maxBody:
		return "", fmt.Errorf("judge's reply is larger than %d bytes", maxBody)
	case resp.StatusCode == http.StatusTooManyRequests && bytes.Contains(b, []byte("budget_exceeded")):
		return "", ErrBudget
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("judge's provider answered status %d", resp.StatusCode)
	}
	var out struct {
		Choices []struct {
			Message struct {
				Content *string `json:"content"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &out); err != nil || len(out.Choices) != 1 || out.Choices[0].Message.Content == nil {
		return "", errors.New("judge's reply is no chat completion with one choice")
	}
	if out.Choices[0].FinishReason == "length" {
		return "", errors.New("judge's reply broke off")
	}
	return *out.Choices[0].Message.Content, nil
}

// Object returns the one JSON object that is the whole of text, apart from
// white space and at most one code fence around it. Duplicate keys, text beside
// it and more than one object are errors: a reply that echoes foreign text
// beside its verdict is no verdict.
func Object(text string) ([]byte, error) {
	if len(text) > maxReply {
		return nil, fmt.Errorf("larger than %d bytes", maxReply)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8")
	}
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		rest = strings.TrimPrefix(rest, "json")
		inner, ok := strings.CutSuffix(rest, "```")
		if !ok || !strings.HasPrefix(inner, "\n") {
			return nil, errors.New("bad code fence")
		}
		text = strings.TrimSpace(inner)
	}
	if !strings.HasPrefix(text, "{") {
		return nil, errors.New("no JSON object")
	}
	if err := checkObject([]byte(text)); err != nil {
		return nil, err
	}
	return []byte(text), nil
}

// maxDepth bounds the nesting of a reply.
const maxDepth = 16

// checkObject walks the tokens: one value, no key twice in an object, no deep nesting.
func checkObject(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	type frame struct {
		keys map[string]bool // nil for a list
		key  bool            // a key is due
	}
	var stack []frame
	for {
		t, err := d.Token()
		if err != nil {
			return errors.New("bad JSON")
		}
		top := len(stack) - 1
		if s, ok := t.(string); ok && top >= 0 && stack[top].key {
			if stack[top].keys[s] {
				return errors.New("a key is there twice")
			}
			stack[top].keys[s] = true
			stack[top].key = false
			continue
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, frame{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, frame{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if len(stack) > maxDepth {
			return errors.New("nested too deep")
		}
		if t != json.Delim('{') && t != json.Delim('[') {
			if n := len(stack); n > 0 {
				stack[n-1].key = stack[n-1].keys != nil
			}
		}
		if len(stack) == 0 {
			break
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the object")
	}
	return nil
}

// Spent is what the judge's session has paid so far.
func (j *Judge) Spent() agon.Micros { return j.cfg.Session.Spent() }
