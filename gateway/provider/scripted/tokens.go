package scripted

import "encoding/binary"

// probs are log-probabilities in OpenAI's form.
type probs struct {
	Content []prob `json:"content"`
}

type prob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
}

// tokens are the ids of a text's tokens. A script has no tokenizer: a token is
// four bytes and its id their number, one more for the end of the turn, as usage counts.
func tokens(s string) []int64 {
	out := make([]int64, 0, len(s)/4+1)
	for ; len(s) >= 4; s = s[4:] {
		out = append(out, int64(binary.BigEndian.Uint32([]byte(s))))
	}
	var rest [4]byte
	copy(rest[:], s)
	return append(out, int64(binary.BigEndian.Uint32(rest[:])))
}

// certain is what a script makes of its own text: it never says anything else, so
// each token's probability is 1.
func certain(s string) *probs {
	out := &probs{}
	for ; len(s) >= 4; s = s[4:] {
		out.Content = append(out.Content, prob{Token: s[:4]})
	}
	out.Content = append(out.Content, prob{Token: s})
	return out
}
