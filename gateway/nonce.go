package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Headers of a tool call that a model asked for (spec/oro.md 2.8).
const (
	NonceHeader  = "X-Tool-Nonce"
	CallHeader   = "X-Tool-Call-Id"
	statusHeader = "X-Nonce-Status"
)

// What became of a nonce.
const (
	nonceValid     = "valid"
	nonceMissing   = "missing"
	nonceMismatch  = "mismatch"
	nonceExpired   = "expired"
	nonceReplayed  = "replayed"
	nonceMalformed = "malformed"
)

const (
	nonceTTL = 60 * time.Second
	// maxEmitted bounds the calls of a session that wait for their dispatch; the oldest goes first.
	maxEmitted = 4096
)

// nonces remembers what the models of one session asked for. A dispatch is the
// model's if it brings the call's id, the same tool and the same arguments,
// in time and once; where the reply was marked, also the mark.
type nonces struct {
	key    [32]byte // of the marks
	marked bool     // replies carry marks
	clock  func() time.Time

	mu    sync.Mutex
	calls map[string]*emitted // by call id; guarded by mu
	order []string            // guarded by mu
}

type emitted struct {
	tool, args, receipt string
	until               time.Time
	used                bool
}

func newNonces(marked bool, clock func() time.Time) (*nonces, error) {
	n := &nonces{marked: marked, clock: clock, calls: map[string]*emitted{}}
	_, err := rand.Read(n.key[:])
	return n, err
}

func hashArgs(b []byte) string {
	h := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(h[:])
}

// emit notes the calls of a model's reply. The first to use an id keeps it.
func (n *nonces) emit(receipt string, calls []ToolCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range calls {
		if c.ID == "" {
			continue
		}
		if old := n.calls[c.ID]; old != nil && !old.used && n.clock().Before(old.until) && !gatewayID(c.ID) {
			continue
		}
		if _, known := n.calls[c.ID]; !known {
			n.order = append(n.order, c.ID)
		}
		n.calls[c.ID] = &emitted{tool: c.Name, args: hashArgs([]byte(c.Arguments)), receipt: receipt, until: n.clock().Add(nonceTTL)}
		for len(n.order) > maxEmitted {
			delete(n.calls, n.order[0])
			n.order = n.order[1:]
		}
	}
}

// payload is what a mark says, in the order of its fields: run, call, tool,
// hash of the arguments, expiry in ms.
type payload struct {
	Run  string `json:"e"`
	Call string `json:"c"`
	Tool string `json:"t"`
	Args string `json:"a"`
	Till int64  `json:"x"`
}

// mint makes the mark of a call: b64url(payload) "." b64url(HMAC-SHA256).
func (n *nonces) mint(run string, c ToolCall, until time.Time) string {
	b, err := json.Marshal(payload{run, c.ID, c.Name, hashArgs([]byte(c.Arguments)), until.UnixMilli()})
	if err != nil {
		panic(err) // strings always encode
	}
	return base64.RawURLEncoding.EncodeToString(b) + "." + base64.RawURLEncoding.EncodeToString(n.mac(b))
}

func (n *nonces) mac(b []byte) []byte {
	m := hmac.New(sha256.New, n.key[:])
	m.Write(b)
	return m.Sum(nil)
}

// check judges a dispatch and returns the receipt of the model call behind it.
func (n *nonces) check(run, tool, id, token string, args []byte) (status, receipt string) {
	if id == "" || (n.marked && token == "") {
		return nonceMissing, ""
	}
	now := n.clock()
	if token != "" {
		head, tail, ok := strings.Cut(token, ".")
		b, err1 := base64.RawURLEncoding.DecodeString(head)
		sig, err2 := base64.RawURLEncoding.DecodeString(tail)
		var p payload
		if !ok || len(token) > 4096 || err1 != nil || err2 != nil || json.Unmarshal(b, &p) != nil {
			return nonceMalformed, ""
		}
		if !hmac.Equal(sig, n.mac(b)) || p.Run != run || p.Call != id || p.Tool != tool || p.Args != hashArgs(args) {
			return nonceMismatch, ""
		}
		if now.UnixMilli() > p.Till {
			return nonceExpired, ""
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.calls[id]
	switch {
	case e == nil, e.tool != tool, e.args != hashArgs(args):
		return nonceMismatch, ""
	case e.used:
		return nonceReplayed, ""
	case now.After(e.until):
		return nonceExpired, ""
	}
	e.used = true
	return nonceValid, e.receipt
}

// marks mints the marks of calls as a JSON object, `{"tool_nonces":{…}}`; nil if none has an id.
func (n *nonces) marks(run string, calls []ToolCall) []byte {
	until := n.clock().Add(nonceTTL)
	tokens := map[string]string{}
	for _, c := range calls {
		if c.ID != "" {
			tokens[c.ID] = n.mint(run, c, until)
		}
	}
	if len(tokens) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"tool_nonces": tokens})
	if err != nil {
		panic(err) // strings always encode
	}
	return b
}

// mark adds the marks of a reply's calls to its JSON object, under field.
func (n *nonces) mark(run, field string, reply []byte, calls []ToolCall) []byte {
	end := len(reply)
	for end > 0 && reply[end-1] != '}' {
		end--
	}
	marks := n.marks(run, calls)
	if end < 2 || marks == nil {
		return reply
	}
	out := append([]byte(nil), reply[:end-1]...)
	out = append(out, ',')
	out = appendText(out, field)
	out = append(out, ':')
	out = append(out, marks...)
	return append(append(out, '}'), reply[end:]...)
}

// markStream adds the marks to the end of a stream: an event of their own, a
// chunk without choices, before that of [DONE] where there is one.
func (n *nonces) markStream(run, field, model string, last []byte, calls []ToolCall) []byte {
	marks := n.marks(run, calls)
	if marks == nil {
		return last
	}
	e := append([]byte(nil), `data: {"object":"chat.completion.chunk","id":"","created":0,"model":`...)
	e = appendText(e, model)
	e = append(e, `,"choices":[],`...)
	e = appendText(e, field)
	e = append(e, ':')
	e = append(e, marks...)
	e = append(e, "}\n\n"...)
	at := doneLine(last)
	if at < 0 {
		at = len(last)
		e = append([]byte("\n\n"), e...) // the last event may lack its end
	}
	return slices.Concat(last[:at], e, last[at:])
}

// doneLine finds the line of [DONE]; -1 if there is none.
func doneLine(b []byte) int {
	for at := 0; at < len(b); {
		end := bytes.IndexAny(b[at:], "\r\n")
		line := b[at:]
		if end >= 0 {
			line = b[at : at+end]
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && string(bytes.TrimSpace(data)) == "[DONE]" {
			return at
		}
		if end < 0 {
			break
		}
		at += end + 1
	}
	return -1
}

// Prefixes of the ids that the gateway gives to calls that came without one.
const (
	idNative = "native_0_"
	idText   = "xml_0_"
)

// gatewayID reports whether an id is one that the gateway gave: every reply starts counting anew.
func gatewayID(id string) bool {
	return strings.HasPrefix(id, idNative) || strings.HasPrefix(id, idText)
}

// asked returns the calls that a model's message asks for. Where replies are
// marked, calls without an id and calls written as text get ids.
func (s *session) asked(m *Message) []ToolCall {
	if s.policy.NonceField == "" {
		return m.ToolCalls
	}
	calls := slices.Clone(m.ToolCalls)
	for i := range calls {
		if calls[i].ID == "" {
			calls[i].ID = fmt.Sprintf("%s%d", idNative, i)
		}
	}
	if len(calls) == 0 {
		calls = TextCalls(m.Content)
	}
	return calls
}

// TextCalls returns the calls that a model wrote into its text, between
// <tool_call> and </tool_call>: an object or a list of them, with name and
// parameters (or arguments). Blocks that are not JSON are skipped. The ids are
// those of the order, the arguments the bytes that the model wrote.
func TextCalls(text string) []ToolCall {
	const open, shut = "<tool_call>", "</tool_call>"
	var out []ToolCall
	for len(out) < maxToolCalls {
		_, rest, ok := strings.Cut(text, open)
		if !ok {
			break
		}
		block, after, _ := strings.Cut(rest, shut)
		text = after
		type call struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
			Arguments  json.RawMessage `json:"arguments"`
		}
		var list []call
		if json.Unmarshal([]byte(block), &list) != nil {
			var one call
			if json.Unmarshal([]byte(block), &one) != nil {
				continue
			}
			list = []call{one}
		}
		for _, c := range list {
			args := c.Parameters
			if args == nil {
				args = c.Arguments
			}
			if c.Name == "" || len(out) == maxToolCalls {
				continue
			}
			out = append(out, ToolCall{ID: fmt.Sprintf("%s%d", idText, len(out)), Name: c.Name, Arguments: string(args)})
		}
	}
	return out
}
