package corpus

import (
	"encoding/json"
	"strings"
)

// RenderQwen3 renders a conversation as the chat template of Qwen3 does and
// returns the spans, in bytes of the text, on which a loss may be taken: what a
// model said in each assistant turn, with the token that ends the turn.
// Thinking is kept only after the last real question of a user.
func RenderQwen3(list []Message, tools []json.RawMessage) (text string, spans [][2]int) {
	var b strings.Builder
	rest := list
	system := ""
	if len(list) > 0 && list[0].Role == "system" {
		system, rest = list[0].Content, list[1:]
	}
	if len(tools) > 0 {
		b.WriteString("<|im_start|>system\n")
		if system != "" {
			b.WriteString(system + "\n\n")
		}
		b.WriteString("# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>")
		for _, t := range nested(tools) {
			b.WriteByte('\n')
			b.Write(spaced(t))
		}
		b.WriteString("\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n")
	} else if system != "" {
		b.WriteString("<|im_start|>system\n" + system + "<|im_end|>\n")
	}
	lastQuery := -1
	for i, m := range rest {
		if m.Role == "user" && !strings.HasPrefix(m.Content, "<tool_response>") {
			lastQuery = i
		}
	}
	for i, m := range rest {
		switch m.Role {
		case "user", "system":
			b.WriteString("<|im_start|>" + m.Role + "\n" + m.Content + "<|im_end|>\n")
		case "assistant":
			b.WriteString("<|im_start|>assistant\n")
			from := b.Len()
			if i > lastQuery && (i == len(rest)-1 || m.Reasoning != "") {
				b.WriteString("<think>\n" + strings.Trim(m.Reasoning, "\n") + "\n</think>\n\n")
			}
			b.WriteString(strings.TrimLeft(m.Content, "\n"))
			for j, c := range m.ToolCalls {
				if j > 0 || m.Content != "" {
					b.WriteByte('\n')
				}
				b.WriteString("<tool_call>\n{\"name\": \"" + c.Function.Name + "\", \"arguments\": " + spacedArguments(c.Function.Arguments) + "}\n</tool_call>")
			}
			b.WriteString("<|im_end|>")
			if !m.harness {
				spans = append(spans, [2]int{from, b.Len()})
			}
			b.WriteByte('\n')
		case "tool":
			if i == 0 || rest[i-1].Role != "tool" {
				b.WriteString("<|im_start|>user")
			}
			b.WriteString("\n<tool_response>\n" + m.Content + "\n</tool_response>")
			if i == len(rest)-1 || rest[i+1].Role != "tool" {
				b.WriteString("<|im_end|>\n")
			}
		}
	}
	return b.String(), spans
}

// spacedArguments are the arguments of a call as the template writes an object;
// what is not JSON stays as it is.
func spacedArguments(s string) string {
	if !json.Valid([]byte(s)) {
		return s
	}
	return string(spaced(json.RawMessage(s)))
}

// spaced writes compact JSON as the template's tojson does: a blank after ":" and ",".
func spaced(raw json.RawMessage) []byte {
	var out []byte
	in, esc := false, false
	for _, c := range raw {
		out = append(out, c)
		switch {
		case esc:
			esc = false
		case in && c == '\\':
			esc = true
		case c == '"':
			in = !in
		case !in && (c == ':' || c == ','):
			out = append(out, ' ')
		}
	}
	return out
}
