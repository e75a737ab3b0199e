package web

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/internal/served"
)

// What others show of an arena: a feed of its decisions, a badge, and a race that
// may stand in a frame. All of it is what a stranger may read.

// atomFeed and atomEntry are RFC 4287, as far as we write it.
type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Links   []atomLink  `xml:"link"`
	Author  atomAuthor  `xml:"author"`
	Entries []atomEntry `xml:"entry"`
}

type atomAuthor struct {
	Name string `xml:"name"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr,omitempty"`
	Type string `xml:"type,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID      string   `xml:"id"`
	Title   string   `xml:"title"`
	Updated string   `xml:"updated"`
	Link    atomLink `xml:"link"`
	Summary string   `xml:"summary"`
}

const shownFeed = 50

// feed is the Atom feed of all arenas, or of one.
func (s *server) feed(q *request) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		var list []client.Arena
		title := "agon: decisions"
		if id := q.PathValue("arena"); id != "" {
			a, err := s.cfg.Platform.Arena(ctx, id)
			if err != nil {
				return nil, err
			}
			list, title = []client.Arena{*a}, plain.Line(a.Title)+": decisions"
		} else {
			var err error
			if list, err = s.cfg.Platform.Arenas(ctx); err != nil {
				return nil, err
			}
		}
		news, err := s.happenings(ctx, list, shownFeed)
		if err != nil {
			return nil, err
		}
		return atomOf(q.URL.Path, title, cmp.Or(strings.TrimSuffix(q.URL.Path, "/feed.atom"), "/"), news)
	})
	if err != nil {
		return err
	}
	return q.sendAs(atomType, b)
}

const atomType = "application/atom+xml; charset=utf-8"

// minerFeed is the Atom feed of what was decided of a miner's submissions.
func (s *server) minerFeed(q *request) error {
	hotkey := q.PathValue("hotkey")
	page, err := s.cfg.Platform.Submissions(q.Context(), platform.Caller{}, "", hotkey, "", shownFeed)
	if err != nil {
		return err
	}
	var news []happening
	for _, sub := range page.Items {
		if d := sub.Decision; d != nil {
			news = append(news, happening{At: d.At, Arena: sub.Arena, Title: sub.Arena, Submission: sub.ID, Name: sub.Name, Sentence: d.Sentence, Took: d.Outcome == agon.TookSeat})
		}
	}
	slices.SortStableFunc(news, func(a, b happening) int { return b.At.Compare(a.At) })
	b, err := atomOf(q.URL.Path, "agon: decisions on submissions of "+short(plain.Line(hotkey)), "/", news)
	if err != nil {
		return err
	}
	return q.sendAs(atomType, served.New(b))
}

// atomOf writes a feed of what happened, the newest first. Addresses are relative
// to the feed (RFC 3986): which name a reader knows this server by, it cannot know.
func atomOf(path, title, page string, news []happening) ([]byte, error) {
	f := atomFeed{ID: "urn:agon:feed:" + path, Title: title, Author: atomAuthor{"agon"}, Updated: time.Unix(0, 0).UTC().Format(time.RFC3339), Links: []atomLink{{Rel: "self", Type: "application/atom+xml", Href: path}, {Href: page}}}
	for i, n := range news {
		at := n.At.UTC().Format(time.RFC3339Nano)
		if i == 0 {
			f.Updated = at
		}
		f.Entries = append(f.Entries, atomEntry{
			ID: "urn:uuid:" + n.Submission, Title: plain.Line(n.Name) + " in " + plain.Line(n.Title), Updated: at,
			Link: atomLink{Href: "/submissions/" + n.Submission}, Summary: plain.Line(n.Sentence),
		})
	}
	out, err := xml.MarshalIndent(f, "", " ")
	return append([]byte(xml.Header), out...), err
}

func (q *request) sendAs(typ string, d *served.Document) error {
	q.w.Header().Set("Content-Type", typ)
	d.Write(q.w, q.Request, http.StatusOK)
	return nil
}

// badge is a small picture of who leads an arena, for pages elsewhere.
func (s *server) badge(q *request) error {
	b, err := s.shared(q, func(ctx context.Context) ([]byte, error) {
		a, err := s.cfg.Platform.Arena(ctx, q.PathValue("arena"))
		if err != nil {
			return nil, err
		}
		card, err := s.card(ctx, q, *a)
		if err != nil {
			return nil, err
		}
		right := "nobody leads"
		if a.Champion != nil {
			right = plain.Short(plain.Line(card.Name), 40) + " " + showScore(a.Champion.Score)
		}
		return []byte(badgeOf(plain.Line(a.ID), right)), nil
	})
	if err != nil {
		return err
	}
	q.w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	return q.sendAs("image/svg+xml", b)
}

func badgeOf(left, right string) string {
	width := func(s string) int { return 14 + 7*len([]rune(s)) }
	l, r := width(left), width(right)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="22" role="img" aria-label="%s: %s"><title>%s: %s</title>`+
		`<rect rx="4" width="%d" height="22" fill="#17212b"/><rect rx="4" x="%d" width="%d" height="22" fill="#8a5a00"/><rect x="%d" width="6" height="22" fill="#8a5a00"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle"><text x="%d" y="15">%s</text><text x="%d" y="15">%s</text></g></svg>`,
		l+r, html.EscapeString(left), html.EscapeString(right), html.EscapeString(left), html.EscapeString(right),
		l+r, l, r, l, l/2, html.EscapeString(left), l+r/2, html.EscapeString(right))
}
