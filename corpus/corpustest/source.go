// Package corpustest makes runs for tests and benchmarks of corpora: as many
// as asked, each a function of its number, none kept in memory.
package corpustest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
)

// Source is one arena. Its agents all get the same prompt on a problem;
// half of them solve it.
type Source struct {
	Problems int // 10
	Agents   int // 4; runs are Problems times Agents
	Steps    int // turns of the model in a run; 3
	Words    int // of each result of a tool; 40
	// Wild puts into conversations what breaks parsers: escapes, other scripts, nested arguments.
	Wild bool
}

// Runs there are.
func (s Source) Len() int { return s.Problems * s.Agents }

func (s Source) task(i int) agon.TaskRef {
	key := "synth/p" + strconv.Itoa(i)
	return agon.TaskRef{Key: key, Digest: agon.Sum([]byte(key))}
}

// Arenas returns the one arena.
func (s Source) Arenas(context.Context) ([]client.Arena, error) {
	a := client.Arena{Arena: agon.Arena{ID: "synth", Kind: "synth", Licence: "CC-BY-4.0"}}
	for i := range s.Problems {
		a.Tasks = append(a.Tasks, s.task(i))
	}
	return []client.Arena{a}, nil
}

// Submission returns an agent.
func (s Source) Submission(_ context.Context, id string) (*client.Submission, error) {
	return &client.Submission{Submission: agon.Submission{
		ID: id, Miner: "miner-" + id, Coldkey: "coldkey-" + id, Digest: agon.Sum([]byte(id)), Licence: "MIT", State: agon.SubmissionScored,
	}}, nil
}

// Runs pages over the ids.
func (s Source) Runs(_ context.Context, _, _, _, cursor string, limit int) (*client.Page[client.Run], error) {
	from, _ := strconv.Atoi(cursor) // empty: from the first
	p := &client.Page[client.Run]{}
	for n := from; n < min(from+limit, s.Len()); n++ {
		p.Items = append(p.Items, client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: ID(n)}}})
	}
	if from+limit < s.Len() {
		p.Next = strconv.Itoa(from + limit)
	}
	return p, nil
}

// ID names run n.
func ID(n int) string { return fmt.Sprintf("run-%07d", n) }

func (s Source) split(id string) (problem, agent int) {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "run-")) // ours
	return n / s.Agents, n % s.Agents
}

// Run returns a run that is scored.
func (s Source) Run(_ context.Context, id string) (*client.Run, error) {
	p, a := s.split(id)
	t := s.task(p)
	value := float64(1 - a%2)
	return &client.Run{
		Run: agon.Run{
			RunSpec: agon.RunSpec{Run: id, Arena: "synth", Tasks: []agon.TaskRef{t}, Seed: int64(p)}, Submission: "agent-" + strconv.Itoa(a), State: agon.RunScored,
			Scores: []agon.Score{{Run: id, Task: t.Key, Value: value, Solved: value == 1, Scorer: "synth-1", Metrics: map[string]float64{"tests": value}}},
		},
		List: []agon.Attempt{{Run: id, N: 1, Validator: "validator", Counted: true, CostMicros: agon.Micros(10 * s.Steps)}},
	}, nil
}

// words are n words that no other seed has.
func words(seed, n int) string {
	var b strings.Builder
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b.WriteString(strconv.FormatUint(x%1_000_003, 36))
	}
	return b.String()
}

const wild = " \"quoted\" back\\slash <b>&amp; naïve 日本語 🙂 \u2028\ttab"

// tools are what is offered: no struct of Arrow's holds both their schemas.
var tools = []any{
	map[string]any{"type": "function", "function": map[string]any{"name": "read_file", "description": "Reads a file.", "parameters": map[string]any{
		"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string", "default": "."}}, "required": []string{"path"},
	}}},
	map[string]any{"type": "function", "function": map[string]any{"name": "run_tests", "description": "Runs tests & says which failed.", "parameters": map[string]any{
		"type": "object", "properties": map[string]any{"count": map[string]any{"type": "integer", "default": 1}, "opts": map[string]any{"type": "object", "default": map[string]any{"x": []int{1}}}, "path": map[string]any{"type": "array", "default": []string{}}},
	}}},
}

// Events returns a page of the log of a run: a call of the model a turn, each
// with the whole conversation before it, as agents send it.
func (s Source) Events(_ context.Context, run string, attempt int, seq int64, limit int) ([]agon.Event, error) {
	if attempt != 1 {
		return nil, nil
	}
	var out []agon.Event
	for i := int(seq); i < s.Steps && len(out) < limit; i++ {
		e, err := s.event(run, i)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (s Source) event(run string, turn int) (agon.Event, error) {
	p, a := s.split(run)
	extra := ""
	if s.Wild {
		extra = wild
	}
	said := []any{
		map[string]any{"role": "system", "content": "You mend programs." + extra},
		map[string]any{"role": "user", "content": "Problem " + words(p+1, 30) + extra},
	}
	var reply gateway.Message
	for i := 0; i <= turn; i++ {
		seed := (p*s.Agents+a)*s.Steps + i + 1_000_000
		reply = gateway.Message{Content: "Step " + words(seed, 8) + extra, Reasoning: "I think of " + words(seed+7, 6)}
		id := "call_" + strconv.Itoa(i)
		switch {
		case i == s.Steps-1:
			reply.Finish = "stop"
		case i%2 == 0:
			reply.ToolCalls = []gateway.ToolCall{{ID: id, Name: "read_file", Arguments: `{"path":"` + words(seed, 1) + `.py"}`}}
		default:
			reply.ToolCalls = []gateway.ToolCall{{ID: id, Name: "run_tests", Arguments: fmt.Sprintf(`{"count": %d, "opts": {"deep": [1, 2.5, null], "naïve": "<&>"}}`, seed)}}
		}
		if i == turn {
			break
		}
		c := reply.ToolCalls[0]
		said = append(said,
			map[string]any{"role": "assistant", "content": reply.Content, "tool_calls": []any{map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}}}},
			map[string]any{"role": "tool", "tool_call_id": c.ID, "content": words(seed+3, s.Words) + extra})
		if s.Wild && a%4 == 2 && i == 1 {
			said = append(said, map[string]any{"role": "user", "content": "Go on" + extra}) // what was thought before is forgotten
		}
	}
	body, err := json.Marshal(map[string]any{"model": "synth", "messages": said, "tools": tools})
	if err != nil {
		return agon.Event{}, err
	}
	data, err := json.Marshal(gateway.ModelCall{
		Receipt: agon.Receipt{ID: fmt.Sprintf("%s-%d", run, turn), Model: "synth", Provider: "synth", Outcome: "ok", Payer: "run", Cost: 10},
		Request: gateway.Body{Text: string(body), Bytes: int64(len(body))}, Message: &reply,
	})
	return agon.Event{Run: run, Attempt: 1, Task: s.task(p).Key, Seq: int64(turn + 1), At: time.Unix(int64(turn), 0).UTC(), Type: agon.EventModel, Data: data}, err
}
