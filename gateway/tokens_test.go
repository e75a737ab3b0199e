package gateway

import (
	"encoding/json"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
)

// Ids and log-probabilities that an upstream gives stand in the event of the call, of a
// whole reply and of a stream, and the client gets the provider's own bytes.
func TestTokens(t *testing.T) {
	const whole = `{"choices":[{"message":{"role":"assistant","content":"hi you"},"finish_reason":"stop","token_ids":[7,8],"logprobs":{"content":[{"token":"hi","logprob":-0.5,"top_logprobs":[]},{"token":" you","logprob":-1e-3}]}}],"prompt_token_ids":[1,2,3],"usage":{"prompt_tokens":10,"completion_tokens":5}}`
	events := []string{
		`data: {"prompt_token_ids":[1,2,3],"choices":[{"delta":{"role":"assistant","content":"hi"},"token_ids":[7],"logprobs":{"content":[{"logprob":-0.5}]}}]}` + "\n\n",
		`data: {"choices":[{"delta":{"content":" you"},"token_ids":[8],"logprobs":{"content":[{"logprob":-0.001}]}}]}` + "\n\n",
		`data: {"choices":[{"delta":{},"finish_reason":"stop","logprobs":null}]}` + "\n\n", usageChunk, doneChunk,
	}
	for _, stream := range []bool{false, true} {
		h, ask := says(whole), `{"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true,"return_token_ids":true,"max_tokens":9}`
		if stream {
			h, ask = streams(false, events...), `{"stream":true,`+ask[1:]
		}
		g := start(t, Config{Upstreams: []provider.Upstream{upstream(t, h)}})
		var l log
		s := open(t, g, policy("m"), &l)
		got := post(t, s, chatPath, ask)
		if got.status != 200 || !stream && got.body != whole {
			t.Fatalf("%d %s", got.status, got.body)
		}
		evs := l.of(agon.EventModel)
		if len(evs) != 1 {
			t.Fatalf("%d events", len(evs))
		}
		b, _ := json.Marshal(evs[0].(ModelCall).Tokens)
		if string(b) != `{"prompt_ids":[1,2,3],"completion_ids":[7,8],"logprobs":[-0.5,-0.001]}` {
			t.Errorf("stream %v: %s", stream, b)
		}
	}
	for in, want := range map[string]int{`[1,2]`: 2, `[1,"2"]`: 0, `{}`: 0, `[1.5]`: 0, `null`: 0} {
		if n := len(ids([]byte(in))); n != want {
			t.Errorf("%s: %d", in, n)
		}
	}
	for in, want := range map[string]int{`{"content":[{"logprob":-1}]}`: 1, `{"content":[{}]}`: 0, `null`: 0, `{"content":null}`: 0, `{"content":[{"logprob":1e999}]}`: 0} {
		if n := len(probs([]byte(in))); n != want {
			t.Errorf("%s: %d", in, n)
		}
	}
}

// A stream of more tokens than are kept leaves none of its answer, never a part.
func TestTokensOfALongStream(t *testing.T) {
	for _, chunk := range []wireChoice{{IDs: make([]int64, 1000), Probs: make([]float64, 1000)}, {Probs: make([]float64, 999)}} {
		var got Tokens
		w := wireReply{Tokens: []int64{1}, Choices: []wireChoice{chunk}}
		n := maxTokens / len(chunk.Probs)
		for range n {
			w.tokens(&got)
		}
		if len(got.Logprobs) != n*len(chunk.Probs) || len(got.Completion) != n*len(chunk.IDs) {
			t.Fatalf("%d and %d within the limit", len(got.Completion), len(got.Logprobs))
		}
		w.tokens(&got)
		w.Choices = []wireChoice{{IDs: []int64{7}, Probs: []float64{-1}}}
		w.tokens(&got)
		if len(got.Completion)+len(got.Logprobs) != 0 || len(got.Prompt) != 1 {
			t.Errorf("%d ids and %d log-probabilities beyond it", len(got.Completion), len(got.Logprobs))
		}
	}
}
