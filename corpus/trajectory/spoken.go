package trajectory

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// byItsCode answers a call of a tool that lives in the agent's own code, where
// nothing shows what came of it.
const byItsCode = "(carried out by the agent's own code)"

// maxSpoken bounds the text of a reply that is searched for calls, in bytes.
const maxSpoken = 1 << 20

var (
	thinking  = lazyregexp.New(`(?s)<think>(.*?)(?:</think>|$)`)
	toolBlock = lazyregexp.New(`(?s)<tool_calls?>(.*?)(?:</tool_calls?>|$)`)
	function  = lazyregexp.New(`(?s)<function=([^>\s]{1,100})>(.*?)(?:</function>|$)`)
	parameter = lazyregexp.New(`(?s)<parameter=([^>\s]{1,100})>(.*?)(?:</parameter>|$)`)
	invoke    = lazyregexp.New(`(?s)<invoke\s+name="([^"]{1,100})"\s*>(.*?)(?:</invoke>|$)`)
	named     = lazyregexp.New(`(?s)<parameter\s+name="([^"]{1,100})"[^>]*>(.*?)(?:</parameter>|$)`)
	wrapper   = lazyregexp.New(`</?(?:function_calls|response|tool_calls?)>`)
	action    = lazyregexp.New(`(?m)^[ \t*]*Action[ \t*]*:[ \t*]*([A-Za-z_][\w.-]{0,99})[ \t*]*(.*)$`)
	input     = lazyregexp.New(`(?m)^[ \t*]*Action Input[ \t*]*:[ \t*]*`)
	observed  = lazyregexp.New(`(?m)^[ \t*]*Observation[ \t*]*:`)
)

// Spoken reads the tool calls that a model wrote into its text: blocks of
// <tool_call> with JSON, the XML of <function=…> and <invoke name=…>, and the
// Action and Action Input of ReAct. rest is the text without them, think what
// stood between <think> tags. A text without calls is all rest.
func Spoken(text string) (calls []SaidCall, rest, think string) {
	if len(text) > maxSpoken || !strings.Contains(text, "<tool_call") && !strings.Contains(text, "<function=") &&
		!strings.Contains(text, "<invoke") && !strings.Contains(text, "Action") {
		return nil, text, ""
	}
	var thought []string
	rest = thinking().ReplaceAllStringFunc(text, func(m string) string {
		thought = append(thought, strings.TrimSpace(thinking().FindStringSubmatch(m)[1]))
		return ""
	})
	for _, form := range []func(string) ([]SaidCall, string){jsonCalls, xmlCalls, reactCalls} {
		if calls, rest := form(rest); len(calls) > 0 {
			return calls[:min(len(calls), maxAsked)], strings.TrimSpace(wrapper().ReplaceAllString(rest, "")), strings.Join(thought, "\n\n")
		}
	}
	// Calls that are only thought of are still what the gateway credits.
	if calls, _ := jsonCalls(text); len(calls) > 0 {
		return calls[:min(len(calls), maxAsked)], strings.TrimSpace(rest), strings.Join(thought, "\n\n")
	}
	return nil, text, ""
}

func jsonCalls(text string) (calls []SaidCall, rest string) {
	for _, c := range gateway.TextCalls(text) {
		args := c.Arguments
		if args == "" {
			args = "{}"
		}
		calls = append(calls, SaidCall{c.ID, c.Name, args})
	}
	if len(calls) == 0 {
		return nil, text
	}
	return calls, toolBlock().ReplaceAllString(text, "")
}

func xmlCalls(text string) (calls []SaidCall, rest string) {
	for _, f := range []struct{ call, part *regexp.Regexp }{{function(), parameter()}, {invoke(), named()}} {
		for _, m := range f.call.FindAllStringSubmatch(text, maxAsked) {
			args := map[string]json.RawMessage{}
			for _, p := range f.part.FindAllStringSubmatch(m[2], maxAsked) {
				args[p[1]] = plainValue(strings.Trim(p[2], "\n"))
			}
			b, err := json.Marshal(args)
			if err != nil {
				continue
			}
			calls = append(calls, SaidCall{Name: m[1], Arguments: string(b)})
		}
		if len(calls) > 0 {
			return calls, toolBlock().ReplaceAllString(f.call.ReplaceAllString(text, ""), "")
		}
	}
	return nil, text
}

// plainValue is the value of an XML parameter: objects and lists as they are, all else text.
func plainValue(s string) json.RawMessage {
	if t := strings.TrimSpace(s); t != "" && (t[0] == '{' || t[0] == '[') && json.Valid([]byte(t)) {
		return json.RawMessage(t)
	}
	b, err := json.Marshal(strings.ToValidUTF8(s, "\ufffd"))
	if err != nil {
		return json.RawMessage(`""`)
	}
	return b
}

// reactCalls reads one action: what a model writes after it, from Observation
// on, it has made up.
func reactCalls(text string) (calls []SaidCall, rest string) {
	at := action().FindStringSubmatchIndex(text)
	if at == nil {
		return nil, text
	}
	name, tail := text[at[2]:at[3]], text[at[4]:]
	if o := observed().FindStringIndex(tail); o != nil {
		tail = tail[:o[0]]
	}
	line := strings.TrimSpace(text[at[4]:at[5]])
	var args string
	switch in := input().FindStringIndex(tail); {
	case in != nil:
		args = tail[in[1]:]
	case line != "" && strings.ContainsAny(line[:1], "([") && len(line) > 1:
		args = strings.TrimSpace(tail)
		args = strings.TrimRight(args[1:], ")] \n\t")
	case strings.HasPrefix(line, "{"):
		args = tail
	default:
		return nil, text // a word, no call
	}
	return []SaidCall{{Name: name, Arguments: looseObject(args)}}, text[:at[0]]
}

// looseObject is the JSON object that a text begins with, or {"input": text}.
func looseObject(s string) string {
	s = strings.TrimSpace(s)
	s = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(s, "```json"), "```"))
	var obj map[string]json.RawMessage
	var raw json.RawMessage
	if json.NewDecoder(strings.NewReader(s)).Decode(&raw) == nil && json.Unmarshal(raw, &obj) == nil && obj != nil {
		return string(raw)
	}
	s, _, _ = strings.Cut(s, "\n")
	b, err := json.Marshal(map[string]string{"input": strings.ToValidUTF8(strings.Trim(s, "\"'` "), "\ufffd")})
	if err != nil {
		return "{}"
	}
	return string(b)
}

// talk is the conversation of an agent that calls tools in text, told in calls.
type talk struct {
	raw     []message // the last request as it was sent
	reply   message   // and what was answered, as it was said
	first   string    // the last message of the first request
	said    []message // the conversation in calls
	calls   []toolCall
	receipt string // of the last reply
	n       int    // replies
}

// spoken rewrites a turn whose reply, or whose agent, calls tools in text. It
// returns what the reply asked for.
func (s *teller) spoken(t *turn) []SaidCall {
	raw, reply := t.messages, *t.reply
	k, news := s.goesOn(t)
	asked, rest, think := Spoken(t.reply.text())
	if k == nil {
		if len(asked) == 0 {
			return nil
		}
		k = &talk{said: slices.Clone(raw)}
		if len(raw) > 0 {
			k.first = raw[len(raw)-1].text()
		}
		s.talks = append(s.talks, k)
	} else {
		s.answer(k, news)
	}
	t.messages = slices.Clip(k.said)
	k.raw, k.reply, k.receipt, k.calls = raw, reply, t.receipt.ID, nil
	k.n++
	if len(asked) > 0 {
		told := written("assistant", rest)
		told.Reasoning = reply.Reasoning
		if think != "" {
			told.Reasoning = strings.TrimSpace(told.Reasoning + "\n\n" + think)
		}
		for i := range asked {
			asked[i].ID = fmt.Sprintf("said_%d_%d", k.n, i)
			c := toolCall{ID: asked[i].ID, Type: "function"}
			c.Function.Name, c.Function.Arguments = asked[i].Name, asked[i].Arguments
			told.ToolCalls = append(told.ToolCalls, c)
		}
		k.calls = told.ToolCalls
		t.reply = &told
	}
	k.said = append(k.said, *t.reply)
	return asked
}

// news is what a request says that the conversation did not: the text behind
// the last reply, and messages besides.
type news struct {
	observation string
	messages    []message
}

// goesOn finds the conversation in text that a turn goes on with. An agent
// sends it as messages that grow, or tells all of it anew in its last message.
func (s *teller) goesOn(t *turn) (*talk, news) {
	for i := len(s.talks) - 1; i >= 0; i-- {
		k := s.talks[i]
		n := len(k.raw)
		if len(t.messages) > n && startsWith(t.messages, k.raw) && t.messages[n].Role == "assistant" && strings.TrimSpace(t.messages[n].text()) == strings.TrimSpace(k.reply.text()) {
			var out news
			for j, m := range t.messages[n+1:] {
				if j == 0 && len(k.calls) > 0 && m.Role != "assistant" {
					out.observation = m.text()
					continue
				}
				out.messages = append(out.messages, m)
			}
			return k, out
		}
		if n == 0 || len(t.messages) != n || !startsWith(t.messages, k.raw[:n-1]) || t.messages[n-1].Role != k.raw[n-1].Role {
			continue
		}
		text := t.messages[n-1].text()
		before := strings.TrimSpace(k.raw[n-1].text())
		if before != "" && len(text) > len(before) && strings.HasPrefix(text, before) {
			return k, news{observation: text[len(before):]}
		}
		if first := strings.TrimSpace(k.first); first != "" && len(text) > len(first) && strings.HasPrefix(text, first) {
			return k, news{observation: text[len(first):]} // its history is cut, or told in other words
		}
	}
	return nil, news{}
}

// written is a message that stood in no request in this form.
func written(role, text string) message {
	content, err := json.Marshal(text)
	if err != nil {
		content = []byte(`""`)
	}
	return message{Role: role, Content: content, plain: text, settled: true}
}

func startsWith(list, head []message) bool {
	for i := range head {
		if !list[i].same(&head[i]) {
			return false
		}
	}
	return true
}

// answer adds what came of the last reply's calls: the gateway's own words
// where they are its tools, else what the agent told the model.
func (s *teller) answer(k *talk, n news) {
	told := observations(n.observation, len(k.calls))
	for i, c := range k.calls {
		text, ok := s.got[k.receipt][i]
		if !ok {
			text = told[i]
		}
		m := written("tool", text)
		m.ToolCallID, m.Name = c.ID, c.Function.Name
		k.said = append(k.said, m)
	}
	k.said = append(k.said, n.messages...)
}

// observations parts what an agent told of n calls: a list of results, or one text.
func observations(text string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = byItsCode
	}
	if i := strings.LastIndex(text, "<obs>"); i >= 0 {
		text, _, _ = strings.Cut(text[i+len("<obs>"):], "</obs>")
	} else if at := observed().FindAllStringIndex(text, -1); len(at) > 0 {
		text = text[at[len(at)-1][1]:]
	}
	if text = strings.TrimSpace(text); text == "" || n == 0 {
		return out
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil && len(list) == n {
		found := 0
		for i, x := range list {
			for _, key := range []string{"results", "result", "content", "output"} {
				if v, ok := x[key]; ok {
					var s string
					if json.Unmarshal(v, &s) != nil {
						s = string(v)
					}
					out[i] = s
					found++
					break
				}
			}
		}
		if found > 0 {
			return out
		}
	}
	out[0] = text
	return out
}
