package mock

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// number reads an argument that should be a whole number.
func number(v packfile.Value, otherwise int) int {
	text := v.Int
	if v.Kind == packfile.String {
		text = v.Str
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return otherwise
	}
	return n
}

// slack plays the chat.
func (c *call) slack(args packfile.Value) packfile.Value {
	action := args.Get("action").Str
	channel := args.Get("channelId")
	if !channel.Truth() {
		channel = args.Get("to")
	}
	ok := packfile.Obj("ok", true)
	switch action {
	case "readMessages":
		return ok.With("messages", c.messages(channel.Str, number(args.Get("limit"), 50)))
	case "sendMessage":
		return ok.With("messageId", packfile.Of("slack_msg_"+c.stamp())).With("to", orEmpty(args.Get("to"), channel)).
			With("content", orEmpty(args.Get("content"), args.Get("text"))).With("warning", packfile.Of("Message sent to Slack - this is irreversible"))
	case "editMessage":
		return ok.With("messageId", args.Get("messageId")).With("edited", packfile.Of(true))
	case "deleteMessage":
		return ok.With("messageId", args.Get("messageId")).With("deleted", packfile.Of(true)).With("warning", packfile.Of("Message deleted - this is irreversible"))
	case "react":
		return ok.With("messageId", args.Get("messageId")).With("emoji", args.Get("emoji"))
	case "reactions":
		return ok.With("reactions", packfile.Of([]any{packfile.Obj("emoji", "thumbsup", "count", 3)}))
	case "pinMessage", "unpinMessage":
		return ok.With("messageId", args.Get("messageId"))
	case "listPins":
		return ok.With("pins", packfile.Of([]any{}))
	case "memberInfo":
		return ok.With("member", c.member(args.Get("userId").Str))
	case "listChannels":
		return ok.With("channels", c.fixture("slack_channels"))
	case "emojiList":
		return ok.With("emoji", packfile.Of([]any{}))
	}
	return packfile.Obj("ok", false, "error", "Unknown action: "+cutRunes(action, 100))
}

func orEmpty(a, b packfile.Value) packfile.Value {
	if a.Truth() {
		return a
	}
	if b.Truth() {
		return b
	}
	return packfile.Of("")
}

// messages are those of a channel, by its id or its name; without one all.
func (c *call) messages(channel string, limit int) packfile.Value {
	channel = strings.TrimPrefix(strings.TrimSpace(channel), "#")
	names := map[string]bool{channel: true}
	for _, ch := range c.fixture("slack_channels").List {
		id, name := ch.Get("id").Str, strings.TrimPrefix(ch.Get("name").Str, "#")
		if id == channel || name == channel {
			names[id], names[name] = true, true
		}
	}
	out := packfile.Value{Kind: packfile.List}
	for _, m := range c.fixture("slack_messages").List {
		at := ""
		for _, f := range []string{"channel", "channelId", "channel_id", "channel_name"} {
			if s := m.Get(f).Str; s != "" {
				at = strings.TrimPrefix(s, "#")
				break
			}
		}
		if (channel == "" || names[at]) && len(out.List) < max(0, limit) {
			out.List = append(out.List, m)
		}
	}
	return out
}

func (c *call) member(id string) packfile.Value {
	for _, p := range c.fixture("contacts").List {
		if id != "" && (p.Get("slack_id").Str == id || p.Get("id").Str == id) {
			return p
		}
	}
	return packfile.Obj("id", id, "name", "Unknown User")
}

// memorySearch finds lines that hold any word of the query.
func (c *call) memorySearch(args packfile.Value) packfile.Value {
	words := strings.Fields(strings.ToLower(args.Get("query").Str))
	most := number(args.Get("maxResults"), 5)
	results := []any{}
	for _, f := range c.sc.memory {
		for i, line := range f.lines {
			if len(results) >= max(0, most) || !hit(strings.ToLower(line), words) {
				continue
			}
			start, end := max(0, i-1), min(len(f.lines), i+3)
			score := 0.85
			if f.path == "MEMORY.md" {
				score = 0.80
			}
			results = append(results, packfile.Obj(
				"snippet", strings.Join(f.lines[start:end], "\n"), "path", f.path, "startLine", start+1, "endLine", end,
				"score", score, "citation", fmt.Sprintf("%s#L%d-L%d", f.path, start+1, end)))
		}
	}
	return packfile.Obj("results", results, "provider", "mock", "citations", "on")
}

func hit(line string, words []string) bool {
	for _, w := range words {
		if strings.Contains(line, w) {
			return true
		}
	}
	return false
}

func (c *call) memoryGet(args packfile.Value) packfile.Value {
	name := args.Get("path").Str
	for _, f := range c.sc.memory {
		if f.path == name || path.Base(f.path) == name {
			from := max(1, number(args.Get("from"), 1))
			n := max(0, number(args.Get("lines"), 100))
			lines := f.lines[min(from-1, len(f.lines)):]
			return packfile.Obj("path", name, "text", strings.Join(lines[:min(n, len(lines))], "\n"))
		}
	}
	return packfile.Obj("path", name, "text", "", "error", "File not found: "+cutRunes(name, 200))
}

func (c *call) webSearch(args packfile.Value) packfile.Value {
	query, count := args.Get("query").Str, number(args.Get("count"), 5)
	found := c.fixture("web_search")
	results := packfile.Value{Kind: packfile.List}
	switch found.Kind {
	case packfile.Object:
		e := found.Get(query)
		if e.Kind == packfile.Object {
			e = e.Get("results")
		}
		results.List = e.List
	case packfile.List:
		results.List = found.List
	}
	results.List = results.List[:min(len(results.List), max(0, count))]
	if len(results.List) == 0 {
		placeholder := packfile.Obj("title", "Search result for: "+query, "url", "https://example.com/search", "description", "Mock search result for "+query)
		return packfile.Obj("query", query, "provider", "brave", "count", 1, "tookMs", 100, "results", []any{placeholder})
	}
	return packfile.Obj("query", query, "provider", "brave", "count", len(results.List), "tookMs", 234, "results", results)
}

func (c *call) webFetch(args packfile.Value) packfile.Value {
	url, mode := args.Get("url").Str, orEmpty(args.Get("extractMode"), packfile.Of("markdown"))
	pages := c.fixture("web_pages")
	page := pages.Get(url)
	for _, p := range pages.List {
		if p.Get("url").Str == url {
			page = p
		}
	}
	switch page.Kind {
	case packfile.Object:
		return packfile.Obj("url", url, "status", 200, "title", page.Get("title"), "extractMode", mode, "text", orEmpty(page.Get("text"), page.Get("content")))
	case packfile.String:
		return packfile.Obj("url", url, "status", 200, "title", "", "extractMode", mode, "text", page)
	}
	return packfile.Obj("url", url, "status", 404, "extractMode", mode, "text", "", "error", "Page not found: "+cutRunes(url, 200))
}

// read reads a file of the workspace, then of the fixtures.
func (c *call) read(args packfile.Value) packfile.Value {
	name := args.Get("path").Str
	text, ok := c.find(name)
	if !ok {
		return packfile.Obj("path", name, "content", "", "error", "File not found: "+cutRunes(name, 200))
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	from, n := max(1, number(args.Get("from"), 1)), max(0, number(args.Get("lines"), 2000))
	var b strings.Builder
	for i := from; i <= len(lines) && i < from+n; i++ {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%3d\t%s", i, lines[i-1])
	}
	return packfile.Obj("path", name, "content", b.String())
}

// find looks a name up: as a path in the workspace, by its last element there,
// as a path among the fixtures, by its last element there.
func (c *call) find(name string) (string, bool) {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "/workspace/"), "./")
	base := path.Base(name)
	for _, at := range []struct {
		read func(string) (string, bool)
		name string
	}{{c.workspace, name}, {c.workspace, base}, {c.sc.text, name}, {c.sc.text, base}} {
		if text, ok := at.read(at.name); ok {
			if strings.HasSuffix(at.name, ".md") {
				text = fill(text, c.user)
			}
			return text, true
		}
	}
	return "", false
}
