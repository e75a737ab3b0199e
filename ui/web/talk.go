package web

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// A conversation sends all that was said with each call. A page shows of each call
// what it adds to the one before, and folded the lines by which they differ.

// talk remembers the last calls of a model that a page has shown.
type talk struct{ calls []said }

// said is the prompt of one call.
type said struct {
	seq   int64
	task  string
	parts []string // a message each: its role, its text, its calls of tools
}

const (
	keptCalls  = 4         // that the next may go on from: agents may lead several conversations
	maxPrompt  = 128 << 10 // bytes of a prompt that are compared
	maxChanged = 400       // lines of a difference
)

// stepOf makes a step of an event alone. limit bounds each block.
func stepOf(e agon.Event, limit int) Step { return new(talk).step(e, limit) }

// fresh are the messages of a call that say something new: what stands after the
// model's last word and was not in the call before. before counts the rest.
func (t *talk) fresh(s *Step, body string, b *blocks) (list []chatMessage, before int) {
	all := messagesOf(body)
	if len(all) == 0 {
		return nil, 0
	}
	list, before = lastMessages(all)
	now := said{seq: s.Seq, task: s.Task}
	size := 0
	for _, m := range all {
		p := m.Role + "\n" + m.text() + "\n"
		if len(m.Calls) > 0 {
			p += indent(m.Calls) + "\n"
		}
		size += len(p)
		now.parts = append(now.parts, p)
	}
	var last *said
	same := 0
	for i := range t.calls { // the one that it shares most with, the latest of such
		if c := &t.calls[i]; c.task == now.task {
			if n := sharedParts(c.parts, now.parts); last == nil || n >= same {
				last, same = c, n
			}
		}
	}
	if last != nil {
		if same > before {
			list, before = all[same:], same
		}
		if same == len(all) && same == len(last.parts) {
			s.Facts = append(s.Facts, fmt.Sprintf("the same prompt as step %d", last.seq))
		} else {
			b.since(last, now.parts, same)
		}
	}
	if size <= maxPrompt {
		t.calls = append(t.calls[max(0, len(t.calls)-keptCalls+1):], now)
	}
	return list, before
}

func sharedParts(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// since adds, folded, the lines by which a prompt differs from an earlier one, of
// whose messages the first same are alike.
func (b *blocks) since(last *said, now []string, same int) {
	was, is := strings.Join(last.parts[same:], ""), strings.Join(now[same:], "")
	if len(was)+len(is) > 2*maxPrompt {
		return
	}
	d := Block{Agent: true, Folded: true}
	added, gone := 0, 0
	for l := range strings.Lines(string(diff.Diff("before", []byte(was), "now", []byte(is)))) {
		x := diffLine{Class: lineClass(l)}
		if x.Class == "at" && !strings.HasPrefix(l, "@@") {
			continue // names of files, of which there are none
		}
		switch x.Class {
		case "add":
			added++
		case "del":
			gone++
		}
		if len(d.Diff) == maxChanged {
			d.More = true
			continue
		}
		var cut bool
		x.Text, cut = text(strings.TrimSuffix(l, "\n"), maxLine)
		d.More = d.More || cut
		d.Diff = append(d.Diff, x)
	}
	d.Label = fmt.Sprintf("prompt since step %d: %s added", last.seq, plain.Count(added, "line"))
	if gone > 0 {
		d.Label += fmt.Sprintf(", %d gone", gone)
	}
	b.list = append(b.list, d)
}

// chatMessage is one message of a request as clients write it.
type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
}

func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) == nil {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		return b.String()
	}
	return string(m.Content)
}

// messagesOf are all messages of a request; none where it has none, or is cut.
func messagesOf(body string) []chatMessage {
	var q struct {
		Messages []chatMessage `json:"messages"`
		Input    []chatMessage `json:"input"`
	}
	if json.Unmarshal([]byte(body), &q) != nil {
		return nil
	}
	if len(q.Messages) == 0 {
		return q.Input
	}
	return q.Messages
}

// lastMessages are those after the model's last word. before counts the rest,
// which other steps show.
func lastMessages(list []chatMessage) (fresh []chatMessage, before int) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role == "assistant" {
			return list[i+1:], i + 1
		}
	}
	return list, 0
}
