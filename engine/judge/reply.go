package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// maxTokens bounds the room that a model gets which broke off.
const maxTokens = 16 << 10

var errBrokeOff = errors.New("judge's reply broke off")

// question is one request in the making.
type question struct {
	model  string
	prompt Prompt
	doc    []byte
	tokens int
	// structured asks the server to keep the reply to JSON. It is tried after a
	// reply in a wrong form: not every server knows the field.
	structured bool
}

// Fields of a request that servers are known to refuse.
const (
	fieldTemperature = "temperature"
	fieldMaxTokens   = "max_tokens"
	fieldFormat      = "response_format"
)

// refusal is an answer other than 200.
type refusal struct {
	status int
	field  string        // of the request that the server named in refusing it
	after  time.Duration // what Retry-After says
}

// ofCase says that the server may have refused what stands in the case, as filters of
// content do. Asking the same again does not help.
func (r *refusal) ofCase() bool {
	return r.field == "" && slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusUnavailableForLegalReasons}, r.status)
}

// maxRefused is after how many such refusals a model is not asked again.
const maxRefused = 2

func (r *refusal) Error() string {
	s := fmt.Sprintf("judge's provider answered status %d", r.status)
	if r.field != "" {
		s += ", refusing the field " + r.field
	}
	return s
}

func (j *Judge) request(q question) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type format struct {
		Type string `json:"type"`
	}
	taken := func(field string) bool {
		_, no := j.refused.Load(q.model + " " + field)
		return !no
	}
	body := struct {
		Model          string    `json:"model,omitempty"`
		Messages       []message `json:"messages"`
		Temperature    *int      `json:"temperature,omitempty"`
		MaxTokens      int       `json:"max_tokens,omitempty"`
		MaxCompletion  int       `json:"max_completion_tokens,omitempty"`
		ResponseFormat *format   `json:"response_format,omitempty"`
	}{Model: q.model, Messages: []message{{"system", q.prompt.System}, {"user", string(q.doc)}}}
	if taken(fieldTemperature) {
		body.Temperature = new(int)
	}
	if taken(fieldMaxTokens) {
		body.MaxTokens = q.tokens
	} else {
		body.MaxCompletion = q.tokens
	}
	if q.structured && taken(fieldFormat) {
		body.ResponseFormat = &format{"json_object"}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	return b, nil
}

// send makes one call and returns what the model said.
func (j *Judge) send(ctx context.Context, q question) (string, error) {
	body, err := j.request(q)
	if err != nil {
		return "", err
	}
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
		r := &refusal{status: resp.StatusCode}
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			r.after = time.Duration(min(n, 3600)) * time.Second
		}
		if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity {
			r.field = j.named(q, b)
		}
		return "", r
	}
	return said(b)
}

// named is the field of the request that a server's refusal speaks of.
func (j *Judge) named(q question, body []byte) string {
	for _, f := range []string{fieldFormat, fieldMaxTokens, fieldTemperature} {
		if _, known := j.refused.Load(q.model + " " + f); known || f == fieldFormat && !q.structured {
			continue
		}
		if bytes.Contains(body, []byte(f)) {
			return f
		}
	}
	return ""
}

// said is the text of a chat completion: content as a string, or as a list of parts.
func said(b []byte) (string, error) {
	var out struct {
		Choices []struct {
			Message struct {
				Content json.RawMessage `json:"content"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &out); err != nil || len(out.Choices) != 1 {
		return "", errors.New("judge's reply is not a chat completion with one choice")
	}
	if out.Choices[0].FinishReason == "length" {
		return "", errBrokeOff
	}
	content := out.Choices[0].Message.Content
	var text string
	if len(content) > 0 && content[0] == '"' && json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if len(content) > 0 && content[0] == '[' && json.Unmarshal(content, &parts) == nil {
		for _, p := range parts {
			if p.Type == "text" || p.Type == "output_text" || p.Type == "" {
				text += p.Text
			}
		}
		return text, nil
	}
	return "", nil // the model has said nothing, as some do who refuse
}

// maxStarts bounds how many braces of a reply are tried as the begin of its object.
const maxStarts = 64

var (
	thoughts = lazyregexp.New(`(?is)^\s*<(think|thinking|reasoning)>.*?</(think|thinking|reasoning)>`)
	// openThought is what remains where a server has cut the opening mark off.
	openThought = lazyregexp.New(`(?is)^[^{]*</(think|thinking)>`)
	fenceStart  = lazyregexp.New("(?i)^```[ \t]*(json|jsonc|json5)?[ \t]*\r?\n")
)

// Object returns the one JSON object that is the whole of text, apart from
// white space, thoughts before it and at most one code fence around it.
// Duplicate keys, text beside it and more than one object are errors.
func Object(text string) ([]byte, error) {
	text, err := bare(text)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(text, "{") {
		return nil, errors.New("no JSON object")
	}
	if err := checkObject([]byte(text)); err != nil {
		return nil, err
	}
	return []byte(text), nil
}

func bare(text string) (string, error) {
	if len(text) > maxReply {
		return "", fmt.Errorf("larger than %d bytes", maxReply)
	}
	if !utf8.ValidString(text) {
		return "", errors.New("not UTF-8")
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if at := thoughts().FindStringIndex(text); at != nil {
		text = text[at[1]:]
	} else if at := openThought().FindStringIndex(text); at != nil {
		text = text[at[1]:]
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "```") {
		at := fenceStart().FindStringIndex(text)
		if at == nil {
			return "", errors.New("bad code fence")
		}
		inner, ok := strings.CutSuffix(text[at[1]:], "```")
		if !ok {
			return text, nil // there may be text behind it
		}
		text = strings.TrimSpace(inner)
	}
	return text, nil
}

// find returns the reply's object. Text beside it is allowed where the reply
// holds one object only and the judged document does not hold its keys: a model
// that repeats what it was given must not be taken at that word.
func find(text string, doc []byte) ([]byte, error) {
	obj, err := Object(text)
	if err == nil {
		return obj, nil
	}
	text, berr := bare(text)
	if berr != nil {
		return nil, berr
	}
	var found []byte
	for i, tries := 0, 0; i < len(text) && tries < maxStarts; tries++ {
		at := strings.IndexByte(text[i:], '{')
		if at < 0 {
			break
		}
		i += at
		d := json.NewDecoder(strings.NewReader(text[i:]))
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			i++
			continue
		}
		if found != nil {
			return nil, errors.New("more than one object")
		}
		found = raw
		i += len(raw)
	}
	if found == nil {
		return nil, err
	}
	if err := checkObject(found); err != nil {
		return nil, err
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(found, &keys) != nil || len(keys) == 0 {
		return nil, errors.New("no JSON object")
	}
	for k := range keys {
		if !bytes.Contains(doc, []byte(k)) {
			return found, nil
		}
	}
	return nil, errors.New("text beside the object, whose keys the judged text has too")
}
