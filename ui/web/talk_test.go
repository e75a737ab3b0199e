package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// asked is a call of a model with a prompt of messages "role:text".
func asked(t *testing.T, seq int64, messages ...string) agon.Event {
	t.Helper()
	list := []map[string]any{}
	for _, m := range messages {
		role, text, _ := strings.Cut(m, ":")
		list = append(list, map[string]any{"role": role, "content": text})
	}
	body, err := json.Marshal(map[string]any{"messages": list})
	must(t, err)
	return event(seq, agon.EventModel, "small/one", map[string]any{
		"receipt": agon.Receipt{ID: fmt.Sprint(seq), Model: "m", Outcome: "ok"}, "request": map[string]any{"text": string(body)}, "message": map[string]any{"content": "reply"},
	})
}

// shape writes a step as what stands open, then each fold with its lines.
func shape(s Step) string {
	var out []string
	for _, f := range s.Facts {
		if strings.Contains(f, "folded") || strings.Contains(f, "same prompt") {
			out = append(out, f)
		}
	}
	for _, b := range s.Blocks {
		switch {
		case b.Diff != nil:
			l := b.Label + " ["
			for _, d := range b.Diff {
				if d.Class != "at" {
					l += d.Text + "|"
				}
			}
			out = append(out, l+"]")
		default:
			out = append(out, b.Label+" "+b.Text)
		}
	}
	return strings.Join(out, "; ")
}

// A call is shown by what it adds to the call before, whether its agent sends the
// conversation with each call or a prompt of its own each time.
func TestPromptsAreShownOnce(t *testing.T) {
	for name, c := range map[string]struct {
		calls [][]string
		want  []string
	}{
		"a conversation": {
			[][]string{{"system:rules", "user:go"}, {"system:rules", "user:go", "assistant:reply", "tool:42"}},
			[]string{
				"system rules; user go; model reply",
				"3 earlier messages folded; prompt since step 1: 4 lines added [+assistant|+reply|+tool|+42|]; tool 42; model reply",
			},
		},
		"the same again": {
			[][]string{{"user:go"}, {"user:go"}},
			[]string{"user go; model reply", "the same prompt as step 1; 1 earlier message folded; model reply"},
		},
		"rules that change": {
			[][]string{{"system:one\ntwo", "user:go"}, {"system:one\nthree", "user:go"}},
			[]string{
				"system one\ntwo; user go; model reply",
				"prompt since step 1: 1 line added, 1 gone [ system| one|-two|+three| user| go|]; system one\nthree; user go; model reply",
			},
		},
		"a shorter one": {
			[][]string{{"user:go", "user:on"}, {"user:go"}},
			[]string{"user go; user on; model reply", "1 earlier message folded; prompt since step 1: 0 lines added, 2 gone [-user|-on|]; model reply"},
		},
		"two at once": {
			[][]string{{"system:a", "user:1"}, {"system:b", "user:2"}, {"system:a", "user:1", "assistant:reply", "user:3"}},
			[]string{
				"system a; user 1; model reply",
				"prompt since step 1: 2 lines added, 2 gone [ system|-a|+b| user|-1|+2|]; system b; user 2; model reply",
				"3 earlier messages folded; prompt since step 1: 4 lines added [+assistant|+reply|+user|+3|]; user 3; model reply",
			},
		},
		"what is no conversation": {
			[][]string{{}, {}},
			[]string{`request {"messages":[]}; model reply`, `request {"messages":[]}; model reply`},
		},
	} {
		var says talk
		for i, m := range c.calls {
			if got := shape(says.step(asked(t, int64(i+1), m...), maxBlock)); got != c.want[i] {
				t.Errorf("%s, call %d:\n%s\nwant\n%s", name, i+1, got, c.want[i])
			}
		}
	}
	var says talk
	says.step(asked(t, 1, "user:"+strings.Repeat("x\n", maxPrompt)), maxBlock)
	if got := says.step(asked(t, 2, "user:go"), maxBlock); strings.Contains(shape(got), "since") || len(says.calls) != 1 {
		t.Errorf("a prompt that is too long is compared: %d kept", len(says.calls))
	}
	many := says.step(asked(t, 3, "user:"+strings.Repeat("y\n", 2*maxChanged)), maxBlock)
	for _, b := range many.Blocks {
		if b.Diff != nil && (len(b.Diff) > maxChanged || !b.More) {
			t.Errorf("%d lines, more: %v", len(b.Diff), b.More)
		}
	}
}

// What prompts hold stays text where it is compared; the first call of a page goes
// on from the last of the page before.
func TestPromptsOnPages(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "talks", "x = 1")
	l := f.claim()
	evil := "tool:</pre><script>alert(1)</script>\x1b[2J\u202eback"
	messages := []string{"user:go"}
	evs := []agon.Event{asked(t, 1, messages...)}
	for i := int64(2); i <= stepsPage+2; i++ {
		messages = append(messages, "assistant:reply", fmt.Sprintf("%s %d", evil, i))
		evs = append(evs, asked(t, i, messages...))
	}
	for len(evs) > 0 {
		n := min(len(evs), 40)
		f.beat(l, evs[:n]...)
		evs = evs[n:]
	}
	f.score(l, 1, "")
	c := f.browser("")
	for _, page := range []string{"", "?attempt=1&page=2"} {
		status, body := f.get(c, "/runs/"+l.Run.Run+page)
		if status != http.StatusOK || !strings.Contains(body, "&lt;/pre&gt;&lt;script&gt;") || strings.Contains(body, "<script>alert") || strings.ContainsAny(body, "\x1b\u202e") {
			t.Fatalf("%s: %d: hostile text", page, status)
		}
		if page != "" && !strings.Contains(body, fmt.Sprintf("prompt since step %d: 4 lines added", stepsPage)) {
			t.Errorf("the first call of page 2 is compared with nothing: %s", body)
		}
	}
}
