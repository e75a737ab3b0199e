package mock

import (
	"regexp"
	"strings"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

var (
	readMail   = regexp.MustCompile(`^himalaya\s+(?:message\s+)?read\s+(?:.*\s)?(\S+)$`)
	pageOf     = regexp.MustCompile(`/v1/pages/([^\s"'?/]+)`)
	methodFlag = regexp.MustCompile(`(?:-X\s*|--request[ =])\s*["']?([A-Za-z]+)`)
	eventsOf   = regexp.MustCompile(`googleapis\.com/calendar/v3/calendars/[^\s"']*/events`)
	queryOf    = regexp.MustCompile(`/v1/databases/[^\s"']+/query`)
)

// completed is the answer of a command that worked.
func completed(text string) packfile.Value {
	return packfile.Obj("status", "completed", "exitCode", 0, "durationMs", 42, "aggregated", text)
}

func irreversible(text string) packfile.Value {
	return completed(text).With("_irreversible", packfile.Of(true))
}

func failed(text string) packfile.Value {
	return packfile.Obj("status", "failed", "exitCode", 1, "durationMs", 10, "aggregated", text)
}

// exec plays the command-line programs of an office: a mail client, a task
// board and a calendar behind curl, a calendar client. Nothing is executed.
func (c *call) exec(args packfile.Value) packfile.Value {
	cmd := strings.TrimSpace(args.Get("command").Str)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if !strings.Contains(cmd, p) {
				return false
			}
		}
		return true
	}
	starts := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(cmd, p) {
				return true
			}
		}
		return false
	}
	switch {
	case starts("himalaya list", "himalaya envelope list"):
		return completed(c.mails().Indented())
	case starts("himalaya message read", "himalaya read"):
		return c.readMail(cmd)
	case starts("himalaya message write", "himalaya template write", "himalaya draft", "himalaya message draft"):
		return completed("Draft saved: draft_" + c.stamp())
	case starts("himalaya message send", "himalaya send", "himalaya template send"):
		return irreversible("Message sent successfully")
	case starts("himalaya flag add"):
		return completed("Flag added")
	case starts("curl") && (has("notion.so") || has("notion.com") || has("/v1/databases") || has("/v1/pages")):
		return c.notion(cmd)
	case starts("curl") && eventsOf.MatchString(cmd):
		switch method(cmd) {
		case "POST":
			return irreversible(packfile.Obj("id", "evt_"+c.stamp(), "status", "confirmed").Indented())
		case "DELETE":
			return irreversible("Event deleted")
		case "PATCH", "PUT":
			return completed(packfile.Obj("status", "updated").Indented())
		}
		return completed(packfile.Obj("items", c.fixture("calendar")).Indented())
	case starts("gcalcli agenda", "gcalcli list", "gcalcli search", "gcal list-events"):
		return completed(packfile.Obj("items", c.fixture("calendar")).Indented())
	case starts("gcalcli add", "gcal create-event"):
		return irreversible("Event created: evt_" + c.stamp())
	case starts("gcalcli delete", "gcal delete-event"):
		return irreversible("Event deleted")
	case starts("gh ") || cmd == "gh":
		return completed("(mock gh output)")
	}
	return completed("(mock output for: " + cutRunes(cmd, 100) + ")")
}

func method(cmd string) string {
	if m := methodFlag.FindStringSubmatch(cmd); m != nil {
		return strings.ToUpper(m[1])
	}
	if strings.Contains(cmd, " -d ") || strings.Contains(cmd, " --data") {
		return "POST"
	}
	return "GET"
}

func (c *call) mails() packfile.Value {
	out := packfile.Value{Kind: packfile.List}
	for _, m := range c.fixture("inbox").List {
		out.List = append(out.List, packfile.Obj(
			"id", m.Get("id"), "sender", m.Get("sender"), "subject", m.Get("subject"), "date", m.Get("received_ts"), "flags", labels(m)))
	}
	return out
}

func labels(m packfile.Value) packfile.Value {
	if l := m.Get("labels"); l.Kind == packfile.List {
		return l
	}
	return packfile.Value{Kind: packfile.List}
}

func (c *call) readMail(cmd string) packfile.Value {
	m := readMail.FindStringSubmatch(cmd)
	id := ""
	if m != nil {
		id = strings.Trim(m[1], `"'`)
	}
	for _, mail := range c.fixture("inbox").List {
		if id != "" && mail.Get("id").Text() == id {
			return completed("From: " + mail.Get("sender").Text() + "\nSubject: " + mail.Get("subject").Text() +
				"\nDate: " + mail.Get("received_ts").Text() + "\n\n" + mail.Get("body").Str)
		}
	}
	return failed("Message not found: " + cutRunes(id, 100))
}

func (c *call) notion(cmd string) packfile.Value {
	switch {
	case queryOf.MatchString(cmd):
		return completed(packfile.Obj("results", c.fixture("tasks")).Indented())
	case pageOf.MatchString(cmd):
		id := pageOf.FindStringSubmatch(cmd)[1]
		for _, name := range []string{"tasks", "documents"} {
			for _, e := range c.fixture(name).List {
				if e.Get("id").Text() == id {
					return completed(e.Indented())
				}
			}
		}
		return failed("Page not found: " + cutRunes(id, 100))
	case strings.Contains(cmd, "/v1/pages") && method(cmd) == "POST":
		return completed(packfile.Obj("id", "page_"+c.stamp(), "status", "created").Indented())
	case method(cmd) == "PATCH":
		return completed(packfile.Obj("status", "updated").Indented())
	case strings.Contains(cmd, "/v1/databases"):
		return completed(packfile.Obj("results", c.fixture("documents")).Indented())
	}
	return completed("(mock output for: " + cutRunes(cmd, 100) + ")")
}

func cutRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
