package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxDocument bounds a document that Validate reads, in bytes.
const maxDocument = 256 << 20

// kinds of a field's value.
type check func(at string, v json.RawMessage) error

// Validate checks a document against ATIF v1.8 (or v1.7): unknown fields, types, step
// numbers without a gap, fields that only an agent's step may have, calls that
// an observation names, and llm_call_count 0. The error names the field.
func Validate(b []byte) error {
	if len(b) > maxDocument {
		return fmt.Errorf("check trajectory: larger than %d bytes", maxDocument)
	}
	if err := document("", b); err != nil {
		return fmt.Errorf("check trajectory: %w", err)
	}
	return nil
}

func document(at string, v json.RawMessage) error {
	m, err := object(at, v, map[string]check{
		"schema_version": text, "session_id": text, "trajectory_id": text, "agent": agentInfo, "steps": steps, "notes": text,
		"final_metrics": object2(map[string]check{
			"total_prompt_tokens": whole, "total_completion_tokens": whole, "total_cached_tokens": whole, "total_cost_usd": number, "total_steps": whole, "extra": anyObject,
		}),
		"continued_trajectory_ref": text, "extra": anyObject,
		"subagent_trajectories": list(func(at string, v json.RawMessage) error {
			var x struct {
				ID *string `json:"trajectory_id"`
			}
			if json.Unmarshal(v, &x) != nil || x.ID == nil {
				return field(at+".trajectory_id", "missing")
			}
			return document(at, v)
		}),
	}, "schema_version", "agent", "steps")
	if err != nil {
		return err
	}
	if s := string(m["schema_version"]); !slices.ContainsFunc(atifRead, func(v string) bool { return s == strconv.Quote(v) }) {
		return field(at+".schema_version", "%.40s is neither of %s", s, strings.Join(atifRead, ", "))
	}
	return nil
}

func agentInfo(at string, v json.RawMessage) error {
	_, err := object(at, v, map[string]check{
		"name": text, "version": text, "model_name": text, "tool_definitions": list(anyObject), "extra": anyObject,
	}, "name", "version")
	return err
}

func steps(at string, v json.RawMessage) error {
	var all []json.RawMessage
	if json.Unmarshal(v, &all) != nil || len(all) == 0 {
		return field(at, "want a list of at least one step")
	}
	for i, s := range all {
		if err := step(fmt.Sprintf("%s[%d]", at, i), s, i+1); err != nil {
			return err
		}
	}
	return nil
}

// agentOnly are the fields that only a step of source agent may have.
var agentOnly = []string{"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}

func step(at string, v json.RawMessage, n int) error {
	ids := map[string]bool{}
	result := func(at string, v json.RawMessage) error {
		m, err := object(at, v, map[string]check{"source_call_id": text, "content": textOrList, "subagent_trajectory_ref": list(anyObject), "extra": anyObject})
		if err != nil {
			return err
		}
		var id *string
		if json.Unmarshal(m["source_call_id"], &id) == nil && id != nil && !ids[*id] {
			return field(at+".source_call_id", "no call of this step has it")
		}
		return nil
	}
	call := func(at string, v json.RawMessage) error {
		_, err := object(at, v, map[string]check{"tool_call_id": text, "function_name": text, "arguments": anyObject, "extra": anyObject}, "tool_call_id", "function_name", "arguments")
		return err
	}
	// Calls first: results name them, whatever the order of the fields.
	var calls struct {
		List []struct {
			ID string `json:"tool_call_id"`
		} `json:"tool_calls"`
	}
	_ = json.Unmarshal(v, &calls) // wrong types are found below
	for _, c := range calls.List {
		ids[c.ID] = true
	}
	m, err := object(at, v, map[string]check{
		"step_id": whole, "timestamp": moment, "source": text, "message": textOrList, "model_name": text, "reasoning_effort": anything,
		"reasoning_content": text, "tool_calls": list(call), "is_copied_context": boolean, "llm_call_count": whole, "extra": anyObject,
		"observation": object2(map[string]check{"results": list(result)}, "results"),
		"metrics": object2(map[string]check{
			"prompt_tokens": whole, "completion_tokens": whole, "cached_tokens": whole, "cost_usd": number,
			"prompt_token_ids": list(whole), "completion_token_ids": list(whole), "logprobs": list(number), "extra": anyObject,
		}),
	}, "step_id", "source", "message")
	if err != nil {
		return err
	}
	if string(m["step_id"]) != strconv.Itoa(n) {
		return field(at+".step_id", "%.20s where %d is due", m["step_id"], n)
	}
	source := string(m["source"])
	switch source {
	case `"system"`, `"user"`:
		for _, f := range agentOnly {
			if has(m, f) {
				return field(at+"."+f, "only a step of source agent has it")
			}
		}
	case `"agent"`:
		if string(m["llm_call_count"]) == "0" && (has(m, "metrics") || has(m, "reasoning_content")) {
			return field(at+".llm_call_count", "0, but the step has metrics or reasoning")
		}
	default:
		return field(at+".source", "want system, user or agent")
	}
	return nil
}

func has(m map[string]json.RawMessage, f string) bool {
	v, ok := m[f]
	return ok && string(v) != "null"
}

func field(at, format string, args ...any) error {
	return errors.New(strings.TrimPrefix(at, ".") + ": " + fmt.Sprintf(format, args...))
}

// object checks an object's fields; need names those that must be there. null counts as absent.
func object(at string, v json.RawMessage, known map[string]check, need ...string) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(v, &m); err != nil || m == nil {
		return nil, field(at, "want an object")
	}
	for k, x := range m {
		c, ok := known[k]
		if !ok {
			return nil, field(at+"."+k, "unknown field")
		}
		if string(x) == "null" {
			continue
		}
		if err := c(at+"."+k, x); err != nil {
			return nil, err
		}
	}
	for _, k := range need {
		if !has(m, k) {
			return nil, field(at+"."+k, "missing")
		}
	}
	return m, nil
}

func object2(known map[string]check, need ...string) check {
	return func(at string, v json.RawMessage) error {
		_, err := object(at, v, known, need...)
		return err
	}
}

func list(of check) check {
	return func(at string, v json.RawMessage) error {
		var l []json.RawMessage
		if json.Unmarshal(v, &l) != nil {
			return field(at, "want a list")
		}
		for i, x := range l {
			if err := of(fmt.Sprintf("%s[%d]", at, i), x); err != nil {
				return err
			}
		}
		return nil
	}
}

func first(v json.RawMessage) byte { return bytes.TrimSpace(append(v, ' '))[0] }

func text(at string, v json.RawMessage) error {
	if first(v) != '"' {
		return field(at, "want a string")
	}
	return nil
}

func textOrList(at string, v json.RawMessage) error {
	if c := first(v); c != '"' && c != '[' {
		return field(at, "want a string or a list of parts")
	}
	return nil
}

func whole(at string, v json.RawMessage) error {
	if n, err := strconv.ParseInt(string(v), 10, 64); err != nil || n < 0 {
		return field(at, "want a whole number ≥ 0")
	}
	return nil
}

func number(at string, v json.RawMessage) error {
	if _, err := strconv.ParseFloat(string(v), 64); err != nil {
		return field(at, "want a number")
	}
	return nil
}

func boolean(at string, v json.RawMessage) error {
	if s := string(v); s != "true" && s != "false" {
		return field(at, "want true or false")
	}
	return nil
}

func moment(at string, v json.RawMessage) error {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return field(at, "want a string")
	}
	if _, err := time.Parse(time.RFC3339Nano, s); err != nil {
		return field(at, "want a time of ISO 8601")
	}
	return nil
}

func anything(string, json.RawMessage) error { return nil }

func anyObject(at string, v json.RawMessage) error {
	if first(v) != '{' {
		return field(at, "want an object")
	}
	return nil
}
