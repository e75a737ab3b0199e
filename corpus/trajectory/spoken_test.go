package trajectory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// shopLog is the log of one problem of an agent that searches and recommends.
type shopLog struct {
	t    *testing.T
	list []agon.Event
}

func (l *shopLog) add(typ string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		l.t.Fatal(err)
	}
	l.list = append(l.list, agon.Event{Attempt: 1, Seq: int64(len(l.list) + 1), Task: "p", Type: typ, Data: b})
}

type said map[string]any

func (l *shopLog) model(messages []said, reply gateway.Message) {
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		l.t.Fatal(err)
	}
	l.add(agon.EventModel, gateway.ModelCall{
		Receipt: agon.Receipt{ID: fmt.Sprint("m", len(l.list)), Model: "m", Provider: "p", Status: 200, Outcome: "ok", Payer: "run", Cost: 3},
		Request: gateway.Body{Text: string(body)}, Message: &reply,
	})
}

func (l *shopLog) tool(name, args, answer string) {
	l.add(agon.EventTool, gateway.ToolCallEvent{Receipt: agon.Receipt{ID: fmt.Sprint("t", len(l.list)), Model: name, Status: 200, Cost: 1}, Arguments: json.RawMessage(args), Response: gateway.Body{Text: answer}, Nonce: "missing"})
}

func (l *shopLog) judge() {
	l.add(agon.EventModel, gateway.ModelCall{Receipt: agon.Receipt{ID: "j", Model: "judge", Payer: "judge", Cost: 100}, Request: gateway.Body{Text: `{"messages":[{"role":"user","content":"judge"}]}`}, Message: &gateway.Message{Content: "0.9"}})
}

var equal = &Rules{Same: func(a, b SaidCall) bool { return a.Arguments == b.Arguments }}

// dialects are agents that do the same in different ways: find, recommend, terminate.
var dialects = map[string]func(*shopLog){
	"told anew in one message": func(l *shopLog) { // as ORO's reference agent does
		history := "# History\n\n<user>a lamp</user>"
		step := func(think, calls, obs string) {
			l.model([]said{{"role": "system", "content": "shop"}, {"role": "user", "content": history}}, gateway.Message{Content: "<think>" + think + "</think>\n<tool_call>" + calls + "</tool_call>"})
			history += "\n\n<think>" + think + "</think>\n<tool_call>" + calls + "</tool_call>\n\n<obs>" + obs + "</obs>"
		}
		step("look", `[{"name":"find_product","parameters":{"q":"lamp"}}]`, `[{"tool_call_id":"x","results":[{"product_id":"7"}]}]`)
		l.tool("find_product", `{"q":"lamp"}`, `[{"product_id":"7"}]`)
		step("take it", `[{"name":"recommend_product","parameters":{"product_ids":"7"}}]`, `[{"tool_call_id":"y","results":"Having recommended 7"}]`)
		step("done", `[{"name":"terminate","parameters":{"status":"success"}}]`, `[]`)
	},
	"XML in messages that grow": func(l *shopLog) {
		m := []said{{"role": "system", "content": "shop"}, {"role": "user", "content": "a lamp"}}
		for i, s := range [][2]string{
			{"<function=find_product>\n<parameter=q>\nlamp\n</parameter>\n</function>", `[{"product_id":"7"}]`},
			{`<invoke name="recommend_product"><parameter name="product_ids">7</parameter></invoke>`, "Having recommended 7"},
			{`<tool_call>{"name":"terminate","arguments":{"status":"success"}}</tool_call>`, ""},
		} {
			l.model(m, gateway.Message{Content: "I act.\n" + s[0]})
			if i == 0 {
				l.tool("find_product", `{"q":"lamp"}`, s[1])
			}
			m = append(m, said{"role": "assistant", "content": "I act.\n" + s[0]}, said{"role": "user", "content": s[1]})
		}
	},
	"ReAct": func(l *shopLog) {
		prompt := "Question: a lamp\n"
		for i, s := range [][3]string{
			{"find_product", `{"q":"lamp"}`, `[{"product_id":"7"}]`}, {"recommend_product", `{"product_ids":"7"}`, "Having recommended 7"}, {"terminate", `{"status":"success"}`, ""},
		} {
			reply := "Thought: I go on.\nAction: " + s[0] + "\nAction Input: " + s[1]
			l.model([]said{{"role": "user", "content": prompt}}, gateway.Message{Content: reply + "\nObservation: made up"})
			if i == 0 {
				l.tool(s[0], s[1], s[2])
			}
			prompt += reply + "\nObservation: " + s[2] + "\n"
		}
	},
	"native, on after the end": func(l *shopLog) {
		m := []said{{"role": "user", "content": "a lamp"}}
		for i, s := range [][3]string{
			{"find_product", `{"q":"lamp"}`, `[{"product_id":"7"}]`}, {"recommend_product", `{"product_ids":"7"}`, "Having recommended 7"}, {"terminate", `{"status":"success"}`, "over"},
		} {
			id := fmt.Sprint("c", i)
			l.model(m, gateway.Message{Content: "I act.", ToolCalls: []gateway.ToolCall{{ID: id, Name: s[0], Arguments: s[1]}}})
			if i == 0 {
				l.tool(s[0], s[1], s[2])
			}
			m = append(m, said{"role": "assistant", "content": "I act.", "tool_calls": []said{{"id": id, "type": "function", "function": said{"name": s[0], "arguments": s[1]}}}},
				said{"role": "tool", "tool_call_id": id, "content": s[2]})
		}
		l.model(m, gateway.Message{Content: "Glad to help."})
	},
}

// Whatever form an agent speaks, its log is one conversation of the same calls,
// with the gateway's answers and the same credit, in every form it is written in.
func TestOneConversationOfAnyAgent(t *testing.T) {
	for name, play := range dialects {
		t.Run(name, func(t *testing.T) {
			l := &shopLog{t: t}
			play(l)
			l.judge()
			talks, ev, err := Conversations(l.list, 1, equal)
			if err != nil {
				t.Fatal(err)
			}
			if len(talks) != 1 || ev.Dispatched != 1 || ev.Credited != 1 || ev.Judged != 100 {
				t.Fatalf("%d conversations, evidence %+v", len(talks), ev)
			}
			var calls []string
			answers := map[string]string{}
			byID := map[string]string{}
			for _, s := range talks[0].Said {
				for _, c := range s.Calls {
					calls = append(calls, c.Name+c.Arguments)
					byID[c.ID] = c.Name
				}
				if s.Role == "tool" {
					answers[byID[s.ToolCallID]] = s.Content
				}
				if strings.Contains(s.Content, "made up") || strings.Contains(s.Content, "<tool_call>") {
					t.Errorf("%s says %q", s.Role, s.Content)
				}
			}
			const want = `find_product{"q":"lamp"} recommend_product{"product_ids":"7"} terminate{"status":"success"}`
			if got := strings.Join(calls, " "); got != want {
				t.Errorf("calls %s\nwant  %s", got, want)
			}
			if answers["find_product"] != `[{"product_id":"7"}]` || !strings.Contains(answers["recommend_product"], "recommended 7") {
				t.Errorf("answers %q", answers)
			}
			d, err := ATIF(l.list, 1, Meta{Run: "r", Rules: equal, Task: "p", Kind: "shop"})
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			if err := Validate(b); err != nil {
				t.Fatal(err)
			}
			if x, ok := d.Extra["dispatches"].(map[string]any); !ok || x["metered"] != 1 || x["credited"] != 1 {
				t.Errorf("dispatches %v", d.Extra["dispatches"])
			}
			steps := 0
			for _, s := range d.Steps {
				steps += len(s.ToolCalls)
			}
			if steps != 3 {
				t.Errorf("%d calls in ATIF, want 3:\n%s", steps, b)
			}
		})
	}
}

// A script that asks a model for words, and does what it likes, gets no credit and no calls.
func TestNarratorGetsNoCredit(t *testing.T) {
	l := &shopLog{t: t}
	l.model([]said{{"role": "user", "content": "a lamp"}}, gateway.Message{Content: "I would search. Action: none of mine."})
	l.tool("find_product", `{"q":"lamp"}`, "[]")
	l.model([]said{{"role": "user", "content": "which of these?"}}, gateway.Message{Content: `<tool_call>[{"name":"find_product","parameters":{"q":"other"}}]</tool_call>`})
	l.tool("find_product", `{"q":"lamp"}`, "[]")
	talks, ev, err := Conversations(l.list, 1, equal)
	if err != nil || len(talks) != 2 || ev.Dispatched != 2 || ev.Credited != 0 {
		t.Errorf("%d conversations, %+v, %v", len(talks), ev, err)
	}
}

func FuzzSpoken(f *testing.F) {
	for _, s := range []string{
		"<tool_call>[{\"name\":\"a\",\"parameters\":{}}]", "<function=a><parameter=b>c", "Action: a\nAction Input: {\"b\":1}", `<invoke name="a">`, "Action: f[x", "<think><tool_call>{}</think>",
		"Action: f(", "<tool_call><function=x></tool_call>", "Action: f({\"a\": 1})",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		calls, _, _ := Spoken(s)
		if len(calls) > maxAsked {
			t.Fatal(len(calls))
		}
		for _, c := range calls {
			if c.Name == "" {
				t.Fatalf("a call without a name in %q", s)
			}
		}
		observations(s, len(calls))
	})
}
