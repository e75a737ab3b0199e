package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/internal/plain"
)

// A conversation is told in order, cut to the terminal, and nothing that was
// written in it reaches the terminal but as text; colour is ours alone.
func TestStory(t *testing.T) {
	evil := "\x1b]0;title\x07\u202e\x1b[31m"
	d := &trajectory.Document{Steps: []trajectory.Step{
		{ID: 1, Source: "user", Message: "solve it " + evil + strings.Repeat("x", 300) + "\n\tindented"},
		{
			ID: 2, Source: "agent", Model: "m" + evil, Reasoning: "I think", Message: "I look", Metrics: &trajectory.Metrics{Prompt: 12, Completion: 3, Cost: 0.00215},
			ToolCalls:   []trajectory.StepCall{{ID: "c1", Name: "bash" + evil, Arguments: json.RawMessage(`{"command":"ls -l\necho done"}`)}, {ID: "c2", Name: "read", Arguments: json.RawMessage(`{"path":"a","line":3}`)}},
			Observation: &trajectory.Observation{Results: []trajectory.Result{{Source: "c1", Content: "total 0" + evil + strings.Repeat("y\n", storyResult)}}},
		},
		{ID: 3, Source: "user", Message: "said before", Copied: true},
	}}
	for _, width := range []int{0, 20, 80} {
		s := storyteller{width: width}
		s.conversation(d)
		s.patch("--- a\n+++ b\n@@ -1 +1 @@\n-old" + evil + "\n+new")
		got := s.b.String()
		if strings.ContainsAny(got, "\x1b\x07\u202e") {
			t.Errorf("a control reaches the terminal: %q", got)
		}
		for line := range strings.Lines(got) {
			if n := plain.Width(strings.TrimSuffix(line, "\n")); width > 0 && strings.HasPrefix(line, "│") && n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		for _, want := range []string{"1 user", "2 m", "12 + 3 tokens · $0.00215", "→ bash", "command: ls -l", "│ echo done", `"path": "a"`, "← bash", "more characters", "+new", "sent them again: 1"} {
			if width != 20 && !strings.Contains(got, want) {
				t.Errorf("width %d: %q is not in\n%s", width, want, got)
			}
		}
		if strings.Contains(got, "said before") {
			t.Error("what was said again is told again")
		}
	}
	s := storyteller{colour: true}
	s.patch("-old\n+new")
	if got := s.b.String(); got != "\x1b[31m-old\x1b[0m\n\x1b[32m+new\x1b[0m\n" {
		t.Errorf("%q", got)
	}
	s = storyteller{}
	s.conversation(&trajectory.Document{})
	if got := s.b.String(); got != "no model was asked\n" {
		t.Errorf("%q", got)
	}
}

func TestPatchOf(t *testing.T) {
	note := func(attempt int, data string) agon.Event {
		return agon.Event{Attempt: attempt, Type: agon.EventNote, Data: json.RawMessage(data)}
	}
	evs := []agon.Event{note(1, `{"text":"grade","patch":"first"}`), note(2, `{"patch":"second"}`), note(2, `{"withheld":true}`), note(2, `{"text":"other"}`), {Attempt: 2, Type: agon.EventOutput, Data: json.RawMessage(`{"patch":"printed"}`)}}
	for attempt, want := range map[int]string{1: "first", 2: "second", 3: ""} {
		if got := patchOf(evs, attempt); got != want {
			t.Errorf("attempt %d: %q, want %q", attempt, got, want)
		}
	}
}

func TestPagerOf(t *testing.T) {
	for _, c := range []struct{ own, pager, want string }{{"", "", "less"}, {"", "more -s", "more -s"}, {"most", "less", "most"}, {"", "cat", ""}, {"cat", "less", ""}} {
		got := strings.Join(pagerOf(func(n string) string { return map[string]string{"AGON_PAGER": c.own, "PAGER": c.pager}[n] }), " ")
		if got != c.want {
			t.Errorf("AGON_PAGER %q, PAGER %q: %q, want %q", c.own, c.pager, got, c.want)
		}
	}
}

func FuzzCutColumns(f *testing.F) {
	f.Add("日本語 text", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		s = plain.Line(s)
		for rest := s; rest != ""; {
			part := cutColumns(rest, n)
			if part == "" || utf8.RuneCountInString(part) > 1 && plain.Width(part) > max(n, 0) {
				t.Fatalf("%q of %q in %d columns", part, rest, n)
			}
			rest = rest[len(part):]
		}
	})
}
