package mock

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// slack plays the chat.
func (c *call) slack(args packfile.Value) packfile.Value {
	empty := packfile.Of("")
	given := func(name string) packfile.Value { return either(args, name, empty) }
	action := given("action")
	ok := packfile.Obj("ok", true)
	switch action.Str {
	case "readMessages":
		return ok.With("messages", c.messages(args))
	case "sendMessage":
		return packfile.Obj("ok", true, "messageId", "slack_msg_"+c.stamp(), "to", given("to"), "content", given("content"), "warning", "IRREVERSIBLE: message sent")
	case "editMessage":
		return packfile.Obj("ok", true, "channelId", given("channelId"), "messageId", given("messageId"), "content", given("content"))
	case "deleteMessage":
		return packfile.Obj("ok", true, "channelId", given("channelId"), "messageId", given("messageId"), "warning", "IRREVERSIBLE: message deleted")
	case "react":
		return packfile.Obj("ok", true, "channelId", given("channelId"), "messageId", given("messageId"), "emoji", given("emoji"),
			"removed", either(args, "remove", packfile.Of(false)))
	case "reactions":
		return ok.With("reactions", packfile.Of([]any{packfile.Obj("emoji", "thumbsup", "count", 3, "users", []string{"U001", "U002", "U003"})}))
	case "pinMessage":
		return ok.With("pinned", packfile.Of(true))
	case "unpinMessage":
		return ok.With("pinned", packfile.Of(false))
	case "listPins":
		return ok.With("pins", packfile.Of([]any{}))
	case "memberInfo":
		return ok.With("user", c.member(given("userId")))
	case "listChannels":
		return ok.With("channels", c.fixture("slack_channels"))
	case "emojiList":
		return ok.With("emojis", packfile.Of([]any{}))
	}
	return packfile.Obj("ok", false, "error", "Unknown slack action: "+action.Text())
}

// messages are those of a channel, by its id or its name; without one all.
func (c *call) messages(args packfile.Value) packfile.Value {
	asked := either(args, "channelId", either(args, "to", packfile.Of("")))
	list := c.fixture("slack_messages").List
	if asked.Truth() {
		if asked.Kind != packfile.String {
			refuse()
		}
		bare := func(v packfile.Value) string { return strings.TrimLeft(v.Str, "#") }
		channel := bare(asked)
		names := map[string]bool{channel: true}
		for _, ch := range c.fixture("slack_channels").List {
			if id, name := bare(ch.Get("id")), bare(ch.Get("name")); id == channel || name == channel {
				names[id], names[name] = true, true
			}
		}
		var its []packfile.Value
		for _, m := range list {
			if names[bare(m.Get("channel"))] || names[bare(m.Get("channelId"))] {
				its = append(its, m)
			}
		}
		list = its
	}
	return packfile.Value{Kind: packfile.List, List: c.first(list, args, "limit", 50)}
}

func (c *call) member(id packfile.Value) packfile.Value {
	for _, p := range c.fixture("contacts").List {
		if same(p.Get("slack_id"), id) || same(p.Get("id"), id) {
			return p
		}
	}
	return packfile.Obj("id", id, "name", "Unknown User")
}

// memorySearch finds lines that hold any word of the query. The limit is
// looked at after a line is taken, as ClawBench's server does: with a limit of
// 0 the first file can still give one.
func (c *call) memorySearch(args packfile.Value) packfile.Value {
	words := strings.FieldsFunc(strings.ToLower(c.text(args, "query")), pySpace)
	most := either(args, "maxResults", packfile.Of(5))
	full := func(n int) bool {
		if most.Kind == packfile.Float {
			return float64(n) >= most.Float
		}
		limit, ok := whole(most)
		if !ok {
			refuse()
		}
		return n >= limit
	}
	results := []any{}
	search := func(f memoryFile, score float64) {
		for i, line := range f.lines {
			if !hit(strings.ToLower(line), words) {
				continue
			}
			from, to := max(0, i-1), min(len(f.lines), i+3)
			results = append(results, packfile.Obj(
				"snippet", strings.Join(f.lines[from:to], "\n"), "path", f.path, "startLine", from+1, "endLine", to,
				"score", score, "citation", fmt.Sprintf("%s#L%d-L%d", f.path, from+1, to)))
			if full(len(results)) {
				return
			}
		}
	}
	for _, f := range c.sc.memory {
		search(f, 0.85)
		if full(len(results)) {
			break
		}
	}
	if f := c.sc.notes; f != nil && !full(len(results)) {
		search(*f, 0.80)
	}
	return packfile.Obj("results", results, "provider", "mock", "citations", "on")
}

func hit(line string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) })
}

// memoryGet reads a file of the scenario, by its path or its path below memory/.
func (c *call) memoryGet(args packfile.Value) packfile.Value {
	name := either(args, "path", packfile.Of(""))
	if name.Kind == packfile.String {
		for _, dir := range []string{"", "memory"} {
			p, ok := c.sc.inside(dir, name.Str)
			if ok && c.sc.dirs[p] {
				break // a folder cannot be read, and ends the search
			}
			text, there := c.sc.files[p]
			if !ok || !there {
				continue
			}
			lines, _, ok := page(readable(text), args, 100)
			if !ok {
				break
			}
			return packfile.Obj("path", name, "text", strings.Join(lines, "\n"))
		}
	}
	return packfile.Obj("path", name, "text", "", "error", "File not found: "+name.Text())
}

func (c *call) webSearch(args packfile.Value) packfile.Value {
	query := either(args, "query", packfile.Of(""))
	found := c.fixture("web_search")
	results := packfile.Value{Kind: packfile.List}
	switch {
	case !found.Truth():
	case found.Kind == packfile.Object:
		if query.Kind == packfile.List || query.Kind == packfile.Object {
			refuse()
		}
		if e := found.Get(query.Str); query.Kind == packfile.String && e.Kind != packfile.Absent {
			results.List = c.first(e.List, args, "count", 5)
		}
	case found.Kind == packfile.List:
		results.List = c.first(found.List, args, "count", 5)
	}
	if len(results.List) == 0 {
		q := query.Text()
		results.List = []packfile.Value{packfile.Obj("title", "Search result for: "+q, "url", "https://example.com/search?q="+q,
			"description", "Mock search result for '"+q+"'.")}
		return packfile.Obj("query", query, "provider", "brave", "count", 1, "tookMs", 100, "cached", false, "results", results)
	}
	return packfile.Obj("query", query, "provider", "brave", "count", len(results.List), "tookMs", 234, "cached", false, "results", results)
}

func (c *call) webFetch(args packfile.Value) packfile.Value {
	url, mode := either(args, "url", packfile.Of("")), either(args, "extractMode", packfile.Of("markdown"))
	pages := c.fixture("web_pages")
	answer := func(status int, title, text packfile.Value) packfile.Value {
		return packfile.Obj("url", url, "finalUrl", url, "status", status, "contentType", "text/html", "title", title, "extractMode", mode,
			"extractor", "mock", "truncated", false, "length", utf8.RuneCountInString(text.Str), "text", text)
	}
	if pages.Kind == packfile.Object && len(pages.Keys) > 0 && (url.Kind == packfile.List || url.Kind == packfile.Object) {
		refuse()
	}
	if found := pages.Get(url.Str); url.Kind == packfile.String && found.Kind == packfile.Object {
		empty := packfile.Of("")
		return answer(200, either(found, "title", empty), either(found, "text", empty)).With("cached", packfile.Of(false))
	}
	return answer(404, packfile.Of("Not Found"), packfile.Of("")).With("error", packfile.Of("Not Found")).With("cached", packfile.Of(false))
}

// read reads a file of the workspace, then of the fixtures.
func (c *call) read(args packfile.Value) packfile.Value {
	name := c.text(args, "path")
	if strings.Contains(name, "\x00") {
		refuse()
	}
	text, ok := c.find(name)
	if !ok {
		return packfile.Obj("path", name, "content", "", "error", "File not found: "+name)
	}
	lines, at, ok := page(text, args, 2000)
	if !ok {
		refuse()
	}
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "  %d\t%s", at+i, line)
	}
	return packfile.Obj("path", name, "content", b.String())
}

// workspaceDir is where an agent sees its workspace.
const workspaceDir = "/workspace"

// find looks a name up: as a path in the workspace, by its last element there,
// as a path among the fixtures, by its last element there. A path that leaves
// the folder is passed over.
func (c *call) find(name string) (string, bool) {
	base := name[strings.LastIndexByte(name, '/')+1:]
	for _, p := range []string{name, base} {
		if path.IsAbs(p) {
			rest, ok := strings.CutPrefix(path.Clean(p), workspaceDir+"/")
			if !ok {
				continue
			}
			p = rest
		}
		if p = path.Clean(p); p == "." || p == ".." || strings.HasPrefix(p, "../") {
			continue
		}
		if text, ok := c.workspace(p); ok {
			return c.filled(p, text), true
		}
	}
	for _, p := range []string{name, base} {
		p, ok := c.sc.inside("", p)
		if text, there := c.sc.files[p]; ok && there {
			return c.filled(p, text), true
		}
	}
	return "", false
}

func (c *call) filled(name, raw string) string {
	text := readable(raw)
	if path.Ext(name) == ".md" && path.Base(name) != ".md" && len(c.user) > 0 {
		return fill(text, c.user)
	}
	return text
}
