package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
)

// group writes the rows of one cluster, best first, in every format.
func (w *writers) group(rows []*Row) error {
	problems := byProblem(rows)
	for _, list := range problems {
		processRewards(list)
	}
	for _, r := range rows {
		if err := w.line("rows", r); err != nil {
			return err
		}
		if r.Split == Held || r.From.Scripted && !w.scripted {
			continue // for one last look, or no model's: in no trainer's format
		}
		if err := w.line("atif", atifOf(r)); err != nil {
			return err
		}
		if r.Axis != Agentic {
			continue // a narrator's words teach nothing about acting
		}
		if err := w.agentic(r); err != nil {
			return err
		}
	}
	if rows[0].Split == Held {
		return nil
	}
	if !w.scripted {
		problems = byProblem(slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool { return r.From.Scripted }))
	}
	for _, list := range problems {
		if err := w.preferences(list); err != nil {
			return err
		}
		if err := w.grpo(list); err != nil {
			return err
		}
	}
	return nil
}

// byProblem parts the rows of a cluster by their problem, in the order of each one's first.
func byProblem(rows []*Row) [][]*Row {
	at := map[agon.Digest]int{}
	var out [][]*Row
	for _, r := range rows {
		i, ok := at[r.From.TaskDigest]
		if !ok {
			i = len(out)
			at[r.From.TaskDigest] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// agentic writes a row in which a model acted: what it did right to be copied,
// all of it to be judged.
func (w *writers) agentic(r *Row) error {
	prompt, completion := halves(r.Messages)
	all := byModel(completion)
	if r.solved() {
		text, spans := RenderQwen3(r.Messages, r.Tools)
		if err := w.line("qwen3", map[string]any{"text": text, "loss_spans": spans, "id": r.ID}); err != nil {
			return err
		}
	}
	if r.solved() && all {
		if err := w.line("openai", map[string]any{"messages": openAI(r.Messages), "tools": nested(r.Tools)}); err != nil {
			return err
		}
		if err := w.line("oro_flat", map[string]any{"messages": openAI(r.Messages), "tools": flat(r.Tools)}); err != nil {
			return err
		}
		if err := w.line("trl_sft", map[string]any{"messages": trl(r.Messages), "tools": toolText(r.Tools)}); err != nil {
			return err
		}
		if err := w.parquet(r); err != nil {
			return err
		}
	}
	if r.Reward.Outcome == nil || len(completion) == 0 {
		return nil
	}
	if all {
		if err := w.line("trl_kto", map[string]any{"prompt": trl(prompt), "completion": trl(completion), "label": r.solved(), "tools": toolText(r.Tools)}); err != nil {
			return err
		}
	}
	texts, labels := stepwise(r)
	if len(texts) == 0 {
		return nil
	}
	return w.line("trl_stepwise", map[string]any{"prompt": promptText(prompt), "completions": texts, "labels": labels})
}

// byModel reports that a model said all that stands there as the assistant's. What an
// agent's code put there no model shall learn to say, and most formats have no mark for it:
// rows of it go only into those that have.
func byModel(list []Message) bool {
	return !slices.ContainsFunc(list, func(m Message) bool { return m.harness })
}

// preferences pairs the best solved row of each problem with its worst.
func (w *writers) preferences(rows []*Row) error {
	best, worst := map[string]*Row{}, map[string]*Row{}
	var order []string
	for _, r := range rows {
		if r.Axis != Agentic || r.Reward.Outcome == nil || !byModel(r.Messages) {
			continue
		}
		// Both halves must answer one prompt.
		p, _ := halves(r.Messages)
		b, err := canonical(trl(p))
		if err != nil {
			return err
		}
		key := r.From.Task + "\x00" + string(b)
		if best[key] == nil && worst[key] == nil {
			order = append(order, key)
		}
		if *r.Reward.Outcome == 1 {
			if best[key] == nil {
				best[key] = r
			}
		} else {
			worst[key] = r
		}
	}
	for _, k := range order {
		a, z := best[k], worst[k]
		if a == nil || z == nil {
			continue
		}
		p, chosen := halves(a.Messages)
		_, rejected := halves(z.Messages)
		if err := w.line("trl_preference", map[string]any{"prompt": trl(p), "chosen": trl(chosen), "rejected": trl(rejected), "tools": toolText(a.Tools)}); err != nil {
			return err
		}
	}
	return nil
}

// grpo writes the prompt of a problem once, solved or not, with what all its
// plays earned, the tools that it was given and what its verifier checks.
func (w *writers) grpo(rows []*Row) error {
	r := rows[0]
	if i := slices.IndexFunc(rows, func(x *Row) bool { return x.Axis == Agentic }); i >= 0 {
		r = rows[i]
	}
	truth, err := groundTruth(r, rows, w.finals)
	if err != nil {
		return err
	}
	p, _ := halves(r.Messages)
	err = w.line("trl_grpo", map[string]any{
		"prompt": trl(p), "problem_id": r.From.Task, "group_id": r.Cluster, "group_size": r.Group.Size, "group_mean": r.Group.Mean, "group_std": r.Group.Std,
		"problem_digest": r.From.TaskDigest, "data_source": r.From.Arena, "scorer_version": r.From.Scorer, "tools": toolText(r.Tools), "ground_truth": truth,
	})
	if err != nil || r.Axis != Agentic {
		return err
	}
	if err := w.openVerl(r.Split); err != nil {
		return err
	}
	return w.verl.prompt(r, truth)
}

// groundTruth says, as JSON text, by what an answer to the rows' problem is
// judged: the task by digest, its scorer and the seed; and what was answered
// where a play was right.
func groundTruth(r *Row, rows []*Row, finals Finals) (string, error) {
	answer := []string{}
	for _, x := range rows {
		if x.solved() {
			answer = append(answer, finals.named(x)...)
			break
		}
	}
	b, err := canonical(map[string]any{
		"arena": r.From.Arena, "kind": r.From.Kind, "problem_id": r.From.Task, "problem_digest": r.From.TaskDigest, "scorer": r.From.Scorer, "seed": r.From.Seed, "answer": answer,
	})
	if err != nil {
		return "", fmt.Errorf("write ground truth: %w", err)
	}
	return string(b), nil
}

// halves parts a conversation before the first word of the assistant.
func halves(list []Message) (prompt, completion []Message) {
	for i, m := range list {
		if m.Role == "assistant" {
			return list[:i], list[i:]
		}
	}
	return list, nil
}

func promptText(list []Message) string {
	s := ""
	for _, m := range list {
		s += m.Content + "\n"
	}
	return s
}

// openAI are the messages as OpenAI's API takes them, without names on tool
// messages. Reasoning stands where servers that serve it put it.
func openAI(list []Message) []map[string]any {
	out := make([]map[string]any, 0, len(list))
	for _, m := range list {
		x := map[string]any{"role": m.Role, "content": m.Content}
		if m.Reasoning != "" && !m.harness {
			x["reasoning_content"] = m.Reasoning
		}
		switch {
		case m.Role == "tool":
			x["tool_call_id"] = m.ToolCallID
		case len(m.ToolCalls) > 0:
			x["tool_calls"] = m.ToolCalls
		}
		out = append(out, x)
	}
	return out
}

// trl are the messages in one shape for all rows, as Arrow wants it: every
// field there, arguments as JSON text, because no two tools share a struct. The
// text is spaced as chat templates write an object, so that it renders as one.
func trl(list []Message) []map[string]any {
	out := make([]map[string]any, 0, len(list))
	for _, m := range list {
		calls := []map[string]any{}
		for _, c := range m.ToolCalls {
			calls = append(calls, map[string]any{"type": "function", "function": map[string]any{"name": c.Function.Name, "arguments": spacedArguments(c.Function.Arguments)}})
		}
		x := map[string]any{"role": m.Role, "content": m.Content, "reasoning_content": "", "name": "", "tool_calls": calls}
		if !m.harness {
			x["reasoning_content"] = m.Reasoning
		}
		if m.Role == "tool" {
			x["name"] = m.Name
		}
		out = append(out, x)
	}
	return out
}

// nested puts tools into the form {type, function{…}}; flat ones are wrapped.
func nested(tools []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(tools))
	for _, t := range tools {
		var d map[string]json.RawMessage
		if json.Unmarshal(t, &d) == nil && d["function"] == nil && d["name"] != nil {
			delete(d, "type")
			if b, err := canonical(map[string]any{"type": "function", "function": d}); err == nil {
				t = b
			}
		}
		out = append(out, t)
	}
	return out
}

// flat puts tools into the form {type, name, description, parameters} of the
// published sets of the field, which OpenAI and TRL do not take.
func flat(tools []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(tools))
	for _, t := range nested(tools) {
		var d struct {
			Function map[string]json.RawMessage `json:"function"`
		}
		if json.Unmarshal(t, &d) == nil && d.Function != nil {
			d.Function["type"] = json.RawMessage(`"function"`)
			if b, err := canonical(d.Function); err == nil {
				t = b
			}
		}
		out = append(out, t)
	}
	return out
}

func toolText(tools []json.RawMessage) string {
	b, err := canonical(nested(tools))
	if err != nil {
		return "[]"
	}
	return string(b)
}

// stepwise are the assistant's turns as texts; a turn is right where its calls
// were valid and brought something, and the last where the task was solved.
func stepwise(r *Row) (texts []string, labels []bool) {
	for i, s := range r.Steps {
		if !s.LossMask {
			continue
		}
		m := r.Messages[s.Step]
		t := m.Content
		for _, c := range m.ToolCalls {
			t += "\n" + c.Function.Name + " " + c.Function.Arguments
		}
		ok := s.ToolValid == nil || (*s.ToolValid && s.Result != nil && *s.Result)
		if i == len(r.Steps)-1 {
			ok = r.solved()
		}
		texts, labels = append(texts, t), append(labels, ok)
	}
	return texts, labels
}

// atifOf writes a row as an ATIF document.
func atifOf(r *Row) *trajectory.Document {
	d := &trajectory.Document{
		SchemaVersion: trajectory.ATIFVersion, SessionID: r.From.Run, TrajectoryID: r.ID,
		Agent: trajectory.AgentInfo{Name: r.From.Submission, Version: string(r.From.Agent), Model: r.From.Model, Tools: r.Tools},
		Extra: map[string]any{"kind": r.From.Kind, "axis": r.Axis, "axis_ratio": r.Ratio, "reward": r.Reward, "provenance": r.From, "split": r.Split, "group_id": r.Cluster},
	}
	if r.Dispatches.Metered > 0 {
		d.Extra["dispatches"] = r.Dispatches
	}
	at := map[string]int{}
	for _, m := range r.Messages {
		if m.Role == "tool" {
			if i, ok := at[m.ToolCallID]; ok {
				s := &d.Steps[i]
				if s.Observation == nil {
					s.Observation = &trajectory.Observation{}
				}
				s.Observation.Results = append(s.Observation.Results, trajectory.Result{Source: m.ToolCallID, Content: m.Content})
				continue
			}
		}
		s := trajectory.Step{ID: len(d.Steps) + 1, Source: m.Role, Message: m.Content}
		switch m.Role {
		case "assistant":
			n := 1
			if m.harness {
				n = 0
			} else {
				s.Reasoning = m.Reasoning
			}
			s.Source, s.LLMCalls = "agent", &n
			for _, c := range m.ToolCalls {
				args := json.RawMessage(c.Function.Arguments)
				var obj map[string]json.RawMessage
				if json.Unmarshal(args, &obj) != nil || obj == nil {
					args, _ = json.Marshal(map[string]string{"_text": c.Function.Arguments}) // strings always encode
				}
				s.ToolCalls = append(s.ToolCalls, trajectory.StepCall{ID: c.ID, Name: c.Function.Name, Arguments: args})
				at[c.ID] = len(d.Steps)
			}
		case "tool":
			s.Source = "user"
		}
		d.Steps = append(d.Steps, s)
	}
	d.Final.Steps = len(d.Steps)
	d.Final.Cost = float64(r.Reward.CostMicros) / 1e6
	return d
}

// verlWriter holds the two Parquet files of verl.
type verlWriter struct {
	sft, rl *os.File
	sftW    *parquet.GenericWriter[verlSFT]
	rlW     *parquet.GenericWriter[verlRL]
	rows    int
	split   string
	waiting int // tokens in the open row group of sft
	prompts int // bytes in the open row group of rl
}

// parquetGroup bounds a row group, in tokens, or in bytes of prompts.
const parquetGroup = 1 << 20

type verlMessage struct {
	Role       string         `parquet:"role"`
	Content    string         `parquet:"content"`
	Reasoning  string         `parquet:"reasoning_content"`
	ToolCalls  []verlToolCall `parquet:"tool_calls,list"`
	ToolCallID string         `parquet:"tool_call_id"`
	Name       string         `parquet:"name"`
}

type verlToolCall struct {
	ID       string       `parquet:"id"`
	Type     string       `parquet:"type"`
	Function verlFunction `parquet:"function"`
}

type verlFunction struct {
	Name      string `parquet:"name"`
	Arguments string `parquet:"arguments"`
}

type verlSFT struct {
	Messages       []verlMessage `parquet:"messages,list"`
	Tools          string        `parquet:"tools"` // JSON text
	EnableThinking bool          `parquet:"enable_thinking"`
}

type verlPrompt struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
}

type verlReward struct {
	Style       string `parquet:"style"`
	GroundTruth string `parquet:"ground_truth"`
}

type verlExtra struct {
	Split           string `parquet:"split"`
	Index           int64  `parquet:"index"`
	ProblemID       string `parquet:"problem_id"`
	GroupID         string `parquet:"group_id"`
	NeedToolsKwargs bool   `parquet:"need_tools_kwargs"`
}

type verlRL struct {
	DataSource  string       `parquet:"data_source"`
	Prompt      []verlPrompt `parquet:"prompt,list"`
	Ability     string       `parquet:"ability"`
	RewardModel verlReward   `parquet:"reward_model"`
	ExtraInfo   verlExtra    `parquet:"extra_info"`
}

// openVerl makes the Parquet files of verl.
func (w *writers) openVerl(split string) error {
	if w.verl != nil {
		return nil
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	v := &verlWriter{split: split}
	var err error
	if v.sft, err = os.Create(filepath.Join(w.dir, "verl_sft.parquet")); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	if v.rl, err = os.Create(filepath.Join(w.dir, "verl_rl.parquet")); err != nil {
		v.sft.Close()
		return fmt.Errorf("write parquet: %w", err)
	}
	opts := []parquet.WriterOption{parquet.Compression(&parquet.Zstd), parquet.CreatedBy("agon", Version, "")}
	v.sftW, v.rlW = parquet.NewGenericWriter[verlSFT](v.sft, opts...), parquet.NewGenericWriter[verlRL](v.rl, opts...)
	w.verl = v
	return nil
}

// parquet appends a solved row to verl's file of conversations.
func (w *writers) parquet(r *Row) error {
	if err := w.openVerl(r.Split); err != nil {
		return err
	}
	return w.verl.add(r)
}

func (v *verlWriter) add(r *Row) error {
	row := verlSFT{Tools: toolText(r.Tools), EnableThinking: false}
	for _, m := range r.Messages {
		x := verlMessage{Role: m.Role, Content: m.Content, ToolCallID: m.ToolCallID, Name: m.Name}
		if !m.harness {
			x.Reasoning = m.Reasoning
		}
		for _, c := range m.ToolCalls {
			x.ToolCalls = append(x.ToolCalls, verlToolCall{c.ID, c.Type, verlFunction(c.Function)})
		}
		row.Messages = append(row.Messages, x)
	}
	if _, err := v.sftW.Write([]verlSFT{row}); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	// A row group waits in memory for its end.
	if v.waiting += r.Tokens; v.waiting > parquetGroup {
		v.waiting = 0
		if err := v.sftW.Flush(); err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
	}
	return nil
}

// prompt appends a problem, solved or not, to verl's file of prompts.
func (v *verlWriter) prompt(r *Row, truth string) error {
	p, _ := halves(r.Messages)
	rl := verlRL{
		DataSource: r.From.Arena, Ability: r.From.Kind, RewardModel: verlReward{"rule", truth},
		ExtraInfo: verlExtra{Split: r.Split, Index: int64(v.rows), ProblemID: r.From.Task, GroupID: r.Cluster},
	}
	for _, m := range p {
		rl.Prompt = append(rl.Prompt, verlPrompt{m.Role, m.Content})
		v.prompts += len(m.Content)
	}
	v.rows++
	if _, err := v.rlW.Write([]verlRL{rl}); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	if v.prompts > parquetGroup {
		v.prompts = 0
		if err := v.rlW.Flush(); err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
	}
	return nil
}

func (v *verlWriter) close() error {
	for _, f := range []func() error{v.sftW.Close, v.rlW.Close, v.sft.Close, v.rl.Close} {
		if err := f(); err != nil {
			return fmt.Errorf("write parquet: %w", err)
		}
	}
	return nil
}
