package scripted

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
)

// Name is the provider's and the model's name wherever a scripted reply is shown.
const Name = agon.Script

// NoReply is what a script says where no rule of any sample matches.
const NoReply = "The script has no reply for this."

// dims is the length of an embedding.
const dims = 32

// maxBody bounds a request at the handler.
const maxBody = 16 << 20

// Upstream answers from a script. It implements provider.Upstream.
type Upstream struct{ script *Script }

// New returns an upstream over s; nil is the empty script.
func New(s *Script) *Upstream {
	if s == nil {
		s = &Script{Version: 1, Fallback: NoReply}
	}
	return &Upstream{script: s}
}

// Name implements provider.Upstream.
func (u *Upstream) Name() string { return Name }

// Models implements provider.Upstream.
func (u *Upstream) Models() []string { return []string{Name} }

// Do implements provider.Upstream.
func (u *Upstream) Do(ctx context.Context, req provider.Request) (*provider.Reply, error) {
	a := u.answer(req.Path, req.Body)
	if a.hang {
		<-ctx.Done()
		return nil, &provider.Failure{Class: provider.ClassTimeout, Detail: "the script hangs"}
	}
	if a.status != http.StatusOK && !provider.Own(a.status) {
		return nil, &provider.Failure{Class: provider.Classify(a.status), Status: a.status, Detail: "the script says so"}
	}
	return &provider.Reply{Status: a.status, ContentType: a.ctype, Body: io.NopCloser(bytes.NewReader(bytes.Join(a.parts, nil)))}, nil
}

// Handler serves the script as an OpenAI-compatible server: POST
// {prefix}/chat/completions and {prefix}/embeddings, GET {prefix}/models, for
// any prefix.
func Handler(s *Script) http.Handler {
	u := New(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var path string
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"scripted","object":"model","created":0,"owned_by":"scripted"}]}`)
			return
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, provider.PathChat):
			path = provider.PathChat
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, provider.PathEmbeddings):
			path = provider.PathEmbeddings
		default:
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "body", http.StatusRequestEntityTooLarge)
			return
		}
		a := u.answer(path, body)
		if a.hang {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", a.ctype)
		w.WriteHeader(a.status)
		flush := http.NewResponseController(w)
		for _, p := range a.parts {
			if _, err := w.Write(p); err != nil {
				return
			}
			_ = flush.Flush()
		}
	})
}

// answer is what the script says to one request; parts are SSE events or one JSON document.
type answer struct {
	status int
	ctype  string
	parts  [][]byte
	hang   bool
}

type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type request struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Stream        bool            `json:"stream"`
	Logprobs      bool            `json:"logprobs"`
	TokenIDs      bool            `json:"return_token_ids"`
	StreamOptions *streamOptions  `json:"stream_options"`
	Input         json.RawMessage `json:"input"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

func (u *Upstream) answer(path string, body []byte) answer {
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return refuse(http.StatusBadRequest, "the body is not the JSON of such a request")
	}
	if q.Model != Name {
		return refuse(http.StatusNotFound, fmt.Sprintf("the model %q does not exist; there is only %q", q.Model, Name))
	}
	if path == provider.PathEmbeddings {
		return embed(q.Input)
	}
	if len(q.Messages) == 0 {
		return refuse(http.StatusBadRequest, "messages is empty")
	}
	r := u.script.find(look(q.Messages))
	switch {
	case r.Hang:
		return answer{hang: true}
	case r.Status != 0:
		return refuse(r.Status, "the script says so")
	}
	return chat(q, r, body)
}

func refuse(status int, msg string) answer {
	return answer{status: status, ctype: "application/json", parts: [][]byte{encode(map[string]any{
		"error": map[string]any{"message": msg, "type": "invalid_request_error", "code": nil},
	})}}
}

func look(ms []message) conversation {
	var c conversation
	var task []string
	for _, m := range ms {
		t := text(m.Content)
		switch m.Role {
		case "assistant":
			c.turn++
		case "user", "tool":
			c.last = t
		}
		if c.turn == 0 {
			task = append(task, t)
		}
	}
	c.task = strings.Join(task, "\n")
	return c
}

// text reads content as a string or as an array of text parts.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // anything else has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// The shapes of the protocol, in the order in which servers write them.
type (
	function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	toolCall struct {
		Index    *int     `json:"index,omitempty"`
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type,omitempty"`
		Function function `json:"function"`
	}
	delta struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	}
	full struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	}
	choice struct {
		Index    int     `json:"index"`
		Message  *full   `json:"message,omitempty"`
		Delta    *delta  `json:"delta,omitempty"`
		Finish   *string `json:"finish_reason"`
		IDs      []int64 `json:"token_ids,omitempty"`
		Logprobs *probs  `json:"logprobs,omitempty"`
	}
	usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	reply struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
		Usage   *usage   `json:"usage,omitempty"`
		Prompt  []int64  `json:"prompt_token_ids,omitempty"`
	}
)

func chat(q request, r *Rule, body []byte) answer {
	sum := sha256.Sum256(body)
	id := hex.EncodeToString(sum[:12])
	finish := "stop"
	calls := make([]toolCall, 0, len(r.ToolCalls))
	said := r.Content
	for i, t := range r.ToolCalls {
		finish = "tool_calls"
		said += t.Name + t.text
		calls = append(calls, toolCall{
			Index: &i, ID: fmt.Sprintf("call_%s_%d", id[:12], i), Type: "function",
			Function: function{Name: t.Name, Arguments: t.text},
		})
	}
	var asked strings.Builder
	for _, m := range q.Messages {
		asked.WriteString(text(m.Content) + strings.Repeat(" ", 8))
	}
	u := &usage{Prompt: asked.Len()/4 + 1, Completion: len(said)/4 + 1}
	u.Total = u.Prompt + u.Completion
	// The time is left at zero: same request, same bytes.
	base := reply{ID: "chatcmpl-" + id, Model: Name}
	last := choice{Finish: &finish} // tells the tokens of what was said
	if q.TokenIDs {
		base.Prompt, last.IDs = tokens(asked.String()), tokens(said)
	}
	if q.Logprobs {
		last.Logprobs = certain(said)
	}

	if !q.Stream {
		base.Object = "chat.completion"
		m := &full{Role: "assistant", ToolCalls: calls}
		if r.Content != "" || len(calls) == 0 {
			m.Content = &r.Content
		}
		for i := range calls {
			calls[i].Index = nil
		}
		last.Message = m
		base.Choices = []choice{last}
		base.Usage = u
		return answer{status: http.StatusOK, ctype: "application/json", parts: [][]byte{encode(base)}}
	}

	a := answer{status: http.StatusOK, ctype: "text/event-stream"}
	base.Object = "chat.completion.chunk"
	event := func(c []choice, u *usage) {
		b := base
		b.Choices, b.Usage = c, u
		base.Prompt = nil // told once
		a.parts = append(a.parts, []byte("data: "+string(encode(b))+"\n\n"))
	}
	piece := func(d delta) { event([]choice{{Delta: &d}}, nil) }
	empty := ""
	piece(delta{Role: "assistant", Content: &empty})
	for _, s := range pieces(r.Content) {
		piece(delta{Content: &s})
	}
	for _, t := range calls {
		head := t
		head.Function.Arguments = ""
		piece(delta{ToolCalls: []toolCall{head}})
		for _, s := range pieces(t.Function.Arguments) {
			piece(delta{ToolCalls: []toolCall{{Index: t.Index, Function: function{Arguments: s}}}})
		}
	}
	last.Delta = &delta{}
	event([]choice{last}, nil)
	if q.StreamOptions != nil && q.StreamOptions.IncludeUsage {
		event([]choice{}, u)
	}
	a.parts = append(a.parts, []byte("data: [DONE]\n\n"))
	return a
}

// pieces cuts text as a model would stream it: some runes at a time.
func pieces(s string) []string {
	var out []string
	r := []rune(s)
	for len(r) > 0 {
		n := min(24, len(r))
		out = append(out, string(r[:n]))
		r = r[n:]
	}
	return out
}

func embed(raw json.RawMessage) answer {
	var one string
	var many []string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		many = []string{one}
	case json.Unmarshal(raw, &many) == nil && len(many) > 0:
	default:
		return refuse(http.StatusBadRequest, "input: want a string or a list of strings")
	}
	type vector struct {
		Object    string    `json:"object"`
		Index     int       `json:"index"`
		Embedding []float64 `json:"embedding"`
	}
	data := make([]vector, len(many))
	tokens := 0
	for i, s := range many {
		tokens += len(s)/4 + 1
		sum := sha256.Sum256([]byte(s))
		v := make([]float64, dims)
		for j := range v {
			// 128ths are exact in binary and short in decimal.
			v[j] = float64(int(sum[j])-128) / 128
		}
		data[i] = vector{Object: "embedding", Index: i, Embedding: v}
	}
	return answer{status: http.StatusOK, ctype: "application/json", parts: [][]byte{encode(map[string]any{
		"object": "list", "data": data, "model": Name,
		"usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens},
	})}}
}

// encode writes JSON without escaping <, > and &: replies are full of code.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only our own shapes come here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
