// Package trainer is an upstream in front of a trainer's own model: each chat
// call that passes asks for the ids and log-probabilities of its tokens, and is
// sampled as the trainer says, whatever the agent asked for.
package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon/gateway/provider"
)

// Name is the model's name at the gateway. The trainer's own name for it is told
// to its server only, so that no model of a judge can be mistaken for it.
const Name = "trainer"

// SamplingFields are what a trainer may say of sampling: numbers all.
var SamplingFields = []string{"temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "max_tokens"}

// limitFields are the fields in which a call has its output limit.
var limitFields = []string{"max_tokens", "max_completion_tokens"}

// Upstream implements provider.Upstream over the trainer's server.
type Upstream struct {
	up       provider.Upstream
	model    string
	sampling map[string]float64
}

// New puts an upstream in front of up, whose model is called model there. An error
// names the field of sampling that is not one of SamplingFields.
func New(up provider.Upstream, model string, sampling map[string]float64) (*Upstream, error) {
	for k := range sampling {
		if !slices.Contains(SamplingFields, k) {
			return nil, fmt.Errorf("sampling: %.40q is not one of %s", k, strings.Join(SamplingFields, ", "))
		}
	}
	return &Upstream{up: up, model: model, sampling: sampling}, nil
}

// Name implements provider.Upstream.
func (u *Upstream) Name() string { return Name }

// Models implements provider.Upstream.
func (u *Upstream) Models() []string { return []string{Name} }

// Do implements provider.Upstream.
func (u *Upstream) Do(ctx context.Context, req provider.Request) (*provider.Reply, error) {
	body := map[string]json.RawMessage{}
	if err := json.Unmarshal(req.Body, &body); err != nil {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "the call's body is not an object"}
	}
	set := func(name string, v any) {
		b, err := json.Marshal(v)
		if err == nil { // names, truths and finite numbers only
			body[name] = b
		}
	}
	set("model", u.model)
	if req.Path == provider.PathChat {
		set("logprobs", true)
		set("return_token_ids", true)
		u.sample(body, set)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "the call's body cannot be written"}
	}
	req.Body, req.Model = b, u.model
	return u.up.Do(ctx, req)
}

// sample writes what the trainer says of sampling into a call. Its output limit
// only lowers the one that the gateway has reserved.
func (u *Upstream) sample(body map[string]json.RawMessage, set func(string, any)) {
	for k, v := range u.sampling {
		if k != "max_tokens" {
			set(k, v)
			continue
		}
		name := limitFields[0]
		for _, f := range limitFields {
			if body[f] != nil {
				name = f
			}
		}
		var own float64
		if json.Unmarshal(body[name], &own) != nil || v < own {
			set(name, v)
		}
	}
}
