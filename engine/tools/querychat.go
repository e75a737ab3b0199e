package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// QueryModels is what llm_chat offers to sessions with QueryTools, by provider. A
// reasoning token costs what one of the answer does, on top of it.
func QueryModels() map[string]map[string]ModelPrice {
	out := map[string]map[string]ModelPrice{}
	for provider, list := range queryPrices {
		out[provider] = map[string]ModelPrice{}
		for _, m := range list {
			out[provider][m.name] = ModelPrice{In: m.in, Out: m.out, Reasoning: m.out}
		}
	}
	return out
}

type queryPrice struct {
	name    string
	in, out int64 // micro-dollars per 1,000,000 tokens
}

var queryPrices = map[string][]queryPrice{
	"chutes": {
		{"deepseek-ai/deepseek-v3.2-tee", 1_000_000, 1_000_000},
		{"moonshotai/kimi-k2.6-tee", 660_000, 3_500_000},
		{"qwen/qwen3.6-27b-tee", 300_000, 2_000_000},
		{"qwen/qwen3.8-27b-tee", 400_000, 3_000_000},
		{"google/gemma-4-31b-turbo-tee", 120_000, 370_000},
		{"zai-org/glm-5.2-tee", 1_400_000, 4_400_000},
		{"qwen/qwen3.5-397b-a17b-tee", 450_000, 3_000_000},
	},
	"openrouter": {
		{"openai/gpt-oss-20b", 30_000, 140_000},
		{"openai/gpt-oss-120b", 37_000, 170_000},
		{"deepseek/deepseek-v3.2", 269_000, 400_000},
		{"z-ai/glm-5", 950_000, 2_550_000},
		{"qwen/qwen3.6-27b", 300_000, 2_000_000},
		{"qwen/qwen3.8-27b", 450_000, 3_200_000},
		{"google/gemma-4-31b-it", 140_000, 400_000},
		{"deepseek/deepseek-v4-flash", 140_000, 280_000},
		{"deepseek/deepseek-v4-flash-0731", 90_000, 180_000},
		{"deepseek/deepseek-v4-pro", 435_000, 870_000},
		{"z-ai/glm-5.2", 800_800, 2_516_800},
		{"thinkingmachines/inkling", 1_000_000, 4_050_000},
		{"qwen/qwen3.5-397b-a17b", 390_000, 2_340_000},
		{"meta/muse-glimmer-30b", 350_000, 1_500_000},
	},
	"ai_gateway": {
		{"thinkingmachines/inkling", 1_000_000, 4_050_000},
		{"zai/glm-5.2-fast", 2_100_000, 6_600_000},
		{"openai/gpt-oss-20b", 50_000, 200_000},
		{"zai/glm-4.7", 600_000, 2_200_000},
		{"google/gemma-4-31b-it", 140_000, 400_000},
		{"openai/gpt-oss-120b", 100_000, 500_000},
		{"minimax/minimax-m2.7", 300_000, 1_200_000},
		{"zai/glm-4.7-flash", 70_000, 400_000},
		{"deepseek/deepseek-v4-flash", 140_000, 280_000},
		{"deepseek/deepseek-v4-flash-0731", 130_000, 260_000},
		{"deepseek/deepseek-v4-pro", 435_000, 870_000},
		{"meta/muse-glimmer-30b", 350_000, 1_500_000},
		{"alibaba/qwen3.8-27b", 100_000, 400_000},
	},
}

// planQueryChat reads llm_chat of a session with QueryTools. Unlike the older
// form it refuses keywords that it does not know.
func (s *Session) planQueryChat(a *args) (*plan, error) {
	provider := a.provider(slices.Sorted(maps.Keys(s.cfg.Query.Models)))
	llm, _ := s.of(provider)
	if llm == nil {
		return nil, errNoBackend
	}
	model := strings.ToLower(strings.TrimSpace(a.str("model", true, 200)))
	price, offered := s.cfg.Query.Models[provider][model]
	if a.err == nil && !offered {
		a.fail("model", "it is not offered by this provider")
	}
	body := map[string]json.RawMessage{}
	messages, n, err := queryMessages(a)
	if err != nil {
		return nil, err
	}
	body["messages"] = messages
	if v, ok := a.float("temperature", 0, 2); ok {
		body["temperature"] = v
	}
	names := a.functions(body)
	a.toolChoice(body, names)
	if p := a.boolean("parallel_tool_calls"); p != nil && body["tools"] != nil {
		body["parallel_tool_calls"], _ = json.Marshal(*p)
	}
	a.thinking(body)
	if extra := a.extra(); provider == "chutes" && extra != nil {
		a.fail("provider_extra", "this provider takes none")
	}
	limit, other := a.num("max_output_tokens", 0, 1, 1<<20, false), a.num("max_tokens", 0, 1, 1<<20, false)
	if limit > 0 && other > 0 {
		a.fail("max_tokens", "max_output_tokens is given too")
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	most := price.maxOutput()
	if limit = max(limit, other); limit > 0 {
		most = min(most, limit)
	}
	prompt := int64(len(messages)+len(body["tools"])) + int64(n)*messageTokens
	out := price.affordable(s.left(), prompt, most)
	if out < 1 {
		return nil, errBudget
	}
	body["max_tokens"] = json.RawMessage(itoa(out))
	return &plan{
		policy: LogOnly, model: model, backend: llm.Name(), worst: price.cost(prompt, out, out), timeout: longTimeout,
		run: func(ctx context.Context) (*reply, error) {
			b, err := llm.Chat(ctx, model, body)
			if err != nil {
				return nil, err
			}
			return readChat(b, price)
		},
	}, nil
}

// functions reads tools: functions with names of their own.
func (a *args) functions(body map[string]json.RawMessage) []string {
	v, ok := a.raw("tools")
	if !ok {
		return nil
	}
	var list []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
			Strict      *bool           `json:"strict,omitempty"`
		} `json:"function"`
	}
	var names []string
	if v[0] != '[' || strictInto(v, &list) != nil || len(list) > maxTools {
		a.fail("tools", "want at most %d functions", maxTools)
		return nil
	}
	for _, t := range list {
		if t.Type != "function" || t.Function.Name == "" || slices.Contains(names, t.Function.Name) {
			a.fail("tools", "want functions, each with a name of its own")
			return nil
		}
		names = append(names, t.Function.Name)
	}
	if len(list) > 0 {
		body["tools"] = v
	}
	return names
}

func (a *args) toolChoice(body map[string]json.RawMessage, names []string) {
	v, ok := a.raw("tool_choice")
	if !ok {
		return
	}
	if v[0] == '"' {
		if s := a.oneOf("tool_choice", "", "auto", "required", "none"); s != "" && body["tools"] != nil {
			body["tool_choice"] = v
		}
		return
	}
	var one struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if strictInto(v, &one) != nil || one.Type != "function" || !slices.Contains(names, one.Function.Name) {
		a.fail("tool_choice", "want auto, required, none or a function of tools")
		return
	}
	body["tool_choice"] = v
}

// thinking reads {enabled, budget or effort}. Providers take an effort only.
func (a *args) thinking(body map[string]json.RawMessage) {
	v, ok := a.raw("thinking")
	if !ok {
		return
	}
	var t struct {
		Enabled *bool  `json:"enabled"`
		Budget  *int64 `json:"budget"`
		Effort  string `json:"effort"`
	}
	if v[0] != '{' || strictInto(v, &t) != nil || t.Enabled == nil || (t.Budget != nil && (*t.Budget < 1 || t.Effort != "")) ||
		(t.Effort != "" && !slices.Contains([]string{"low", "medium", "high"}, t.Effort)) {
		a.fail("thinking", "want enabled, and budget or effort")
		return
	}
	if *t.Enabled && t.Effort != "" {
		body["reasoning_effort"], _ = json.Marshal(t.Effort)
	}
}

func strictInto(b []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

type queryCall struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// queryMessages reads the messages and writes them as OpenAI's. After a message
// of the assistant with tool calls the answers must follow at once, one each.
func queryMessages(a *args) (json.RawMessage, int, error) {
	raw, ok := a.raw("messages")
	var in []json.RawMessage
	if !ok || raw[0] != '[' || json.Unmarshal(raw, &in) != nil || len(in) == 0 || len(in) > maxMessages {
		a.fail("messages", "want 1 to %d messages", maxMessages)
	}
	if a.err != nil {
		return nil, 0, a.err
	}
	out := make([]map[string]any, 0, len(in))
	pending := map[string]bool{}
	for i, b := range in {
		m, calls, err := queryMessage(b)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: messages[%d]: %w", errInvalid, i, err)
		}
		id, answers := m["tool_call_id"].(string)
		if answers != (len(pending) > 0) || (answers && !pending[id]) {
			return nil, 0, fmt.Errorf("%w: messages[%d]: the answers to tool calls must follow them at once, one each", errInvalid, i)
		}
		delete(pending, id)
		for _, c := range calls {
			if pending[c.ID] {
				return nil, 0, fmt.Errorf("%w: messages[%d]: a tool call's id is given twice", errInvalid, i)
			}
			pending[c.ID] = true
		}
		out = append(out, m)
	}
	if len(pending) > 0 {
		return nil, 0, fmt.Errorf("%w: messages: a tool call has no answer", errInvalid)
	}
	b, err := json.Marshal(out)
	return b, len(out), err
}

func queryMessage(b json.RawMessage) (map[string]any, []queryCall, error) {
	var m struct {
		Role      string            `json:"role"`
		Content   *string           `json:"content"`
		Calls     []queryCall       `json:"tool_calls"`
		ID        string            `json:"tool_call_id"`
		Name      string            `json:"name"`
		Reasoning []json.RawMessage `json:"reasoning_details"`
	}
	if err := strictInto(b, &m); err != nil {
		return nil, nil, fmt.Errorf("want role, content and what belongs to the role")
	}
	assistant, answer := m.Role == "assistant", m.Role == "tool"
	switch {
	case !assistant && !answer && m.Role != "system" && m.Role != "user":
		return nil, nil, fmt.Errorf("role: want system, user, assistant or tool")
	case !assistant && (m.Content == nil || *m.Content == ""):
		return nil, nil, fmt.Errorf("content: it is missing")
	case !assistant && (m.Calls != nil || m.Reasoning != nil), !answer && (m.ID != "" || m.Name != ""):
		return nil, nil, fmt.Errorf("a field belongs to another role")
	case answer && m.ID == "":
		return nil, nil, fmt.Errorf("tool_call_id: it is missing")
	case assistant && m.Content == nil && len(m.Calls) == 0:
		return nil, nil, fmt.Errorf("want content or tool_calls")
	}
	out := map[string]any{"role": m.Role, "content": m.Content}
	if answer {
		out["tool_call_id"] = m.ID
	}
	var calls []any
	for _, c := range m.Calls {
		var object map[string]json.RawMessage
		if c.ID == "" || c.Name == "" || c.Type != "function" || json.Unmarshal([]byte(c.Arguments), &object) != nil || object == nil {
			return nil, nil, fmt.Errorf("tool_calls: want id, type function, name, and arguments that hold a JSON object")
		}
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]string{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		out["tool_calls"] = calls
	}
	return out, m.Calls, nil
}
