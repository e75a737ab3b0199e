package corpus

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

// endedWith answers the calls with which a run ended: nobody has told the model
// what came of them, but trainers want every call answered.
const endedWith = "(the run ended with this call)"

// replied reports whether a script had anything to say in a conversation.
func replied(list []Message) bool {
	return slices.ContainsFunc(list, func(m Message) bool {
		return m.Role == "assistant" && (len(m.ToolCalls) > 0 || strings.TrimSpace(m.Content) != scripted.NoReply)
	})
}

// closeLast answers calls of the last message that nothing answered.
func closeLast(list []Message) []Message {
	last := len(list) - 1
	for last >= 0 && list[last].Role == "tool" {
		last--
	}
	if last < 0 || list[last].Role != "assistant" {
		return list
	}
	answered := map[string]bool{}
	for _, m := range list[last+1:] {
		answered[m.ToolCallID] = true
	}
	for _, c := range list[last].ToolCalls {
		if !answered[c.ID] {
			list = append(list, Message{Role: "tool", ToolCallID: c.ID, Name: c.Function.Name, Content: endedWith})
		}
	}
	return list
}

func chatOf(said []trajectory.Said) []Message {
	out := make([]Message, 0, len(said))
	seen := map[string]bool{}
	now := map[string]string{} // an agent's id -> ours; agents repeat theirs
	names := map[string]string{}
	for i, s := range said {
		m := Message{Role: s.Role, Content: s.Content, Reasoning: s.Reasoning, harness: s.Role == "assistant" && !s.ByModel}
		if s.ByModel {
			m.receipt, m.cost, m.finish, m.tokens = s.Receipt, &s.Cost, s.Finish, s.Tokens
		}
		switch s.Role {
		case "assistant":
			for j, c := range s.Calls {
				id := c.ID
				if id == "" || seen[id] {
					id = strconv.Itoa(i+1) + "_" + strconv.Itoa(j) + "_" + c.ID
				}
				seen[id] = true
				now[c.ID], names[id] = id, c.Name
				m.ToolCalls = append(m.ToolCalls, ToolCall{ID: id, Type: "function", Function: Function{Name: c.Name, Arguments: c.Arguments}})
			}
		case "tool":
			m.ToolCallID = cmp.Or(now[s.ToolCallID], s.ToolCallID)
			m.Name = cmp.Or(names[m.ToolCallID], s.Name)
		case "system", "user":
		case "developer":
			m.Role = "system"
		default:
			m.Role = "user"
		}
		out = append(out, m)
	}
	return out
}

// row removes secrets from all that a contestant, a model or a validator wrote.
func (c *Scrubber) row(r *Row) {
	ids := map[string]string{}
	id := func(s string) string { // ids that were scrubbed must still be told apart
		if now, ok := ids[s]; ok || s == "" {
			return now
		}
		ids[s] = s
		if c.Text(s) != s {
			ids[s] = "removed_" + strconv.Itoa(len(ids))
		}
		return ids[s]
	}
	for i, m := range r.Messages {
		m.ToolCallID = id(m.ToolCallID)
		for j := range m.ToolCalls {
			m.ToolCalls[j].ID = id(m.ToolCalls[j].ID)
		}
		r.Messages[i] = c.message(m)
	}
	for i, t := range r.Tools {
		r.Tools[i] = c.tool(t)
	}
	f := &r.From
	for _, s := range []*string{&f.Model, &f.Validator, &f.Scorer, &f.Licence, &f.Miner, &f.Coldkey} {
		*s = c.Text(*s)
	}
	if len(r.Reward.Components) > 0 {
		clean := make(map[string]float64, len(r.Reward.Components))
		for _, k := range slices.Sorted(maps.Keys(r.Reward.Components)) {
			clean[c.Text(k)] = r.Reward.Components[k]
		}
		r.Reward.Components = clean
	}
}
