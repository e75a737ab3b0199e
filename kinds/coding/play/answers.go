package play

import (
	"fmt"
	"path"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Bounds of what an agent may bring along.
const (
	// maxHunks is how many pieces of patches may stand in an agent's texts: an example
	// for a model has one or two, a table of answers one a task.
	maxHunks = 8
	// maxCoded is how many bytes of its texts may be data in letters, as base64 has it,
	// before those who look at it are told.
	maxCoded = 8 << 10
	// maxNamed is how many of an arena's tasks an agent's texts may name, and taskName how
	// long a name is that stands there for nothing else.
	maxNamed, taskName = 8, 10
)

var (
	hunkHead = lazyregexp.New(`@@ -[0-9]{1,9}(?:,[0-9]{1,9})? \+[0-9]{1,9}`)
	coded    = lazyregexp.New(`[A-Za-z0-9+/=_\-]{256,}`)
)

// embedded says whether an agent's texts look like answers that it knows by heart.
// It measures form only: whoever hides a table better is met by tasks that are
// hidden and change with the set period.
func embedded(src string) []agon.Finding {
	texts, err := literals(src)
	if err != nil {
		return nil // it was told before
	}
	hunks, data := 0, 0
	for _, t := range texts {
		hunks += len(hunkHead().FindAllStringIndex(t, -1))
		for _, m := range coded().FindAllString(t, -1) {
			data += len(m)
		}
	}
	switch {
	case hunks > maxHunks:
		return []agon.Finding{{
			Code: FindAnswers, Field: AgentFile, Limit: fmt.Sprintf("%d pieces of patches", maxHunks),
			Message: fmt.Sprintf("agent.py holds %d pieces of patches in its texts: a table of answers is not an agent", hunks),
		}}
	case data > maxCoded:
		return []agon.Finding{{
			Code: FindCoded, Field: AgentFile, Limit: fmt.Sprintf("%d bytes", maxCoded), Warning: true,
			Message: fmt.Sprintf("agent.py holds %d bytes of data in letters, which nobody can read", data),
		}}
	}
	return nil
}

// named says whether an agent's texts name the tasks of its arena: what looks its answers
// up by the package or the task does. Hidden tasks are not looked for, as a refusal would tell their names.
func named(src string, tasks []agon.TaskRef) []agon.Finding {
	texts, err := literals(src)
	if err != nil {
		return nil
	}
	all, seen := strings.Join(texts, "\n"), map[string]bool{}
	for _, t := range tasks {
		if name := path.Base(t.Key); !t.Hidden && len(name) >= taskName && strings.ContainsAny(name, "-_0123456789") && strings.Contains(all, name) {
			seen[name] = true
		}
	}
	if len(seen) <= maxNamed {
		return nil
	}
	return []agon.Finding{{
		Code: FindAnswers, Field: AgentFile, Limit: fmt.Sprintf("%d names of tasks", maxNamed),
		Message: fmt.Sprintf("agent.py names %d of the arena's tasks in its texts: a table of answers is not an agent", len(seen)),
	}}
}

// literals are the texts that stand in a Python file, as they are written there.
// Those that stand beside each other are one.
func literals(src string) ([]string, error) {
	toks, err := pyTokens(src)
	if err != nil {
		return nil, err
	}
	var out []string
	joined := false
	for _, t := range toks {
		if t.kind != tokString {
			joined = false
			continue
		}
		text := strings.Trim(src[t.from:t.to], `"'`)
		if joined {
			out[len(out)-1] += text
		} else {
			out = append(out, text)
		}
		joined = true
	}
	return out, nil
}
