package gateway

import (
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/agon-arena/agon/plain"
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
func (q *request) roughPrompt() int64 {
	return int64(len(q.fields)) + int64(q.texts)*perMessage
}

// countedPrompt is a closer bound: counted, with a quarter on top for models
// that cut text finer than o200k_base does. It is never above roughPrompt.
func (q *request) countedPrompt() int64 {
	n := countTokens(string(q.fields))
	return min(n+n/4+int64(q.texts)*perMessage, q.roughPrompt())
}
