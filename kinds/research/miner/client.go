package miner

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/signin"
)

// Timeout bounds one request, as the stock client's does.
const Timeout = 30 * time.Second

// maxReply bounds an answer, in bytes.
const maxReply = 64 << 20

// Client speaks to a coordinator. Key signs; nil makes unsigned requests only.
type Client struct {
	URL  string // without a slash at the end
	Key  auth.Signer
	HTTP *http.Client     // nil: one with Timeout
	Now  func() time.Time // nil: time.Now
}

// APIError is an answer of 400 or above, in the stock client's words.
type APIError struct {
	Method, Path string
	Status       int
	Body         []byte
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%s %s failed: HTTP %d (%s)", e.Method, e.Path, e.Status, bytes.TrimSpace(e.Body))
}

// Text is what the answer says, without its wrapping.
func (e *APIError) Text() string {
	var b struct {
		Detail json.RawMessage `json:"detail"`
	}
	var one struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	var list []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	var text string
	if json.Unmarshal(e.Body, &b) != nil {
		return e.Error()
	}
	switch {
	case json.Unmarshal(b.Detail, &text) == nil && text != "":
		return text
	case json.Unmarshal(b.Detail, &one) == nil && one.Message != "":
		return one.Message
	case json.Unmarshal(b.Detail, &one) == nil && one.Error != "":
		return strings.ReplaceAll(one.Error, "_", " ")
	case json.Unmarshal(b.Detail, &list) == nil && len(list) > 0:
		var out []string
		for _, x := range list {
			field := ""
			if n := len(x.Loc); n > 0 {
				field = fmt.Sprint(x.Loc[n-1]) + ": "
			}
			out = append(out, field+x.Msg)
		}
		return strings.Join(out, "; ")
	}
	return e.Error()
}

// Code is detail.error of the answer, or "".
func (e *APIError) Code() string {
	var b struct {
		Detail struct {
			Error string `json:"error"`
		} `json:"detail"`
	}
	if json.Unmarshal(e.Body, &b) != nil {
		return ""
	}
	return b.Detail.Error
}

// Do sends one request. body is JSON or nil for none; query is in the order
// that is signed. It returns the answer's bytes.
func (c *Client) Do(ctx context.Context, method, path string, query []Field, body []byte, sign bool) ([]byte, error) {
	method = strings.ToUpper(method)
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("path %q: want a slash first", path)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	q := encodeQuery(query)
	target := strings.TrimRight(c.URL, "/") + path
	if q != "" {
		target += "?" + q
	}
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if sign {
		if c.Key == nil {
			return nil, errors.New("a signed request needs a hotkey")
		}
		if err := c.sign(req, method, path, q, body); err != nil {
			return nil, err
		}
	}
	h := c.HTTP
	if h == nil {
		h = &http.Client{Timeout: Timeout}
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s failed: %w", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("%s %s failed: %w", method, path, err)
	}
	if resp.StatusCode >= 400 {
		return nil, &APIError{Method: method, Path: path, Status: resp.StatusCode, Body: b}
	}
	return b, nil
}

func (c *Client) sign(req *http.Request, method, path, query string, body []byte) error {
	hash := signing.EmptyBody
	if body != nil {
		canonical, err := signing.CanonicalJSON(body)
		if err != nil {
			return fmt.Errorf("body: %w", err)
		}
		hash = signing.BodyHash(canonical)
	}
	now := c.Now
	if now == nil {
		now = time.Now
	}
	ts := strconv.FormatInt(now().Unix(), 10)
	sig, err := c.Key.Sign(signin.Message(method, path, query, ts, hash))
	if err != nil {
		return fmt.Errorf("sign request: %w", err)
	}
	req.Header.Set("X-Hotkey", c.Key.SS58())
	req.Header.Set("X-Timestamp", ts)
	req.Header.Set("X-Signature", hex.EncodeToString(sig))
	return nil
}

// encodeQuery writes parameters in their order, blanks as +; nil values are left out.
func encodeQuery(list []Field) string {
	var parts []string
	for _, f := range list {
		switch v := f.Value.(type) {
		case nil:
		case []string:
			for _, s := range v {
				parts = append(parts, url.QueryEscape(f.Name)+"="+url.QueryEscape(s))
			}
		default:
			parts = append(parts, url.QueryEscape(f.Name)+"="+url.QueryEscape(fmt.Sprint(v)))
		}
	}
	return strings.Join(parts, "&")
}

func get[T any](ctx context.Context, c *Client, path string, query ...Field) (out T, err error) {
	b, err := c.Do(ctx, http.MethodGet, path, query, nil, false)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("GET %s: %w", path, err)
	}
	return out, nil
}

// Tasks lists the tasks.
func (c *Client) Tasks(ctx context.Context) ([]coordinator.TaskView, error) {
	return get[[]coordinator.TaskView](ctx, c, "/api/v1/tasks")
}

// ErrNoClaim: there is no such claim.
var ErrNoClaim = errors.New("is not known to the coordinator")

// ErrNoTask is the stock client's word for a task that is not there.
var ErrNoTask = errors.New("no matching coordinator task found")

// Task finds a live task by id or slug (any case, trimmed); both empty: the first.
func (c *Client) Task(ctx context.Context, id, slug string, live bool) (*coordinator.TaskView, error) {
	list, err := c.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	slug = strings.ToLower(strings.TrimSpace(slug))
	for i, t := range list {
		if (id == "" || t.ID == id) && (slug == "" || strings.ToLower(strings.TrimSpace(t.Slug)) == slug) && (!live || t.State == coordinator.StateLive && t.Active) {
			return &list[i], nil
		}
	}
	return nil, ErrNoTask
}

// Claim reserves an attempt on a task, or on a work item.
func (c *Client) Claim(ctx context.Context, task, item, description string) (*coordinator.Claim, []byte, error) {
	path := "/api/v1/tasks/" + task + "/claim"
	body, err := Dumps([]Field{{"claim_description", description}})
	if item != "" {
		path = "/api/v1/work-items/" + item + "/claim"
		if description == "" {
			body = []byte("{}")
		}
	}
	if err != nil {
		return nil, nil, err
	}
	b, err := c.Do(ctx, http.MethodPost, path, nil, body, true)
	if err != nil {
		return nil, nil, err
	}
	var out coordinator.Claim
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, nil, fmt.Errorf("POST %s: %w", path, err)
	}
	return &out, b, nil
}

// Cancel gives a claim back. It sends no body.
func (c *Client) Cancel(ctx context.Context, claim string) ([]byte, error) {
	return c.Do(ctx, http.MethodPost, "/api/v1/claims/"+claim+"/cancel", nil, nil, true)
}

// TaskOfClaim finds the task of a claim, also where the coordinator only lists claims.
func (c *Client) TaskOfClaim(ctx context.Context, claim string) (*coordinator.TaskView, error) {
	one, err := get[coordinator.Claim](ctx, c, "/api/v1/claims/"+url.PathEscape(claim))
	var ae *APIError
	if errors.As(err, &ae) && (ae.Status == http.StatusNotFound || ae.Status == http.StatusMethodNotAllowed) {
		list, lerr := get[[]coordinator.Claim](ctx, c, "/api/v1/claims")
		if lerr != nil {
			return nil, lerr
		}
		for _, x := range list {
			if x.ID == claim {
				one, err = x, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("claim %s %w", claim, ErrNoClaim)
		}
	}
	if err != nil {
		return nil, err
	}
	return c.Task(ctx, one.TaskID, "", false)
}

// Submission is what a miner sends.
type Submission struct {
	ClaimID, BaseRef, Patch string
	Sidecar                 Sidecar
}

// Body is the request in the stock client's shape: the first five keys always,
// the size whenever it is there, the others only when they say something.
func (s *Submission) Body() ([]byte, error) {
	x := s.Sidecar
	fields := []Field{
		{"claim_id", s.ClaimID}, {"base_ref", s.BaseRef}, {"patch", s.Patch}, {"summary", plain.First(x.Summary, maxSummary)}, {"claimed_metrics", x.ClaimedMetrics},
	}
	for _, f := range []struct{ name, v string }{
		{"proposed_idea", x.ProposedIdea},
		{"implemented_submission_id", x.Implemented},
		{"artifact_uri", x.ArtifactURI},
		{"artifact_sha256", strings.ToLower(x.ArtifactSHA256)},
	} {
		if f.v != "" {
			fields = append(fields, Field{f.name, f.v})
		}
	}
	if x.ArtifactBytes != nil {
		fields = append(fields, Field{"artifact_size_bytes", *x.ArtifactBytes})
	}
	if x.ExecutionLog != "" {
		fields = append(fields, Field{"execution_log", x.ExecutionLog})
	}
	return Dumps(fields)
}

// maxSummary is where the stock client cuts a summary, in characters.
const maxSummary = 7900

// Submit sends a submission and returns the coordinator's answer.
func (c *Client) Submit(ctx context.Context, s *Submission) ([]byte, error) {
	body, err := s.Body()
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, http.MethodPost, "/api/v1/submissions", nil, body, true)
}
