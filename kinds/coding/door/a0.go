// Package door is how agents of the coding arena reach models besides OpenAI's
// routes: the proxies of Ridges as the agents of its eras know them.
package door

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
)

// A0 is the name of the dialect: POST /agents/inference and POST /agents/embedding.
const A0 = "ridges-a0"

// What a request that says nothing gets (spec/ridges.md 3.1).
const (
	temperature = "0.7"
	maxTokens   = 1024
	preferred   = "deepseek-ai/DeepSeek-V3-0324"
)

// Dialects are those that the coding arena brings to a gateway.
func Dialects() []gateway.Dialect {
	return []gateway.Dialect{{Name: A0, Routes: map[string]gateway.Route{
		"POST /agents/inference": {Path: "/agents/inference", Parse: inference, Prefer: preferred, Reply: text, Refuse: sentence},
		"POST /agents/embedding": {Path: "/agents/embedding", Parse: embedding, Reply: vectors, Refuse: sentence},
	}}, dialectB(), dialectC()}
}

// body is a request in this dialect: its members by name.
type body map[string]json.RawMessage

func read(raw []byte) (body, error) {
	var b body
	if json.Unmarshal(raw, &b) != nil || b == nil {
		return nil, gateway.BadField("", "body is not a JSON object")
	}
	return b, nil
}

// run is the run that the agent says it plays. The dialect demands one; it
// identifies nothing.
func (b body) run() (string, error) {
	id := ""
	for _, name := range []string{"run_id", "evaluation_run_id"} {
		raw, ok := b[name]
		if !ok {
			continue
		}
		var s *string
		if json.Unmarshal(raw, &s) != nil || s == nil {
			return "", gateway.BadField(name, "want a string")
		}
		id = plain.Head(*s, 200)
	}
	if id == "" {
		return "", gateway.BadField("run_id", "missing")
	}
	return id, nil
}

// only is an OpenAI request of these members: what else an agent sends is dropped.
func (b body) only(names ...string) []byte {
	out := []byte{'{'}
	for _, n := range names {
		if v, ok := b[n]; ok {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(append(append(out, '"'), n...), `":`...), v...)
		}
	}
	return append(out, '}')
}

// temperature is the agent's, or the dialect's where it names none.
func (b body) temperature() (json.RawMessage, error) {
	v, ok := b["temperature"]
	if !ok || string(v) == "null" {
		return json.RawMessage(temperature), nil
	}
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return nil, gateway.BadField("temperature", "want a number")
	}
	return v, nil
}

// inference translates a chat. The output limit is the dialect's; sampling but
// for the temperature is not in it.
func inference(raw []byte, rules gateway.FieldRules) (*gateway.Request, error) {
	b, err := read(raw)
	if err != nil {
		return nil, err
	}
	run, err := b.run()
	if err != nil {
		return nil, err
	}
	warmth, err := b.temperature()
	if err != nil {
		return nil, err
	}
	q, err := gateway.ParseChat(b.only("model", "messages"), rules)
	if err != nil {
		return nil, err
	}
	q.Set("temperature", warmth)
	q.Limit, q.Claim = maxTokens, run
	return q, nil
}

// embedding translates a request for embeddings.
func embedding(raw []byte, rules gateway.FieldRules) (*gateway.Request, error) {
	b, err := read(raw)
	if err != nil {
		return nil, err
	}
	run, err := b.run()
	if err != nil {
		return nil, err
	}
	if _, err := b.temperature(); err != nil {
		return nil, err
	}
	q, err := gateway.ParseEmbedding(b.only("model", "input"), rules)
	if err != nil {
		return nil, err
	}
	q.Claim = run
	return q, nil
}

// text is a chat's answer: the message's text as a JSON string.
func text(r gateway.Reply) ([]byte, bool) {
	if r.Message == nil {
		return nil, false
	}
	b, err := json.Marshal(r.Message.Content)
	return b, err == nil
}

// vectors is an embedding's answer: a list of vectors, as the provider wrote them.
func vectors(r gateway.Reply) ([]byte, bool) {
	out := []byte{'['}
	for i, v := range r.Embeddings {
		if i > 0 {
			out = append(out, ',')
		}
		if len(v) == 0 {
			return nil, false
		}
		out = append(out, v...)
	}
	return append(out, ']'), len(r.Embeddings) > 0
}

// sentence is how this dialect refuses: what concerns models is a sentence with
// status 200, which agents read as the model's answer.
func sentence(r gateway.Refusal) (status int, body any) {
	switch r.Code {
	case gateway.CodeModel:
		if r.Model == "" {
			return http.StatusOK, "Error: no model is offered here."
		}
		return http.StatusOK, fmt.Sprintf("Error: the model %q is not supported here.", r.Model)
	case gateway.CodeBudget:
		return http.StatusOK, fmt.Sprintf("Error: the budget of this run is used up: its %s does not carry this call.", r.Lacks)
	case gateway.CodeUpstream:
		return http.StatusOK, "Error: the model's provider did not answer this call."
	case gateway.CodeRefused:
		return http.StatusOK, "Error: the model's provider refused this request as malformed."
	}
	status = r.Status
	if status == http.StatusBadRequest {
		status = http.StatusUnprocessableEntity // the dialect's word for a body of the wrong shape
	}
	return status, map[string]string{"detail": r.Message}
}
