package environment

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agon-arena/agon"
)

// Runner plays whole episodes of an agent that owns its loop: it runs in its box,
// its calls of a model reach the trainer's by way of the gateway, and the kind's own
// scorer judges what it did. Safe for concurrent use.
type Runner interface {
	// Run plays one. An error says nothing of the policy: a trainer leaves the
	// episode out. A failure of the agent is a Run of reward 0.
	Run(ctx context.Context, q Ask) (*Run, error)
}

// Ask is what a trainer asks of a Runner.
type Ask struct {
	Task string // one of the environment's
	Seed int64  // of the run; 0: as the arena derives it
	// Client is the trainer's model: a server of OpenAI's chat completions.
	Client Client
	// Sampling is written into each call (trainer.SamplingFields).
	Sampling map[string]float64
}

// Client is where a trainer's model answers.
type Client struct {
	URL   string `json:"base_url"` // up to and without /chat/completions
	Key   string `json:"api_key"`  // sent to it only
	Model string `json:"model"`    // its name there
}

// Run is how an episode went.
type Run struct {
	ID      string      `json:"run"`
	Task    string      `json:"task"`
	Seed    int64       `json:"seed"`
	Reward  float64     `json:"reward"` // the scorer's value, 0 to 1
	Solved  bool        `json:"solved"`
	Fault   agon.Fault  `json:"fault"` // "agent": it failed, and has reward 0
	Outcome string      `json:"outcome"`
	Detail  string      `json:"detail,omitempty"`
	Driver  agon.Driver `json:"driver"`
	MS      int64       `json:"ms"`     // of the whole
	BoxMS   int64       `json:"box_ms"` // in boxes
	Trace   Trace       `json:"trace"`
	// Samples are the calls as sequences to train on.
	Samples []Sample `json:"samples"`
	// Missing names what the trainer's server did not tell of a call; such a call is in no sample.
	Missing []Missing `json:"missing"`
}

// Trace is the calls of a run in OpenEnv's form of training captures.
type Trace struct {
	Version int    `json:"schema_version"`
	Turns   []Turn `json:"turns"`
}

// Turn is one call that the model answered.
type Turn struct {
	Node       string    `json:"node_id"`
	Prompt     []int64   `json:"prompt_token_ids"`
	Completion []int64   `json:"completion_token_ids"`
	Logprobs   []float64 `json:"per_token_logps"`
	Mask       []int     `json:"loss_mask"` // of prompt and completion: 1 where the model spoke
	// Request is what its server got but for the fields of Ask, Response the message
	// that it answered. Both are null in turns beyond MaxTexts.
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
	Meta     TurnMeta        `json:"metadata"`
}

// TurnMeta is what else is known of a turn.
type TurnMeta struct {
	// Parent is the turn that this one goes on from: its request begins with that
	// one's and its answer. "": it begins a conversation.
	Parent string `json:"parent,omitempty"`
	Finish string `json:"finish_reason,omitempty"`
	Cut    bool   `json:"cut,omitempty"` // its texts were left out
}

// Sample is a sequence: calls that go on from each other token by token are one.
type Sample struct {
	Turns    []string  `json:"turns"`
	IDs      []int64   `json:"token_ids"`
	Mask     []int     `json:"mask"`     // 1 where the model spoke
	Logprobs []float64 `json:"logprobs"` // 0 where it did not
}

// Missing says what is not known of a turn's tokens.
type Missing struct {
	Turn string `json:"turn"`
	What string `json:"what"`
}

// MaxTexts bounds the requests and responses of a run that are told, in bytes.
const MaxTexts = 16 << 20

// Complete fills what follows from the turns' tokens and texts: masks, parents,
// samples and what is missing.
func (r *Run) Complete() {
	r.Trace.Version, r.Samples, r.Missing = 1, []Sample{}, []Missing{}
	if r.Trace.Turns == nil {
		r.Trace.Turns = []Turn{}
	}
	said := make([][]json.RawMessage, len(r.Trace.Turns)) // messages of each turn with its answer
	size := 0
	for i := range r.Trace.Turns {
		t := &r.Trace.Turns[i]
		var q struct {
			Messages []json.RawMessage `json:"messages"`
		}
		_ = json.Unmarshal(t.Request, &q) // what cannot be read goes on from nothing
		for j := i - 1; j >= 0 && t.Meta.Parent == ""; j-- {
			if n := len(said[j]); n > 1 && n <= len(q.Messages) && goesOn(said[j], q.Messages) {
				t.Meta.Parent = r.Trace.Turns[j].Node
			}
		}
		said[i] = append(slices.Clone(q.Messages), t.Response)
		if size += len(t.Request) + len(t.Response); size > MaxTexts {
			t.Request, t.Response, t.Meta.Cut = nil, nil, true
		}
		r.sample(t)
	}
}

// goesOn tells whether messages begin with those of an earlier call. Its answer, the
// last of said, is compared by its role only: agents write it down in words of their own.
func goesOn(said, messages []json.RawMessage) bool {
	n := len(said) - 1
	for i := range n {
		if string(said[i]) != string(messages[i]) {
			return false
		}
	}
	var m struct {
		Role string `json:"role"`
	}
	return json.Unmarshal(messages[n], &m) == nil && m.Role == "assistant"
}

// sample adds a turn to the sequence that it goes on from, or begins one.
func (r *Run) sample(t *Turn) {
	what := ""
	switch {
	case len(t.Prompt) == 0:
		what = "prompt_token_ids"
	case len(t.Completion) == 0:
		what = "completion_token_ids"
	case len(t.Logprobs) != len(t.Completion):
		what = "per_token_logps"
	}
	if what != "" {
		r.Missing = append(r.Missing, Missing{t.Node, what})
		t.Prompt, t.Completion, t.Logprobs, t.Mask = []int64{}, []int64{}, []float64{}, []int{}
		return
	}
	t.Mask = append(make([]int, len(t.Prompt)), ones(len(t.Completion))...)
	at := -1
	for i, s := range r.Samples {
		if len(s.IDs) <= len(t.Prompt) && slices.Equal(s.IDs, t.Prompt[:len(s.IDs)]) {
			at = i // the latest
		}
	}
	if at < 0 {
		r.Samples = append(r.Samples, Sample{})
		at = len(r.Samples) - 1
	}
	s := &r.Samples[at]
	more := t.Prompt[len(s.IDs):]
	s.Turns = append(s.Turns, t.Node)
	s.IDs = append(append(s.IDs, more...), t.Completion...)
	s.Mask = append(append(s.Mask, make([]int, len(more))...), ones(len(t.Completion))...)
	s.Logprobs = append(append(s.Logprobs, make([]float64, len(more))...), t.Logprobs...)
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}
