package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
)

// Door is a model behind OpenAI's completions, on this machine: texts of held tasks
// are sent to it, and they never leave.
type Door struct {
	url, model string
	http       *http.Client
	chat       bool // it has no /completions, and is asked in messages
}

// maxReply bounds what a door answers, in bytes.
const maxReply = 16 << 20

// NewDoor returns the door at a URL that ends in /v1. A model elsewhere is refused:
// when the URL is read, and again when the connection is made.
func NewDoor(at, model string) (*Door, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, &agon.Error{Code: "bad_field", Status: 422, Field: "url", Message: fmt.Sprintf("%.200q is not the URL of a model's door, such as http://127.0.0.1:8000/v1", at)}
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, notHere(u.Hostname())
	}
	dial := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
			return notHere(address)
		}
		return nil
	}}
	return &Door{
		url: strings.TrimRight(at, "/"), model: model,
		http: &http.Client{
			Timeout:       maxWait,
			Transport:     &http.Transport{DialContext: dial.DialContext},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func notHere(host string) error {
	return &agon.Error{Code: "not_local", Status: 422, Field: "url", Message: fmt.Sprintf("%.200s is not this machine: held tasks would leave it", host), Mend: "serve the model here, or bring its port here (ssh -L)"}
}

// What a door says instead of an answer, through no fault of the model.
var (
	errNoRoute = errors.New("no such route")       // it does not know the path
	errRefused = errors.New("refused the request") // it knows the path and not what was asked of it
)

// maxWait bounds one question: a door that takes it and never answers ends the audit.
const maxWait = 30 * time.Minute

func (d *Door) post(ctx context.Context, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("ask the model: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+path, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("ask the model: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	bad := func(format string, args ...any) error {
		return &agon.Error{Code: "bad_model", Status: 502, Field: "url", Message: d.url + path + ": " + fmt.Sprintf(format, args...)}
	}
	resp, err := d.http.Do(req)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) {
			return e
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return bad("%v", err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return bad("%v", err)
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed:
		return errNoRoute
	case resp.StatusCode == http.StatusBadRequest:
		return errors.Join(errRefused, bad("%s: %.300s", resp.Status, bytes.TrimSpace(got)))
	case resp.StatusCode != http.StatusOK:
		return bad("%s: %.300s", resp.Status, bytes.TrimSpace(got))
	case len(got) > maxReply:
		return bad("it answered more than %d bytes", maxReply)
	}
	if err := json.Unmarshal(got, into); err != nil {
		return bad("it did not answer in JSON: %v", err)
	}
	return nil
}

type completion struct {
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Logprobs *struct {
			Each    []*float64 `json:"token_logprobs"`
			Offsets []int      `json:"text_offset"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// Continue samples n continuations of a text, of at most max tokens each. Temperature 0
// takes the likeliest.
func (d *Door) Continue(ctx context.Context, text string, n, max int, temperature float64, seed int64) ([]string, error) {
	ask := map[string]any{"model": d.model, "max_tokens": max, "temperature": temperature, "n": n, "seed": seed}
	var got completion
	if !d.chat {
		ask["prompt"] = text
		err := d.post(ctx, "/completions", ask, &got)
		d.chat = errors.Is(err, errNoRoute)
		if err != nil && !d.chat {
			return nil, err
		}
	}
	if d.chat {
		delete(ask, "prompt")
		ask["messages"] = []map[string]string{{"role": "user", "content": "Continue this text word by word, as you know it. Write nothing else.\n\n" + text}}
		if err := d.post(ctx, "/chat/completions", ask, &got); err != nil {
			if errors.Is(err, errNoRoute) {
				err = &agon.Error{Code: "bad_model", Status: 502, Field: "url", Message: d.url + " has neither /completions nor /chat/completions", Mend: "name a URL that ends in /v1"}
			}
			return nil, err
		}
	}
	var out []string
	for _, c := range got.Choices {
		out = append(out, c.Text+c.Message.Content)
	}
	return out, nil
}

// Logprob is the mean log-probability of a text's tokens after its first, and how many
// they are. ok is false where the door does not tell log-probabilities of prompts.
func (d *Door) Logprob(ctx context.Context, text string) (mean float64, tokens int, ok bool, err error) {
	if d.chat {
		return 0, 0, false, nil
	}
	var got completion
	err = d.post(ctx, "/completions", map[string]any{"model": d.model, "prompt": text, "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1}, &got)
	if errors.Is(err, errNoRoute) {
		d.chat = true
		return 0, 0, false, nil
	}
	if errors.Is(err, errRefused) {
		return 0, 0, false, nil // it does not know echo
	}
	if err != nil {
		return 0, 0, false, err
	}
	if len(got.Choices) == 0 || got.Choices[0].Logprobs == nil {
		return 0, 0, false, nil
	}
	l := got.Choices[0].Logprobs
	if len(l.Offsets) != len(l.Each) {
		return 0, 0, false, nil
	}
	sum := 0.0
	for i, p := range l.Each {
		// The token that was made after the text is not the text's.
		if i == 0 || p == nil || l.Offsets[i] >= len([]rune(text)) {
			continue
		}
		if *p > 0 || math.IsNaN(*p) || math.IsInf(*p, 0) {
			return 0, 0, false, &agon.Error{Code: "bad_model", Status: 502, Field: "url", Message: fmt.Sprintf("%s says that a token has the log-probability %v", d.url, *p)}
		}
		sum += max(*p, -100)
		tokens++
	}
	if tokens == 0 {
		return 0, 0, false, nil
	}
	return sum / float64(tokens), tokens, true, nil
}
