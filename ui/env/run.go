package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/environment"
)

// defaultDeadline bounds a run where Server.Whole does not.
const defaultDeadline = time.Hour

// run plays a whole episode of an agent that owns its loop: NeMo Gym's /run, with
// the trainer's model in "client" and every call's tokens in the answer.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	raw := map[string]json.RawMessage{}
	if err := read(w, r, &raw); err != nil {
		s.refuse(w, err)
		return
	}
	q, err := s.ask(raw)
	if err != nil {
		s.refuse(w, err)
		return
	}
	whole := s.Whole
	if whole <= 0 {
		whole = defaultDeadline
	}
	ctx, cancel := context.WithTimeout(r.Context(), whole)
	defer cancel()
	got, err := s.Runner.Run(ctx, q)
	switch {
	case r.Context().Err() != nil: // nobody waits for an answer
		return
	case errors.Is(err, context.DeadlineExceeded):
		err = &agon.Error{Code: "deadline", Status: 504, Limit: whole.String(), Message: fmt.Sprintf("the run was ended after %s", whole), Mend: "leave the episode out, or serve with --deadline"}
	case errors.Is(err, context.Canceled):
		err = &agon.Error{Code: "shutting_down", Status: 503, Message: "the server is stopping"}
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	b, err := json.Marshal(got)
	var own map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(b, &own)
	}
	if err == nil {
		own["response"], err = json.Marshal(responseOf(got, q.Client.Model))
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	delete(raw, "client") // it holds a key
	for k, v := range own {
		raw[k] = v
	}
	write(w, http.StatusOK, raw)
}

// ask reads what is to be played. Sampling that is not told as such is what NeMo Gym's
// responses_create_params say of it.
func (s *Server) ask(raw map[string]json.RawMessage) (q environment.Ask, err error) {
	if s.Runner == nil {
		return q, &agon.Error{Code: "no_agent", Status: 422, Message: "this server has no agent to run", Mend: "serve with --agent FILE"}
	}
	var p struct {
		pick
		Meta     pick               `json:"verifier_metadata"`
		Client   environment.Client `json:"client"`
		Sampling map[string]float64 `json:"sampling"`
		Params   struct {
			Temperature *float64 `json:"temperature"`
			TopP        *float64 `json:"top_p"`
			Limit       *float64 `json:"max_output_tokens"`
		} `json:"responses_create_params"`
	}
	b, err := json.Marshal(raw)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return q, &agon.Error{Code: "bad_body", Status: 422, Field: "body", Message: "the body is not the JSON that is wanted: " + err.Error()}
	}
	want := p.pick
	if want.Task == "" && want.Index == nil {
		want = p.Meta
		if want.Seed == 0 {
			want.Seed = p.Seed
		}
	}
	if q.Task, err = s.key(want); err != nil {
		return q, err
	}
	if _, err := s.Sessions.Task(q.Task); err != nil {
		return q, err
	}
	q.Seed, q.Client, q.Sampling = want.Seed, p.Client, p.Sampling
	if q.Sampling == nil {
		q.Sampling = map[string]float64{}
		for name, v := range map[string]*float64{"temperature": p.Params.Temperature, "top_p": p.Params.TopP, "max_tokens": p.Params.Limit} {
			if v != nil {
				q.Sampling[name] = *v
			}
		}
	}
	return q, nil
}

// item is an item of a response's output; the last of each call has its tokens, as NeMo Gym's trainers read them.
type item map[string]any

// responseOf is a run as one response of OpenAI's form: what the model said in each
// call, and between two that go on from each other what it was told.
func responseOf(r *environment.Run, model string) map[string]any {
	out := []item{}
	at := map[string]int{} // messages of each turn
	for i, t := range r.Trace.Turns {
		var q struct {
			Messages []message `json:"messages"`
		}
		_ = json.Unmarshal(t.Request, &q) // where it was left out nothing stands between
		at[t.Node] = len(q.Messages)
		if p, ok := at[t.Meta.Parent]; ok && p+1 <= len(q.Messages) {
			for _, m := range q.Messages[p+1:] {
				out = append(out, m.told())
			}
		}
		var m message
		_ = json.Unmarshal(t.Response, &m)
		said := m.said(fmt.Sprintf("%s_%d", r.ID, i))
		if len(t.Completion) > 0 {
			last := said[len(said)-1]
			last["prompt_token_ids"], last["generation_token_ids"], last["generation_log_probs"] = t.Prompt, t.Completion, t.Logprobs
		}
		out = append(out, said...)
	}
	return map[string]any{
		"id": r.ID, "object": "response", "created_at": 0, "model": model, "output": out,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
	}
}

// message is a chat message.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Call    string          `json:"tool_call_id"`
	Calls   []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// text is a message's content where it is text; else its JSON.
func (m message) text() string {
	var s string
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	return string(m.Content)
}

func (m message) told() item {
	if m.Role == "tool" {
		return item{"type": "function_call_output", "call_id": m.Call, "output": m.text()}
	}
	return item{"type": "message", "role": m.Role, "content": m.text()}
}

func (m message) said(id string) []item {
	var out []item
	if s := m.text(); s != "" || len(m.Calls) == 0 {
		out = append(out, item{"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed", "content": []item{{"type": "output_text", "text": s, "annotations": []any{}}}})
	}
	for i, c := range m.Calls {
		out = append(out, item{"type": "function_call", "id": fmt.Sprintf("fc_%s_%d", id, i), "call_id": c.ID, "name": c.Function.Name, "arguments": c.Function.Arguments, "status": "completed"})
	}
	return out
}
