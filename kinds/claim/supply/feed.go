// Package supply makes the tasks of a claim arena from what was published
// lately: a proposer model writes claims about the items of a feed, a costly
// reference model answers them, checks drop what is doubtful, and the
// difficulty loop draws again until the sitting champion gets enough of the
// set wrong. Everything that came from outside is in a log, from which the same
// set can be made again without asking anybody.
package supply

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/internal/plain"
)

// Limits of a feed.
const (
	MaxFeed  = 8 << 20
	MaxItems = 2000
	maxText  = 24 << 10 // bytes of an item's text; longer ones are cut
	maxTitle = 500
	// Window is how old an item may be.
	Window   = 24 * time.Hour
	minText  = 80 // bytes; shorter items hold no fact worth a claim
	feedTime = 30 * time.Second
)

// Item is one published text.
type Item struct {
	ID    string    `json:"id"` // digest of url and text
	URL   string    `json:"url"`
	Title string    `json:"title"`
	Text  string    `json:"text"` // plain, without markup
	At    time.Time `json:"at"`
}

// ReadFeed reads RSS 2.0, Atom or a JSON feed. Items come in the order of the
// feed; items without text or date are left out.
func ReadFeed(b []byte) ([]Item, error) {
	if len(b) > MaxFeed {
		return nil, fmt.Errorf("read feed: larger than %d bytes", MaxFeed)
	}
	if !utf8.Valid(b) {
		return nil, errors.New("read feed: it is not UTF-8")
	}
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\ufeff")))
	var items []Item
	var err error
	switch {
	case bytes.HasPrefix(b, []byte("{")):
		items, err = readJSON(b)
	case bytes.HasPrefix(b, []byte("<")):
		items, err = readXML(b)
	default:
		err = errors.New("want RSS, Atom or a JSON feed")
	}
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	return tidy(items), nil
}

func readJSON(b []byte) ([]Item, error) {
	var f struct {
		Version string
		Items   []struct {
			ID, URL, Title string
			Text           string `json:"content_text"`
			HTML           string `json:"content_html"`
			Summary        string
			Published      string `json:"date_published"`
			Modified       string `json:"date_modified"`
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, errors.New("it is not a JSON feed")
	}
	if !strings.Contains(f.Version, "jsonfeed.org/version/1") {
		return nil, errors.New("version is not that of a JSON feed")
	}
	var out []Item
	for _, i := range f.Items {
		text := i.Text
		if text == "" {
			text = plain.HTML(cmp.Or(i.HTML, i.Summary))
		}
		out = append(out, Item{URL: cmp.Or(i.URL, i.ID), Title: i.Title, Text: text, At: when(cmp.Or(i.Published, i.Modified))})
	}
	return out, nil
}

type xmlLink struct {
	Href string `xml:"href,attr"`
	Rel  string `xml:"rel,attr"`
	Text string `xml:",chardata"`
}

type xmlItem struct {
	Title     string    `xml:"title"`
	Links     []xmlLink `xml:"link"`
	GUID      string    `xml:"guid"`
	ID        string    `xml:"id"`
	Desc      string    `xml:"description"`
	Encoded   string    `xml:"http://purl.org/rss/1.0/modules/content/ encoded"`
	Content   xmlText   `xml:"content"`
	Summary   xmlText   `xml:"summary"`
	PubDate   string    `xml:"pubDate"`
	Published string    `xml:"published"`
	Updated   string    `xml:"updated"`
	Date      string    `xml:"http://purl.org/dc/elements/1.1/ date"`
}

type xmlText struct {
	Text  string `xml:",chardata"`
	Inner string `xml:",innerxml"`
	Type  string `xml:"type,attr"`
}

func (t xmlText) plain() string {
	if t.Type == "xhtml" {
		return plain.HTML(t.Inner)
	}
	return plain.HTML(t.Text)
}

// maxNesting bounds XML, whose decoder recurses.
const maxNesting = 64

func readXML(b []byte) ([]Item, error) {
	if bytes.Contains(b, []byte("<!DOCTYPE")) || bytes.Contains(b, []byte("<!ENTITY")) {
		return nil, errors.New("it declares entities")
	}
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict = true
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errors.New("want UTF-8") }
	depth := 0
	var out []Item
	kind := ""
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, errors.New("it is not well-formed XML")
		}
		switch t := t.(type) {
		case xml.EndElement:
			depth--
		case xml.StartElement:
			if depth++; depth > maxNesting {
				return nil, errors.New("it is nested too deep")
			}
			if kind == "" {
				if kind = strings.ToLower(t.Name.Local); kind != "rss" && kind != "feed" && kind != "rdf" {
					return nil, fmt.Errorf("root element %.40q is not a feed", t.Name.Local)
				}
				continue
			}
			if t.Name.Local != "item" && t.Name.Local != "entry" {
				continue
			}
			if len(out) == MaxItems {
				return out, nil
			}
			var x xmlItem
			if err := d.DecodeElement(&x, &t); err != nil {
				return nil, errors.New("an item is not well-formed")
			}
			depth--
			out = append(out, x.item())
		}
	}
	if kind == "" {
		return nil, errors.New("it is empty")
	}
	return out, nil
}

func (x xmlItem) item() Item {
	link := ""
	for _, l := range x.Links {
		if v := cmp.Or(l.Href, strings.TrimSpace(l.Text)); v != "" && (link == "" || l.Rel == "alternate") {
			link = v
		}
	}
	text := ""
	for _, s := range []string{plain.HTML(x.Encoded), x.Content.plain(), x.Summary.plain(), plain.HTML(x.Desc)} {
		if len(s) > len(text) {
			text = s
		}
	}
	return Item{
		URL: cmp.Or(link, strings.TrimSpace(x.GUID), strings.TrimSpace(x.ID)), Title: plain.HTML(x.Title), Text: text,
		At: when(cmp.Or(x.PubDate, x.Published, x.Updated, x.Date)),
	}
}

var dateForms = []string{time.RFC3339, time.RFC1123Z, time.RFC1123, "Mon, 2 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700", "2006-01-02T15:04:05", time.DateOnly}

func when(s string) time.Time {
	for _, f := range dateForms {
		if t, err := time.Parse(f, strings.TrimSpace(s)); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// tidy bounds items and names them; equal ones are left out.
func tidy(in []Item) []Item {
	seen := map[string]bool{}
	var out []Item
	for _, i := range in {
		i.Title, i.Text, i.URL = plain.Head(plain.Squeeze(i.Title), maxTitle), plain.Head(plain.Squeeze(i.Text), maxText), plain.Head(strings.TrimSpace(i.URL), 2000)
		if len(i.Text) < minText || i.At.IsZero() || len(out) == MaxItems {
			continue
		}
		i.ID = agon.Sum([]byte(i.URL + "\n" + i.Text)).Hex()[:16]
		if seen[i.ID] {
			continue
		}
		seen[i.ID] = true
		out = append(out, i)
	}
	return out
}

// ReadFolder takes the documents of a folder as items (index.ParseDoc tells
// their form). A document without a date has the time of its file.
func ReadFolder(fsys fs.FS) ([]Item, error) {
	f, err := index.Load(fsys, "folder", nil)
	if err != nil {
		return nil, err
	}
	var out []Item
	for _, d := range f.Docs() {
		at := d.At
		if at.IsZero() {
			info, err := fs.Stat(fsys, d.ID)
			if err != nil {
				return nil, fmt.Errorf("read folder: %w", err)
			}
			at = info.ModTime().UTC()
		}
		out = append(out, Item{URL: d.URL, Title: d.Title, Text: d.Text, At: at})
	}
	return tidy(out), nil
}

// Documents takes documents with a date as items.
func Documents(docs []index.Doc) []Item {
	out := make([]Item, 0, len(docs))
	for _, d := range docs {
		out = append(out, Item{URL: d.URL, Title: d.Title, Text: d.Text, At: d.At})
	}
	return tidy(out)
}

// Feed writes items as a JSON feed, which ReadFeed reads.
func Feed(title string, items []Item) ([]byte, error) {
	list := make([]map[string]any, 0, len(items))
	for _, i := range items {
		list = append(list, map[string]any{"id": i.ID, "url": i.URL, "title": i.Title, "content_text": i.Text, "date_published": i.At.Format(time.RFC3339)})
	}
	return json.MarshalIndent(map[string]any{"version": "https://jsonfeed.org/version/1.1", "title": title, "items": list}, "", " ")
}

// Fetch gets a feed over HTTP(S). Its host may be a private one, which the operator
// has named; where it sends us on to may not.
func Fetch(ctx context.Context, url string) ([]Item, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil || (req.URL.Scheme != "http" && req.URL.Scheme != "https") {
		return nil, fmt.Errorf("fetch feed: %.200q is not an http address", url)
	}
	c := &http.Client{Transport: fetch.Outward(req.URL.Hostname())}
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch feed: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch feed: status %d", resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxFeed+1))
	if err != nil {
		return nil, fmt.Errorf("fetch feed: %w", err)
	}
	return ReadFeed(b)
}

// Fresh keeps the items of the last Window before now, oldest first.
func Fresh(items []Item, now time.Time) []Item {
	var out []Item
	for _, i := range items {
		if age := now.Sub(i.At); age >= 0 && age <= Window {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	return out
}
