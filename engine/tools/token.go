package tools

import (
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/agon-arena/agon/internal/plain"
)

const (
	// maxCounted is the text, in bytes, that is tokenized at most; countPiece
	// bounds one run, whose time grows with the square of a word's length.
	maxCounted = 256 << 10
	countPiece = 2048
)

var vocabulary = sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(tokenizer.O200kBase) })

// countTokens bounds the tokens of a prompt from above: counted by the
// vocabulary of the seed's models with a quarter on top, never more than its bytes.
func countTokens(text []byte) int64 {
	if len(text) > maxCounted {
		return int64(len(text))
	}
	enc, err := vocabulary()
	if err != nil {
		return int64(len(text))
	}
	total := 0
	for rest := string(text); rest != ""; {
		piece := plain.Head(rest, countPiece)
		if piece == "" {
			return int64(len(text))
		}
		n, err := enc.Count(piece)
		if err != nil {
			n = len(piece)
		}
		total += n
		rest = rest[len(piece):]
	}
	return min(int64(total)+int64(total)/4, int64(len(text)))
}
