package score

import (
	"fmt"
	"strings"
	"unicode"
)

// Names of the tool calls that scoring looks at.
const (
	toolRecommend = "recommend_product"
	toolTerminate = "terminate"
	statusFailure = "failure"
)

// episode is what scoring reads of an agent's steps.
type episode struct {
	length, format float64
	ids            []string // the answer, without duplicates
	gaveUp         bool     // the last step terminates with status failure
}

// read reads the steps of the document in t.
func (s *Scorer) read(t *tape) (episode, error) {
	var e episode
	if t.kind(0) != kindArray {
		return e, fmt.Errorf("%w: output: want a list of steps", ErrUnscored)
	}
	steps, sum, last := 0, 0.0, -1
	var err error
	t.each(0, func(step int) bool {
		steps, last = steps+1, step
		var f float64
		f, err = s.format(t, step, steps)
		sum += f
		if ids, ok := s.answer(t, step); ok {
			e.ids = ids
		}
		return err == nil
	})
	if err != nil {
		return e, err
	}
	if steps == 0 {
		return e, nil
	}
	e.format = sum / float64(steps)
	msg := message(t, last)
	if t.kind(msg) != kindObject && !s.cfg.Fix.has(FixMalformedStep) {
		return e, fmt.Errorf("%w: step %d, the last, has no completion.message", ErrUnscored, steps)
	}
	if calls := t.get(msg, "tool_call"); t.kind(calls) == kindArray {
		t.each(calls, func(call int) bool {
			if name := t.get(call, "name"); t.kind(name) == kindString && t.is(name, toolTerminate) {
				e.length = 1 / float64(steps)
				status := t.get(t.get(call, "parameters"), "status")
				e.gaveUp = t.kind(status) == kindString && t.is(status, statusFailure)
			}
			return e.length == 0
		})
	}
	return e, nil
}

func message(t *tape, step int) int { return t.get(t.get(step, "completion"), "message") }

// answer reads a step's last recommendation. ok is false where the step has
// none that counts; a call without usable ids wipes earlier answers in Compat.
func (s *Scorer) answer(t *tape, step int) (ids []string, ok bool) {
	calls := t.get(message(t, step), "tool_call")
	if t.kind(calls) != kindArray {
		return nil, false
	}
	t.each(calls, func(call int) bool {
		name := t.get(call, "name")
		if name < 0 {
			return s.cfg.Fix.has(FixMalformedStep) // Compat stops reading the step here
		}
		if t.kind(name) != kindString || !t.is(name, toolRecommend) {
			return true
		}
		params := t.get(call, "parameters")
		if t.kind(params) != kindObject {
			return s.cfg.Fix.has(FixMalformedStep)
		}
		n := t.get(params, "product_ids")
		switch {
		case t.kind(n) == kindString:
			ids, ok = splitIDs(t.text(n)), true
		case s.cfg.Fix.has(FixNumericIDs) && t.kind(n) == kindNumber:
			ids, ok = splitIDs(string(t.src[t.nodes[n].start:t.nodes[n].end])), true
		case !s.cfg.Fix.has(FixWipedAnswer):
			ids, ok = nil, true
		}
		return true
	})
	return ids, ok
}

// splitIDs splits on commas, strips white space, drops what is empty and what
// came before, and reads at most MaxIDs.
func splitIDs(s string) []string {
	var ids []string
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimFunc(part, pySpace)
		if part == "" || seen[part] {
			continue
		}
		seen[part] = true
		if ids = append(ids, part); len(ids) == MaxIDs {
			break
		}
	}
	return ids
}

// pySpace reports whether Python's strip removes r.
func pySpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }

// format is one step's share: 1 where the message has the right form, half of
// it where the step has no time. number counts steps from 1.
func (s *Scorer) format(t *tape, step, number int) (float64, error) {
	msg := message(t, step)
	if t.kind(msg) != kindObject {
		return 0, nil // skipped, but it stays in the mean
	}
	think, calls, response, obs := -1, -1, -1, -1
	for i := msg + 1; i < int(t.nodes[msg].next); {
		v := int(t.nodes[i].next)
		switch {
		case t.is(i, "think"):
			think = v
		case t.is(i, "tool_call"):
			calls = v
		case t.is(i, "response"):
			response = v
		case t.is(i, "obs"):
			obs = v
		}
		i = int(t.nodes[v].next)
	}
	for _, part := range []struct {
		name string
		node *int
		want kind
	}{{"think", &think, kindString}, {"tool_call", &calls, kindArray}, {"response", &response, kindString}, {"obs", &obs, kindArray}} {
		if *part.node >= 0 && t.kind(*part.node) != part.want {
			if !s.cfg.Fix.has(FixMalformedStep) {
				return 0, fmt.Errorf("%w: step %d: %s has the wrong type", ErrUnscored, number, part.name)
			}
			if t.kind(*part.node) != kindNull {
				return 0, nil
			}
			*part.node = -1
		}
	}
	present := func(n int) bool { return n >= 0 && !t.empty(n) }
	if !present(think) || (!present(calls) && !present(response)) {
		return 0, nil
	}
	// The rendered message holds each tag once exactly if no part holds any.
	if t.tagged(think) || (present(response) && t.tagged(response)) {
		return 0, nil
	}
	if present(calls) {
		ok := true
		t.each(calls, func(call int) bool {
			name, params := t.get(call, "name"), t.get(call, "parameters")
			ok = t.kind(name) == kindString && t.kind(params) == kindObject
			if ok && s.cfg.Fix.has(FixResultTags) {
				ok = !t.tagged(name) && !t.tagged(params)
			}
			return ok
		})
		if !ok || (!s.cfg.Fix.has(FixResultTags) && t.tagged(calls)) {
			return 0, nil
		}
	}
	return s.timed(t, t.get(t.get(step, "extra_info"), "timestamp")), nil
}

// timed is 1 where the step has a time after 0, else a half.
func (s *Scorer) timed(t *tape, n int) float64 {
	switch t.kind(n) {
	case kindNumber:
		if t.positive(n) {
			return 1
		}
	case kindBool:
		if t.src[t.nodes[n].start] == 't' && !s.cfg.Fix.has(FixBoolTime) {
			return 1
		}
	}
	return 0.5
}
