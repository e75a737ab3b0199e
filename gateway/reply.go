package gateway

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon/internal/plain"
)

// Message is what a model said, put together from a JSON reply or a stream.
// It is the model's text: hostile.
type Message struct {
	Content   string     `json:"content"`
	Reasoning string     `json:"reasoning,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	Finish    string     `json:"finish_reason,omitempty"`
}

// ToolCall is a call that a model asked for.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // as the model wrote them; often JSON
}

// usage is what a provider says was used, if it can be believed.
type usage struct {
	prompt, completion int64
	cached             int64 // of prompt, read from the provider's cache
	ok                 bool
}

// wireReply is the part of a reply, or of a stream's chunk, that the gateway
// reads. Everything is optional and of any type: a provider may send anything.
type wireReply struct {
	Choices []wireChoice `json:"choices"`
	Usage   *wireUsage   `json:"usage"`
	Data    []wireVector `json:"data"`
	Tokens  []int64      `json:"prompt_token_ids"`
}

type wireChoice struct {
	Message *wireMessage `json:"message"`
	Delta   *wireMessage `json:"delta"`
	Finish  string       `json:"finish_reason"`
	IDs     []int64      `json:"token_ids"`
	Probs   []float64    `json:"logprobs"`
}

type wireUsage struct {
	Prompt     json.Number `json:"prompt_tokens"`
	Completion json.Number `json:"completion_tokens"`
	Cached     json.Number `json:"-"` // of Prompt, read from the provider's cache
}

type wireVector struct {
	Embedding json.RawMessage `json:"embedding"`
}

type wireMessage struct {
	Content   string         `json:"content"`
	Reasoning string         `json:"reasoning_content"`
	ToolCalls []wireToolCall `json:"tool_calls"`
}

type wireToolCall struct {
	Index    int          `json:"index"`
	ID       string       `json:"id"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// brokeOff reports a reply that the provider itself calls unfinished and that holds
// neither words nor calls: no work of a model.
func (w *wireReply) brokeOff() bool {
	if len(w.Choices) == 0 || w.Choices[0].Finish != "incomplete" && w.Choices[0].Finish != "error" {
		return false
	}
	m := w.Choices[0].Message
	return m == nil || m.Content == "" && m.Reasoning == "" && len(m.ToolCalls) == 0
}

// used returns the usage, not ok unless both counts are whole numbers that a call can have.
func (w *wireReply) used(embedding bool) usage {
	if w.Usage == nil {
		return usage{}
	}
	p, ok1 := count(w.Usage.Prompt)
	c, ok2 := count(w.Usage.Completion)
	if embedding && w.Usage.Completion == "" {
		c, ok2 = 0, true
	}
	cached, ok := count(w.Usage.Cached)
	if !ok || cached > p {
		cached = 0 // what cannot be gives no discount
	}
	return usage{prompt: p, completion: c, cached: cached, ok: ok1 && ok2}
}

func count(n json.Number) (int64, bool) {
	if i, err := n.Int64(); err == nil {
		return i, i >= 0 && i <= maxUsage
	}
	// Some servers write 12.0.
	f, err := n.Float64()
	if err != nil || f < 0 || f > maxUsage || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// maxTokens bounds the tokens of a call that are kept: the ids of its prompt, and those of its answer.
const maxTokens = 32 << 10

// tokens adds what a reply, or a chunk, says of tokens.
func (w *wireReply) tokens(t *Tokens) {
	if len(t.Prompt) == 0 && len(w.Tokens) <= maxTokens {
		t.Prompt = w.Tokens
	}
	if len(w.Choices) == 0 {
		return
	}
	c := w.Choices[0]
	if t.over = t.over || max(len(t.Completion)+len(c.IDs), len(t.Logprobs)+len(c.Probs)) > maxTokens; t.over {
		t.Completion, t.Logprobs = nil, nil // part of an answer would pass for the whole
		return
	}
	t.Completion, t.Logprobs = append(t.Completion, c.IDs...), append(t.Logprobs, c.Probs...)
}

// any tells whether there is anything in it.
func (t *Tokens) any() bool { return len(t.Prompt)+len(t.Completion)+len(t.Logprobs) > 0 }

// message returns the first choice of a JSON reply.
func (w *wireReply) message() (Message, bool) {
	if len(w.Choices) == 0 || w.Choices[0].Message == nil {
		return Message{}, false
	}
	c := w.Choices[0]
	m := Message{Content: c.Message.Content, Reasoning: c.Message.Reasoning, Finish: c.Finish}
	for _, t := range c.Message.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{t.ID, t.Function.Name, t.Function.Arguments})
	}
	return m, true
}

// Limits of what is read of a stream. Longer lines and more calls pass
// through unread; bytes to the client are never changed.
const (
	maxLine      = 1 << 20
	maxToolCalls = 1024
)

// tailer watches a stream of server-sent events go by: it finds the usage,
// puts the message together and tells whether the stream came to its end.
// Feed it any split of the bytes.
type tailer struct {
	line  []byte // an unfinished line
	skip  bool   // the line is over maxLine: its rest is ignored
	usage usage
	msg   Message
	text  strings.Builder
	think strings.Builder
	calls map[int]*toolText
	toks  Tokens
	done  bool // [DONE] was seen, or what the form has in its place
	// as reads an event of another form than OpenAI's. Optional.
	as func(data []byte) (w wireReply, done bool)
	// on gets every event as it was read. Optional.
	on func(w *wireReply)
}

type toolText struct {
	id, name string
	args     strings.Builder
}

func (t *tailer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			t.keep(p)
			break
		}
		t.keep(p[:i])
		t.flush()
		p = p[i+1:]
	}
	return n, nil
}

func (t *tailer) keep(p []byte) {
	if t.skip {
		return
	}
	if len(t.line)+len(p) > maxLine {
		t.skip = true
		t.line = nil
		return
	}
	t.line = append(t.line, p...)
}

// flush reads the line that ended.
func (t *tailer) flush() {
	line := t.line
	t.line, t.skip = t.line[:0], false
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	data = bytes.TrimSpace(data)
	if string(data) == "[DONE]" {
		t.done = true
		return
	}
	if len(data) == 0 || data[0] != '{' {
		return
	}
	var w wireReply
	if t.as != nil {
		was := t.done
		w, t.done = t.as(data)
		t.done = t.done || was
	} else {
		w, _ = read(data) // what cannot be read stays empty and is estimated
	}
	if t.on != nil {
		t.on(&w)
	}
	// The last usage wins: some servers count up in every chunk.
	if w.Usage != nil {
		t.usage = w.used(false)
	}
	w.tokens(&t.toks)
	if len(w.Choices) == 0 {
		return
	}
	c := w.Choices[0]
	if c.Finish != "" {
		t.msg.Finish = plain.Head(c.Finish, 64)
	}
	if c.Delta == nil {
		return
	}
	t.text.WriteString(c.Delta.Content)
	t.think.WriteString(c.Delta.Reasoning)
	for _, d := range c.Delta.ToolCalls {
		x := t.calls[d.Index]
		if x == nil {
			if len(t.calls) == maxToolCalls {
				continue
			}
			if t.calls == nil {
				t.calls = map[int]*toolText{}
			}
			x = &toolText{}
			t.calls[d.Index] = x
		}
		if d.ID != "" {
			x.id = d.ID
		}
		x.name += plain.Head(d.Function.Name, 256)
		x.args.WriteString(d.Function.Arguments)
	}
}

// end reads a last line without newline and returns what was seen. complete
// is false when the provider stopped in the middle.
func (t *tailer) end() (m Message, u usage, complete bool) {
	t.flush()
	m = t.msg
	m.Content, m.Reasoning = t.text.String(), t.think.String()
	for _, i := range sortedKeys(t.calls) {
		x := t.calls[i]
		m.ToolCalls = append(m.ToolCalls, ToolCall{x.id, x.name, x.args.String()})
	}
	return m, t.usage, t.done || m.Finish != ""
}

func sortedKeys(m map[int]*toolText) []int {
	ks := make([]int, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}

// MessageOf puts together what a model said from the whole bytes of a chat
// reply, as an event's Message has it: of a stream, or of one JSON document, in
// the form that the event names. ok is false where there is no message in them.
func MessageOf(response []byte, stream bool, wire string) (m Message, ok bool) {
	f := forms[wire]
	if f == nil && wire != "" {
		return Message{}, false
	}
	if !stream {
		w, ok := f.parse(response)
		if !ok {
			return Message{}, false
		}
		return w.message()
	}
	t := tailer{as: f.reader()}
	_, _ = t.Write(response) // never fails
	m, _, _ = t.end()
	return m, true
}
