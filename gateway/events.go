package gateway

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/agon-arena/agon"
)

// ModelCall is the data of an agon.EventModel. docs/events.md describes it.
type ModelCall struct {
	Receipt agon.Receipt `json:"receipt"`
	// Request is what the upstream got, Response what it sent, byte for byte.
	Request  Body `json:"request"`
	Response Body `json:"response"`
	// Message is what the model said, put together from the reply or the
	// stream. It is left out if it is longer than maxMessage.
	Message *Message `json:"message,omitempty"`
	Stream  bool     `json:"stream,omitempty"`
	// Tokens is what the upstream told of tokens, where the agent asked for it. It is
	// left out if it is longer than maxMessage.
	Tokens *Tokens `json:"tokens,omitempty"`
	// Form is the wire form of Request and Response where it is not OpenAI's.
	Form string `json:"form,omitempty"`
	// Error is the class of the provider's failure.
	Error string `json:"error,omitempty"`
	// Over is what the provider billed beyond the reservation, in
	// micro-dollars: the platform's loss.
	Over agon.Micros `json:"over_micros,omitempty"`
	// Doubt says where the provider's usage does not fit what was sent and said.
	Doubt string `json:"usage_doubt,omitempty"`
	// ClaimedRun is the run id in the body of an A0 call. It identifies nothing.
	ClaimedRun string `json:"claimed_run_id,omitempty"`
}

// Tokens are a call's tokens as its upstream counts them: ids of the prompt's and of
// the answer's, and the log-probability of each of the answer's.
type Tokens struct {
	Prompt     []int64   `json:"prompt_ids,omitempty"`
	Completion []int64   `json:"completion_ids,omitempty"`
	Logprobs   []float64 `json:"logprobs,omitempty"`
	over       bool      // the answer had more than maxTokens
}

// Body is the bytes of a request or reply: as Text if they are UTF-8, else in Base64.
type Body struct {
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	Bytes  int64  `json:"bytes"`         // of the whole body
	Cut    bool   `json:"cut,omitempty"` // only the beginning is kept
	// Blob names the whole body, as a zstd frame, in the gateway's blob store,
	// where it has one and held all of the body. Only what was cut is there.
	Blob agon.Digest `json:"blob,omitempty"`
}

// Refused is the data of an agon.EventRefused.
type Refused struct {
	Route   string `json:"route"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Note is the data of an agon.EventNote.
type Note struct {
	Text string `json:"text"`
}

const (
	// maxEvent bounds the data of an event, encoded: what a platform stores of one.
	maxEvent = 1 << 20
	// headEvent is kept for the receipt and the names of fields.
	headEvent = 8 << 10
	// maxMessage bounds a message in an event, encoded. A longer one is left out.
	maxMessage = 384 << 10
	// keepStream bounds what is held of a stream for its event.
	keepStream = maxEvent
	// keepSmall bounds a body, encoded, after KeepBytes of the session are used up.
	keepSmall = 4 << 10
)

// keep puts the bodies into the event so that all of it stays below maxEvent:
// the message first, since a stream is twenty times longer than what it says,
// then request and response, where the longer one gives way. It returns the
// encoded size. total is the length of the whole response.
func (m *ModelCall) keep(request, response []byte, total int64, small bool) int64 {
	if total > int64(len(response)) {
		response = wholeRunes(response)
	}
	left := maxEvent - headEvent
	size := 0
	if m.Message != nil {
		size = m.Message.encoded()
		if size > maxMessage {
			m.Message, size = nil, 0
		}
	}
	if m.Tokens != nil {
		b, err := json.Marshal(m.Tokens)
		if n := len(b); err != nil || n > maxMessage || small {
			m.Tokens = nil
		} else {
			size += n
		}
	}
	left -= size
	rq, rs := encoded(request), encoded(response)
	rsMax := max(left-rq, left/4)
	rqMax := left - min(rs, rsMax)
	if small {
		rqMax, rsMax = keepSmall, keepSmall
	}
	m.Request = bodyOf(request, int64(len(request)), rqMax)
	m.Response = bodyOf(response, total, rsMax)
	return int64(size + min(rq, rqMax) + min(rs, rsMax))
}

// bodyOf keeps the beginning of a body of total bytes, at most limit when encoded.
func bodyOf(b []byte, total int64, limit int) Body {
	out := Body{Bytes: total}
	text := utf8.Valid(b)
	if 6*len(b) > limit && encoded(b) > limit {
		n, at := 0, 0
		for at < len(b) && n+width(b[at], text) <= limit {
			n += width(b[at], text)
			at++
		}
		if text {
			for at > 0 && at < len(b) && !utf8.RuneStart(b[at]) {
				at--
			}
		}
		b = b[:at]
	}
	out.Cut = int64(len(b)) < total
	if text {
		out.Text = string(b)
	} else {
		out.Base64 = b
	}
	return out
}

// wholeRunes leaves out the piece of a rune at the end of text that was cut.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// encoded bounds the length of b in a JSON document from above.
func encoded(b []byte) int {
	if !utf8.Valid(b) {
		return 2 * len(b)
	}
	n := 0
	for _, c := range b {
		n += int(widths[c])
	}
	return n
}

// width bounds what a byte takes in a JSON string, or, if the whole is not text, in Base64.
func width(c byte, text bool) int {
	if !text {
		return 2
	}
	return int(widths[c])
}

// widths is the width of each byte of text.
var widths = func() (w [256]uint8) {
	for i := range w {
		switch c := byte(i); {
		case c == '\n', c == '\r', c == '\t', c == '"', c == '\\':
			w[i] = 2
		case c < ' ', c == '<', c == '>', c == '&':
			w[i] = 6
		case c == 0xe2: // may begin U+2028, three bytes that become six
			w[i] = 4
		default:
			w[i] = 1
		}
	}
	return w
}()

func (m *Message) encoded() int {
	n := encoded([]byte(m.Content)) + encoded([]byte(m.Reasoning)) + 200
	for _, t := range m.ToolCalls {
		n += encoded([]byte(t.ID)) + encoded([]byte(t.Name)) + encoded([]byte(t.Arguments)) + 50
	}
	return n
}

// ToolCallEvent is the data of an agon.EventTool: a call of a metered tool.
type ToolCallEvent struct {
	// Receipt names the tool in Model and its source in Provider.
	Receipt agon.Receipt `json:"receipt"`
	// Arguments is what the agent sent, Response what it got.
	Arguments json.RawMessage `json:"arguments"`
	Response  Body            `json:"response"`
	// Nonce tells whether a model asked for this call: valid, missing,
	// mismatch, expired, replayed or malformed.
	Nonce string `json:"nonce"`
	Error string `json:"error,omitempty"`
}

// Content is what is kept of the body.
func (b Body) Content() []byte {
	if b.Base64 != nil {
		return b.Base64
	}
	return []byte(b.Text)
}
