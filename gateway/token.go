package gateway

import (
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/agon-arena/agon/internal/plain"
)

// Limits of counting.
const (
	// maxCounted is the text, in bytes, that is tokenized at most (some 60 ms).
	maxCounted = 512 << 10
	// countPiece bounds one run of the tokenizer, whose time grows with the
	// square of a word's length. Each cut adds at most a few tokens.
	countPiece = 2048
	// perMessage is what a chat template adds to a message at most, in tokens.
	perMessage = 16
)

// vocabulary is loaded when the first text is counted: it takes memory that an idle process should not hold.
var vocabulary = sync.OnceValues(func() (tokenizer.Codec, error) {
	return tokenizer.Get(tokenizer.O200kBase)
})

// countTokens counts text in tokens of o200k_base; for more than maxCounted
// bytes, or where the tokenizer gives up, it returns the number of bytes,
// which no tokenizer of bytes exceeds.
func countTokens(text string) int64 {
	if len(text) > maxCounted {
		return int64(len(text))
	}
	enc, err := vocabulary()
	if err != nil {
		return int64(len(text))
	}
	total := int64(0)
	for text != "" {
		piece := plain.Head(text, countPiece)
		if piece == "" { // no start of a rune within a piece: not text
			piece = text[:countPiece]
		}
		n, err := enc.Count(piece)
		if err != nil {
			n = len(piece)
		}
		total += int64(n)
		text = text[len(piece):]
	}
	return total
}

// roughPrompt bounds a prompt from above without counting: a token is at least a byte.
func (q *Request) roughPrompt() int64 {
	return int64(len(q.prompt())) + int64(q.texts)*perMessage
}

// countedPrompt is a closer bound: counted, with a quarter on top for models
// that cut text finer than o200k_base does. It is never above roughPrompt.
func (q *Request) countedPrompt() int64 {
	n := countTokens(string(q.prompt()))
	return min(n+n/4+int64(q.texts)*perMessage, q.roughPrompt())
}

// impossible reports whether a provider's usage cannot be: no tokens for a
// prompt, or for text that the model wrote. It is worth no more than none.
func (c *call) impossible(u usage, m *Message) bool {
	return (u.prompt == 0 && len(c.q.prompt()) > 0) || (u.completion == 0 && m.bytes() > 0)
}

const (
	// thinToken is more bytes of text than the tokens of a real one have on
	// average: a provider that counts fewer is looked at closely.
	thinToken = 16
	// offBy is how far a provider's count may be below ours: vocabularies differ.
	offBy = 4
)

// doubt holds a provider's usage, which is what is booked, against the text of
// the call: by its bytes, and with the tokenizer where these look odd. It
// returns what does not fit, or "". Hidden reasoning bounds no completion from above.
func (c *call) doubt(u usage, m *Message) string {
	if most := c.q.roughPrompt(); u.prompt > most {
		return fmt.Sprintf("the provider counts %d prompt tokens, the prompt has at most %d", u.prompt, most)
	}
	if u.prompt < int64(len(c.q.prompt()))/thinToken {
		if n := countTokens(string(c.q.prompt())); u.prompt < n/offBy {
			return fmt.Sprintf("the provider counts %d prompt tokens, the tokenizer %d", u.prompt, n)
		}
	}
	if u.completion < m.bytes()/thinToken {
		if n := m.tokens(); u.completion < n/offBy {
			return fmt.Sprintf("the provider counts %d completion tokens, the tokenizer %d", u.completion, n)
		}
	}
	return ""
}

// bytes is the length of what the model wrote; nil wrote nothing.
func (m *Message) bytes() int64 {
	if m == nil {
		return 0
	}
	n := len(m.Content) + len(m.Reasoning)
	for _, t := range m.ToolCalls {
		n += len(t.Name) + len(t.Arguments)
	}
	return int64(n)
}
