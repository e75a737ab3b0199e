// Package scripted is an upstream that answers from a script file instead of
// a model: same request, same bytes. It exists so that an arena can be seen
// working without a key, and so that tests have an OpenAI-compatible server.
// docs/scripted.md describes the file.
package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Script is a parsed script file. It does not change once parsed.
type Script struct {
	// Version of the format; 1.
	Version int `json:"version" toml:"version"`
	// Rules are tried in order; the first that matches answers.
	Rules []Rule `json:"rule" toml:"rule"`
	// Fallback is the answer when no rule matches.
	Fallback string `json:"fallback" toml:"fallback"`
	// For must be part of what stands before the first assistant message in
	// every conversation that this script answers, once it is joined with
	// others; empty: any.
	For string `json:"for" toml:"for"`
}

// Rule answers requests that meet all of its conditions. A condition that is absent holds.
type Rule struct {
	// Task must be part of what stands before the first assistant message:
	// the system prompt and the problem statement. TaskRE is the same as a
	// regular expression (RE2).
	Task   string `json:"task" toml:"task"`
	TaskRE string `json:"task_re" toml:"task_re"`
	// Last must be part of the last user or tool message.
	Last   string `json:"last" toml:"last"`
	LastRE string `json:"last_re" toml:"last_re"`
	// Turn is the number of assistant messages so far, from 0.
	Turn *int `json:"turn" toml:"turn"`

	// Content and ToolCalls are the reply.
	Content   string     `json:"content" toml:"content"`
	ToolCalls []ToolCall `json:"tool_calls" toml:"tool_calls"`
	// Status answers with an HTTP error instead, Hang never answers. Both
	// are for tests of those who call.
	Status int  `json:"status" toml:"status"`
	Hang   bool `json:"hang" toml:"hang"`

	taskRE, lastRE *regexp.Regexp
	scope          string // For of the script that a joined rule comes from
}

// ToolCall is a call that the reply asks for. Arguments is a table, or a
// string that is handed over as it is.
type ToolCall struct {
	Name      string `json:"name" toml:"name"`
	Arguments any    `json:"arguments" toml:"arguments"`

	text string // arguments as the protocol has them
}

// maxScript bounds a script file.
const maxScript = 4 << 20

// Load reads a script from a .toml or .json file.
func Load(path string) (*Script, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open script: %w", err)
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	s, err := Parse(b, strings.TrimPrefix(filepath.Ext(path), "."))
	if err != nil {
		return nil, fmt.Errorf("parse script %s: %w", filepath.Base(path), err)
	}
	return s, nil
}

// Parse reads a script of at most 4 MiB. format is "toml" or "json".
// Unknown fields are refused, so that a misspelt condition cannot match everything.
func Parse(b []byte, format string) (*Script, error) {
	if len(b) > maxScript {
		return nil, fmt.Errorf("script is larger than %d bytes", maxScript)
	}
	s := &Script{}
	switch format {
	case "toml":
		d := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields()
		if err := d.Decode(s); err != nil {
			var strict *toml.StrictMissingError
			if errors.As(err, &strict) {
				return nil, fmt.Errorf("unknown field:\n%s", strict.String())
			}
			return nil, err
		}
	case "json":
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(s); err != nil {
			return nil, err
		}
		if _, err := d.Token(); err != io.EOF {
			return nil, errors.New("data after the script")
		}
	default:
		return nil, fmt.Errorf("format %q: want toml or json", format)
	}
	return s, s.compile()
}

// Join makes one script of several, each answering only what is For it: the
// first of them whose For holds has the last word, by its fallback.
func Join(list ...*Script) *Script {
	out := &Script{Version: 1, Fallback: NoReply}
	for _, s := range list {
		for _, r := range s.Rules {
			r.scope = s.For
			out.Rules = append(out.Rules, r)
		}
		out.Rules = append(out.Rules, Rule{scope: s.For, Content: s.Fallback})
	}
	return out
}

func (s *Script) compile() error {
	if s.Version != 1 {
		return fmt.Errorf("version %d: want 1", s.Version)
	}
	if s.Fallback == "" {
		s.Fallback = NoReply
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		var err error
		if r.TaskRE != "" {
			if r.taskRE, err = regexp.Compile(r.TaskRE); err != nil {
				return fmt.Errorf("rule %d: task_re: %w", i+1, err)
			}
		}
		if r.LastRE != "" {
			if r.lastRE, err = regexp.Compile(r.LastRE); err != nil {
				return fmt.Errorf("rule %d: last_re: %w", i+1, err)
			}
		}
		if r.Status != 0 && (r.Status < 400 || r.Status > 599) {
			return fmt.Errorf("rule %d: status %d: want 400 to 599", i+1, r.Status)
		}
		if r.Status == 0 && !r.Hang && r.Content == "" && len(r.ToolCalls) == 0 {
			return fmt.Errorf("rule %d: it answers nothing: want content, tool_calls, status or hang", i+1)
		}
		for j := range r.ToolCalls {
			t := &r.ToolCalls[j]
			if t.Name == "" {
				return fmt.Errorf("rule %d: tool call %d has no name", i+1, j+1)
			}
			switch a := t.Arguments.(type) {
			case string:
				t.text = a
			case nil:
				t.text = "{}"
			default:
				var buf bytes.Buffer
				e := json.NewEncoder(&buf)
				e.SetEscapeHTML(false)
				if err := e.Encode(a); err != nil {
					return fmt.Errorf("rule %d: tool call %d: arguments: %w", i+1, j+1, err)
				}
				t.text = strings.TrimSuffix(buf.String(), "\n")
			}
		}
	}
	return nil
}

// conversation is what rules look at.
type conversation struct {
	task string // everything before the first assistant message
	last string // the last user or tool message
	turn int    // assistant messages
}

func (r *Rule) matches(c conversation) bool {
	return strings.Contains(c.task, r.scope) &&
		strings.Contains(c.task, r.Task) &&
		strings.Contains(c.last, r.Last) &&
		(r.taskRE == nil || r.taskRE.MatchString(c.task)) &&
		(r.lastRE == nil || r.lastRE.MatchString(c.last)) &&
		(r.Turn == nil || *r.Turn == c.turn)
}

func (s *Script) find(c conversation) *Rule {
	for i := range s.Rules {
		if s.Rules[i].matches(c) {
			return &s.Rules[i]
		}
	}
	return &Rule{Content: s.Fallback}
}
