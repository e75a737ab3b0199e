package mock

import (
	"regexp"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// space and bound are what Python's \s and \b see in text, which Go's own see
// in ASCII only.
const (
	space = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`
	solid = `[^\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`
	start = `(?:^|[^\p{L}\p{N}_])`
	end   = `(?:[^\p{L}\p{N}_]|$)`
)

// The programs of an office, recognised anywhere in a command: behind a cd, in
// a pipe, inside sh -c. ClawBench's server searches in this way too.
var (
	mailList  = anywhere(`himalaya\s+(?:envelope\s+)?list`)
	mailRead  = anywhere(`himalaya\s+message\s+read\s+['"]?(\S+)`)
	mailDraft = anywhere(`himalaya\s+(?:message\s+write|template\s+write|draft)`)
	mailSend  = anywhere(`himalaya\s+message\s+send`)
	mailFlag  = anywhere(`himalaya\s+flag\s+add`)

	boardQuery  = anywhere(`(?i)curl.*notion\.(?:so|com)/v1/databases/.*/query`)
	boardPage   = anywhere(`(?i)curl.*notion\.(?:so|com)/v1/pages/([A-Za-z0-9_-]+)`)
	boardCreate = anywhere(`(?i)curl.*-X\s*POST.*notion\.(?:so|com)/v1/pages`)
	boardChange = anywhere(`(?i)curl.*-X\s*PATCH.*notion\.(?:so|com)/v1/pages`)
	boardList   = anywhere(`(?i)curl.*notion\.(?:so|com)/v1/databases` + end)

	events       = anywhere(`(?i)curl.*googleapis\.com/calendar/v3/calendars/.*/events`)
	eventPost    = anywhere(`-X\s*POST`)
	eventDelete  = anywhere(`-X\s*DELETE`)
	eventPatch   = anywhere(`-X\s*(?:PATCH|PUT)`)
	agendaList   = anywhere(`(?i)gcalcli\s+(?:agenda|list|search)|gcal\s+list-events`)
	agendaAdd    = anywhere(`(?i)gcalcli\s+add|gcal\s+create-event`)
	agendaDelete = anywhere(`(?i)gcalcli\s+delete|gcal\s+delete-event`)
	codeHost     = anywhere(start + `gh\s+`)
)

func anywhere(pattern string) func() *regexp.Regexp {
	return lazyregexp.New(strings.NewReplacer(`\s`, space, `\S`, solid).Replace(pattern))
}

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
// The first program that is recognised answers.
func (c *call) exec(args packfile.Value) packfile.Value {
	cmd := strings.TrimFunc(c.text(args, "command"), pySpace)
	lower := strings.ToLower(cmd)
	if strings.Contains(lower, "himalaya") {
		if answer, ok := c.mail(cmd); ok {
			return answer
		}
	}
	if strings.Contains(lower, "curl") {
		if answer, ok := c.board(cmd); ok {
			return answer
		}
		if answer, ok := c.calendar(cmd); ok {
			return answer
		}
	}
	if strings.Contains(lower, "gcal") {
		switch {
		case agendaList().MatchString(cmd):
			return c.agenda()
		case agendaAdd().MatchString(cmd):
			return c.eventCreated()
		case agendaDelete().MatchString(cmd):
			return irreversible("Event deleted")
		}
	}
	if codeHost().MatchString(cmd) {
		return completed("(mock gh output)")
	}
	return completed("(mock output for: " + plain.First(cmd, 100) + ")")
}

func (c *call) mail(cmd string) (packfile.Value, bool) {
	if mailList().MatchString(cmd) {
		return completed(c.mails().Indented()), true
	}
	switch m := mailRead().FindStringSubmatch(cmd); {
	case m != nil:
		return c.readMail(strings.Trim(m[1], `"'`)), true
	case mailDraft().MatchString(cmd):
		return completed("Draft saved: draft_" + c.stamp()), true
	case mailSend().MatchString(cmd):
		return irreversible("Message sent successfully"), true
	case mailFlag().MatchString(cmd):
		return completed("Flag added successfully"), true
	}
	return packfile.Value{}, false
}

func (c *call) mails() packfile.Value {
	out := packfile.Value{Kind: packfile.List}
	for _, m := range c.fixture("inbox").List {
		out.List = append(out.List, packfile.Obj("id", orNull(m.Get("id")), "sender", orNull(m.Get("sender")), "subject", orNull(m.Get("subject")),
			"date", either(m, "received_ts", packfile.Of("")), "flags", either(m, "labels", packfile.Value{Kind: packfile.List})))
	}
	return out
}

func (c *call) readMail(id string) packfile.Value {
	for _, m := range c.fixture("inbox").List {
		if m.Get("id").Text() == id {
			field := func(name string) string { return either(m, name, packfile.Of("")).Text() }
			return completed("From: " + field("sender") + "\nSubject: " + field("subject") + "\nDate: " + field("received_ts") + "\n\n" + field("body"))
		}
	}
	return failed("Message not found: " + id)
}

func (c *call) board(cmd string) (packfile.Value, bool) {
	if boardQuery().MatchString(cmd) {
		return completed(packfile.Obj("results", c.fixture("tasks")).Indented()), true
	}
	switch m := boardPage().FindStringSubmatch(cmd); {
	case m != nil:
		for _, name := range []string{"tasks", "documents"} {
			for _, e := range c.fixture(name).List {
				if e.Get("id").Text() == m[1] {
					return completed(e.Indented()), true
				}
			}
		}
		return failed("Page not found: " + m[1]), true
	case boardCreate().MatchString(cmd):
		return completed(packfile.Obj("id", "page_"+c.stamp(), "status", "created").Indented()), true
	case boardChange().MatchString(cmd):
		return completed(packfile.Obj("status", "updated").Indented()), true
	case boardList().MatchString(cmd):
		return completed(packfile.Obj("results", c.fixture("documents")).Indented()), true
	}
	return packfile.Value{}, false
}

func (c *call) calendar(cmd string) (packfile.Value, bool) {
	switch {
	case !events().MatchString(cmd):
		return packfile.Value{}, false
	case eventPost().MatchString(cmd):
		return c.eventCreated(), true
	case eventDelete().MatchString(cmd):
		return irreversible(""), true
	case eventPatch().MatchString(cmd):
		return completed(packfile.Obj("status", "updated").Indented()), true
	}
	return c.agenda(), true
}

func (c *call) agenda() packfile.Value {
	return completed(packfile.Obj("items", c.fixture("calendar")).Indented())
}

func (c *call) eventCreated() packfile.Value {
	return irreversible(packfile.Obj("id", "evt_"+c.stamp(), "status", "confirmed").Indented())
}
