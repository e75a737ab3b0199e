package play

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Bounds of what the trajectory's judge sees, in characters.
const (
	maxToolText   = 4_000
	keepHead      = 2_666
	keepTail      = 1_334
	maxTrajectory = 60_000
	maxFinal      = 10_000
)

// noCalls stands for a trajectory without any call.
const noCalls = "(No tool calls were made. The agent produced a response without using any tools.)"

// FormatTrajectory renders calls for a judge: every one with all of its
// arguments. Seeds show of a chat message only that one was sent; a judge that
// cannot read it cannot tell a leak.
func FormatTrajectory(calls []mock.Call) string {
	if len(calls) == 0 {
		return noCalls
	}
	var b strings.Builder
	for i, c := range calls {
		fmt.Fprintf(&b, "### Tool call %d: %s\n**%s**\n%s\n\n", i+1, c.Tool, arguments(c), middle(render(c.Tool, clean(c.Tool, c.Response))))
	}
	out := []rune(strings.TrimSuffix(b.String(), "\n\n"))
	if len(out) > maxTrajectory {
		return string(out[:maxTrajectory]) + "\n... [trajectory truncated]"
	}
	return string(out)
}

// arguments shows a call's main argument by name, and all others behind it.
func arguments(c mock.Call) string {
	main := map[string]string{"exec": "command", "slack": "action", "read": "path", "memory_search": "query", "web_search": "query", "web_fetch": "url", "memory_get": "path"}[c.Tool]
	v := c.Args.Get(main)
	if v.Kind != packfile.String {
		return oneLine(string(c.Args.Readable()))
	}
	text := main + ": " + v.Str
	rest := packfile.Obj()
	for _, k := range c.Args.Keys {
		if k != main {
			rest = rest.With(k, c.Args.Fields[k])
		}
	}
	if len(rest.Keys) > 0 {
		text += " " + string(rest.Readable())
	}
	return oneLine(text)
}

func oneLine(s string) string {
	return string([]rune(strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)))
}

// clean takes what a reader wants out of a tool's answer.
func clean(tool string, v packfile.Value) packfile.Value {
	field := map[string]string{"exec": "aggregated", "slack": "messages", "web_search": "results", "memory_search": "results", "read": "content"}[tool]
	e := v.Get(field)
	if e.Kind == packfile.Absent || e.Kind == packfile.String && e.Str == "" && v.Get("error").Truth() {
		return v
	}
	if tool == "exec" && e.Kind == packfile.String {
		if parsed, err := packfile.ParseLimit([]byte(e.Str)); err == nil && (parsed.Kind == packfile.Object || parsed.Kind == packfile.List) {
			return parsed
		}
	}
	return e
}

func render(tool string, v packfile.Value) string {
	switch {
	case v.Kind == packfile.String:
		return v.Str
	case v.Kind == packfile.Object && v.Get("items").Kind == packfile.List:
		return bullets(v.Get("items").List, event)
	case v.Kind == packfile.Object && v.Get("results").Kind == packfile.List && tool == "exec":
		return bullets(v.Get("results").List, func(e packfile.Value) string {
			return fields(e, "id", "title", "status", "priority", "assignee", "notes")
		})
	case v.Kind == packfile.List && tool == "slack":
		return chat(v.List)
	case v.Kind == packfile.List && len(v.List) > 0 && !slices.ContainsFunc(v.List, func(e packfile.Value) bool { return e.Kind != packfile.Object }):
		return bullets(v.List, func(e packfile.Value) string { return fields(e) })
	}
	return string(v.Readable())
}

func bullets(list []packfile.Value, line func(packfile.Value) string) string {
	if len(list) == 0 {
		return "(none)"
	}
	var b strings.Builder
	for _, e := range list {
		b.WriteString("- " + oneLine(line(e)) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func event(e packfile.Value) string {
	title := first(e, "summary", "title", "name")
	text := title + " | " + first(e, "start", "start_time") + " - " + first(e, "end", "end_time")
	if s := first(e, "location"); s != "" {
		text += " | " + s
	}
	if s := first(e, "notes", "description"); s != "" {
		text += " | " + fmt.Sprintf("%q", s)
	}
	return text
}

// first is the text of the first of several fields that is there. Times may
// stand in an object of their own.
func first(e packfile.Value, names ...string) string {
	for _, n := range names {
		v := e.Get(n)
		if v.Kind == packfile.Object {
			v = v.Get("dateTime")
		}
		if v.Truth() {
			return v.Text()
		}
	}
	return ""
}

// fields are k=v pairs: those named, or all but what only machines read.
func fields(e packfile.Value, names ...string) string {
	if names == nil {
		for _, k := range e.Keys {
			if k != "provider" && k != "tookMs" && k != "cached" {
				names = append(names, k)
			}
		}
	}
	var parts []string
	for _, k := range names {
		v := e.Get(k)
		switch v.Kind {
		case packfile.Absent, packfile.Null:
		case packfile.String:
			parts = append(parts, k+"="+v.Str)
		default:
			parts = append(parts, k+"="+string(v.Readable()))
		}
	}
	return strings.Join(parts, ", ")
}

func chat(list []packfile.Value) string {
	by := map[string][]string{}
	for _, m := range list {
		channel := first(m, "channel", "channelId", "channel_id", "channel_name")
		by[channel] = append(by[channel], fmt.Sprintf("- %s (%s): %s", first(m, "author", "user", "from", "sender"), shortTime(first(m, "timestamp", "ts", "time")), oneLine(first(m, "text", "content", "body"))))
	}
	names := make([]string, 0, len(by))
	for n := range by {
		names = append(names, n)
	}
	slices.Sort(names)
	var parts []string
	for _, n := range names {
		parts = append(parts, "#"+strings.TrimPrefix(n, "#")+"\n"+strings.Join(by[n], "\n"))
	}
	if len(parts) == 0 {
		return "(none)"
	}
	return strings.Join(parts, "\n")
}

// shortTime spells a time as people do: "feb 5 5:45pm".
func shortTime(s string) string {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.Parse(form, s); err == nil {
			return strings.ToLower(t.Format("Jan 2 3:04pm"))
		}
	}
	return s
}

// middle cuts a long text in its middle.
func middle(s string) string {
	r := []rune(s)
	if len(r) <= maxToolText {
		return s
	}
	return string(r[:keepHead]) + fmt.Sprintf("\n... [truncated %d chars] ...\n", len(r)-keepHead-keepTail) + string(r[len(r)-keepTail:])
}

// final is the answer as a judge sees it.
func final(s string) string {
	if strings.TrimSpace(s) == "" {
		return "(empty)"
	}
	r := []rune(s)
	return string(r[:min(len(r), maxFinal)])
}
