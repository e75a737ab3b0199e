package door

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
)

// Names of the newer dialects.
const (
	// B is the gateway of versions B and C: /api/inference, /api/embedding,
	// /api/usage and the lists of models.
	B = "ridges-b"
	// C is the proxy beside an agent of version C, which looks like OpenRouter: /api/v1.
	C = "ridges-c"
)

// Names lists the dialects of an agent's door, the oldest first.
func Names() []string { return []string{A0, B, C} }

func dialectB() gateway.Dialect {
	return gateway.Dialect{Name: B, Serve: serveB, Routes: map[string]gateway.Route{
		"POST /api/inference": {Path: "/api/inference", Parse: inferenceB, Reply: answerB, Refuse: detail},
		"POST /api/embedding": {Path: "/api/embedding", Parse: embeddingB, Reply: vector, Refuse: detail},
	}}
}

func dialectC() gateway.Dialect { return gateway.Dialect{Name: C, Serve: serveC} }

// detail is how both refuse: the gateway's status and one sentence.
func detail(r gateway.Refusal) (status int, body any) {
	status = r.Status
	switch r.Code {
	case gateway.CodeModel:
		status = http.StatusNotFound
	case gateway.CodeBudget:
		status = http.StatusTooManyRequests
	}
	if status == http.StatusBadRequest {
		status = http.StatusUnprocessableEntity
	}
	return status, map[string]string{"detail": r.Message}
}

// detailC is detail where a model that is not allowed is forbidden.
func detailC(r gateway.Refusal) (status int, body any) {
	status, body = detail(r)
	switch r.Code {
	case gateway.CodeModel:
		status = http.StatusForbidden
	case gateway.CodeUpstream, gateway.CodeRefused:
		status = r.Status
	}
	return status, body
}

// toolB is a tool as version B describes it.
type toolB struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  []struct {
		Type        string `json:"type"`
		Name        string `json:"name"`
		Description string `json:"description"`
		Required    bool   `json:"required"`
	} `json:"parameters"`
}

// maxTools bounds the tools of a call, and the parameters of a tool.
const maxTools = 128

// inferenceB translates a chat of version B.
func inferenceB(raw []byte, rules gateway.FieldRules) (*gateway.Request, error) {
	b, err := read(raw)
	if err != nil {
		return nil, err
	}
	run, err := b.run()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"model", "temperature", "messages"} {
		if v, ok := b[name]; !ok || string(v) == "null" {
			return nil, gateway.BadField(name, "missing")
		}
	}
	warmth, err := b.temperature()
	if err != nil {
		return nil, err
	}
	mode := "none"
	if v, ok := b["tool_mode"]; ok && string(v) != "null" {
		if json.Unmarshal(v, &mode) != nil || !slices.Contains([]string{"none", "auto", "required"}, mode) {
			return nil, gateway.BadField("tool_mode", "want none, auto or required")
		}
	}
	var tools []toolB
	if v, ok := b["tools"]; ok && string(v) != "null" {
		if json.Unmarshal(v, &tools) != nil || len(tools) > maxTools {
			return nil, gateway.BadField("tools", "want a list of at most %d tools", maxTools)
		}
	}
	switch {
	case mode == "none" && len(tools) > 0:
		return nil, gateway.BadField("tools", "tool_mode is none")
	case mode == "required" && len(tools) == 0:
		return nil, gateway.BadField("tools", "tool_mode is required, and there are none")
	}
	chat := body{"model": b["model"], "messages": b["messages"]}
	names := []string{"model", "messages"}
	if len(tools) > 0 {
		list := []any{}
		for _, t := range tools {
			if t.Name == "" || len(t.Parameters) > maxTools {
				return nil, gateway.BadField("tools", "a tool has a name and at most %d parameters", maxTools)
			}
			properties, required := map[string]any{}, []string{}
			for _, p := range t.Parameters {
				properties[p.Name] = map[string]string{"type": p.Type, "description": p.Description}
				if p.Required {
					required = append(required, p.Name)
				}
			}
			list = append(list, map[string]any{"type": "function", "function": map[string]any{
				"name": t.Name, "description": t.Description, "parameters": map[string]any{"type": "object", "properties": properties, "required": required},
			}})
		}
		if chat["tools"], err = json.Marshal(list); err != nil {
			return nil, err
		}
		chat["tool_choice"] = json.RawMessage(`"` + mode + `"`)
		names = append(names, "tools", "tool_choice")
	}
	q, err := gateway.ParseChat(chat.only(names...), rules)
	if err != nil {
		return nil, err
	}
	q.Set("temperature", warmth)
	q.Claim = run
	return q, nil
}

// answerB is a chat's answer in version B.
func answerB(r gateway.Reply) ([]byte, bool) {
	if r.Message == nil {
		return nil, false
	}
	type argument struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	}
	type call struct {
		Name      string     `json:"name"`
		Arguments []argument `json:"arguments"`
	}
	calls := []call{}
	for _, t := range r.Message.ToolCalls {
		c := call{t.Name, []argument{}}
		d := json.NewDecoder(strings.NewReader(t.Arguments)) // in the order in which the model wrote them
		if open, err := d.Token(); err == nil && open == json.Delim('{') {
			for d.More() {
				name, err := d.Token()
				var v json.RawMessage
				if err != nil || d.Decode(&v) != nil {
					break
				}
				if n, ok := name.(string); ok {
					c.Arguments = append(c.Arguments, argument{n, v})
				}
			}
		}
		calls = append(calls, c)
	}
	out, err := json.Marshal(map[string]any{"content": r.Message.Content, "tool_calls": calls})
	return out, err == nil
}

// embeddingB translates a request for one vector.
func embeddingB(raw []byte, rules gateway.FieldRules) (*gateway.Request, error) {
	b, err := read(raw)
	if err != nil {
		return nil, err
	}
	run, err := b.run()
	if err != nil {
		return nil, err
	}
	var text *string
	if json.Unmarshal(b["input"], &text) != nil || text == nil {
		return nil, gateway.BadField("input", "want a text")
	}
	q, err := gateway.ParseEmbedding(b.only("model", "input"), rules)
	if err != nil {
		return nil, err
	}
	q.Claim = run
	return q, nil
}

// vector is the answer to one text.
func vector(r gateway.Reply) ([]byte, bool) {
	if len(r.Embeddings) != 1 || len(r.Embeddings[0]) == 0 {
		return nil, false
	}
	out, err := json.Marshal(map[string]json.RawMessage{"embedding": r.Embeddings[0]})
	return out, err == nil
}

func answer(x *gateway.Exchange, status int, v any) bool {
	b, err := json.Marshal(v)
	if err != nil {
		return false
	}
	x.W.Header().Set("Content-Type", "application/json")
	x.W.WriteHeader(status)
	_, _ = x.W.Write(b)
	return true
}

// usd writes micro-dollars as dollars.
func usd[T ~int64](n T) float64 { return float64(n) / 1e6 }

// serveB answers what is not a call of a model. The run that a query names
// identifies nothing: the door does.
func serveB(x *gateway.Exchange) bool {
	if x.R.Method != http.MethodGet {
		return false
	}
	switch x.R.URL.Path {
	case "/api/usage":
		spent, left := x.Balance()
		return answer(x, http.StatusOK, map[string]float64{"used_cost_usd": usd(spent.Micros), "remaining_cost_usd": usd(left.Micros), "max_cost_usd": usd(spent.Micros + left.Micros)})
	case "/api/inference-models":
		list := []any{}
		for _, o := range x.Prices(provider.PathChat) {
			list = append(list, map[string]any{
				"name": o.Model, "external_name": o.Model, "max_input_tokens": nil, "cost_usd_per_million_input_tokens": usd(o.In), "cost_usd_per_million_output_tokens": usd(o.Out),
			})
		}
		return answer(x, http.StatusOK, list)
	case "/api/embedding-models":
		list := []any{}
		for _, o := range x.Prices(provider.PathEmbeddings) {
			list = append(list, map[string]any{
				"name": o.Model, "external_name": o.Model, "max_input_tokens": nil, "pricing_mode": "per_token", "cost_usd_per_million_input_tokens": usd(o.In), "cost_usd_per_second": nil,
			})
		}
		return answer(x, http.StatusOK, list)
	}
	return false
}

// Fields that version C's proxy hands on; all others are dropped, and no stream is made.
var (
	chatFields = []string{
		"model", "messages", "temperature", "top_p", "max_tokens", "tools", "tool_choice", "frequency_penalty", "presence_penalty", "stop", "n", "response_format", "seed",
	}
	embeddingFields = []string{"model", "input", "encoding_format", "dimensions"}
)

// stripped is a Parse that hands on some fields of a body only.
func stripped(parse func([]byte, gateway.FieldRules) (*gateway.Request, error), fields []string) func([]byte, gateway.FieldRules) (*gateway.Request, error) {
	return func(raw []byte, rules gateway.FieldRules) (*gateway.Request, error) {
		b, err := read(raw)
		if err != nil {
			return nil, err
		}
		if v, ok := b["model"]; !ok || string(v) == "null" {
			// A list of models to fall back on has its first taken: a call has one price.
			var list []string
			if json.Unmarshal(b["models"], &list) == nil && len(list) > 0 {
				if b["model"], err = json.Marshal(list[0]); err != nil {
					return nil, err
				}
			}
		}
		if string(b["n"]) == "1" {
			delete(b, "n")
		}
		return parse(b.only(fields...), rules)
	}
}

// serveC answers as the proxy of version C.
func serveC(x *gateway.Exchange) bool {
	switch at := x.R.Method + " " + x.R.URL.Path; at {
	case "GET /healthz":
		return answer(x, http.StatusOK, map[string]string{"status": "ok"})
	case "GET /api/v1/usage":
		spent, left := x.Balance()
		prompt, completion, models := int64(0), int64(0), []string{}
		n := 0
		for _, r := range x.Receipts() {
			if r.Model == "" {
				continue
			}
			n++
			prompt, completion = prompt+r.Prompt, completion+r.Completion
			if !slices.Contains(models, r.Model) {
				models = append(models, r.Model)
			}
		}
		slices.Sort(models)
		return answer(x, http.StatusOK, map[string]any{
			"evaluation_run_id": x.Run(), "total_cost_usd": usd(spent.Micros), "max_cost_usd": usd(spent.Micros + left.Micros), "budget_remaining_usd": usd(left.Micros),
			"requests": n, "prompt_tokens": prompt, "completion_tokens": completion, "models": models,
		})
	case "POST /api/v1/chat/completions", "POST /api/v1/embeddings":
		path := x.R.URL.Path
		switch v := x.R.Header.Get("Authorization"); {
		case v == "":
			x.Refuse(path, http.StatusUnauthorized, "unauthorized", `{"detail":"Authorization is missing"}`)
			return true
		case !strings.HasPrefix(v, "Bearer "):
			x.Refuse(path, http.StatusUnauthorized, "unauthorized", `{"detail":"Authorization is not a bearer token"}`)
			return true
		}
		rt := gateway.Route{Path: path, Parse: stripped(gateway.ParseChat, chatFields), Refuse: detailC}
		if strings.HasSuffix(path, "/embeddings") {
			rt.Parse = stripped(gateway.ParseEmbedding, embeddingFields)
		}
		x.Call(rt, nil)
		return true
	}
	if strings.HasPrefix(x.R.URL.Path, "/api/v1/") {
		x.Refuse(x.R.URL.Path, http.StatusForbidden, "forbidden", `{"detail":"only chat completions, embeddings and usage are open here"}`)
		return true
	}
	return false
}
