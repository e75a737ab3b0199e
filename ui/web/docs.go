package web

import (
	"html"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// The project's own documentation, as pages. Its Markdown is ours and simple:
// headings, paragraphs, lists, tables, fenced blocks, links, drawings, code and emphasis.

// docPage is one page of documentation.
type docPage struct {
	Name, Title string
	Text        string // as it was written
	Lead        string // its first paragraph
}

// docHit is a passage that a search found.
type docHit struct {
	Name, Title, Anchor string
	Section, Line       template.HTML // ours, escaped
}

type library struct {
	once  sync.Once
	fs    fs.FS
	pages []docPage
}

func (l *library) load() []docPage {
	l.once.Do(func() {
		if l.fs == nil {
			return
		}
		names, _ := fs.Glob(l.fs, "*.md") // the pattern is sound
		for _, n := range names {
			b, err := fs.ReadFile(l.fs, n)
			if err != nil {
				continue // of an embedded file: cannot be
			}
			p := docPage{Name: strings.TrimSuffix(n, ".md"), Text: string(b)}
			for line := range strings.Lines(p.Text) {
				line = strings.TrimSpace(line)
				switch t, ok := strings.CutPrefix(line, "# "); {
				case ok && p.Title == "":
					p.Title = t
				case line != "" && p.Title != "" && p.Lead == "" && !strings.HasPrefix(line, "#"):
					p.Lead = line
				}
			}
			if p.Title == "" {
				p.Title = p.Name
			}
			l.pages = append(l.pages, p)
		}
	})
	return l.pages
}

// errorPage is where the documentation says what a code means; a search for it
// where no page does.
func (l *library) errorPage(code string) string {
	for _, p := range l.load() {
		if p.Name != "errors" {
			continue
		}
		// Codes that end in what they are about stand as bad_… and the like.
		begin, _, _ := strings.Cut(code, "_")
		for _, c := range []string{code, begin + "_…"} {
			if strings.Contains(p.Text, "\n### `"+c+"`\n") {
				return "/docs/errors#" + anchor(c)
			}
		}
	}
	return "/docs?q=" + url.QueryEscape(code)
}

const maxDocHits = 60

// docs lists the pages, or the passages that have all words of ?q.
func (s *server) docs(q *request) error {
	data := struct {
		base
		Pages []docPage
		Query string
		Hits  []docHit
		More  bool
	}{base: q.base("Docs", ""), Pages: s.library.load(), Query: strings.TrimSpace(q.URL.Query().Get("q"))}
	if len(data.Query) > 200 {
		return &agon.Error{Code: "bad_query", Status: 422, Field: "q", Limit: "200 bytes", Message: "The search text is longer than 200 bytes."}
	}
	words := strings.Fields(strings.ToLower(data.Query))
	for _, p := range data.Pages {
		if len(words) == 0 {
			break
		}
		section := p.Title
		for line := range strings.Lines(p.Text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") {
				section = strings.TrimSpace(strings.TrimLeft(line, "#"))
			}
			low := strings.ToLower(line)
			if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(low, w) }) {
				continue
			}
			if len(data.Hits) == maxDocHits {
				data.More = true
				break
			}
			data.Hits = append(data.Hits, docHit{p.Name, p.Title, anchor(section), passage(section), passage(line)})
		}
	}
	return s.render(q, http.StatusOK, "docs", data)
}

// passage renders a line that a search found; links would lead away from the hit.
func passage(line string) template.HTML {
	line = mdLink().ReplaceAllString(strings.Trim(strings.TrimSpace(line), "| "), "$1")
	return template.HTML(inline(line)) // escaped piece by piece
}

// doc shows one page.
func (s *server) doc(q *request) error {
	name := q.PathValue("page")
	for _, p := range s.library.load() {
		if p.Name == name {
			data := struct {
				base
				Page docPage
				Body template.HTML
			}{q.base(p.Title, ""), p, article(p.Text)}
			return s.render(q, http.StatusOK, "doc", data)
		}
	}
	return &agon.Error{Code: "not_found", Status: 404, Message: "There is no such page of documentation.", Mend: "/docs lists them."}
}

// docPicture is a drawing of a page.
func (s *server) docPicture(q *request) error {
	name := q.PathValue("picture")
	if s.library.fs != nil && pictureName().MatchString("pictures/"+name) {
		if b, err := fs.ReadFile(s.library.fs, "pictures/"+name); err == nil {
			q.w.Header().Set("Content-Type", "image/svg+xml")
			_, err = q.w.Write(b)
			return err
		}
	}
	return &agon.Error{Code: "not_found", Status: 404, Message: "There is no such picture.", Mend: "/docs lists the pages."}
}

var notAnchor = lazyregexp.New(`[^a-z0-9]+`)

func anchor(title string) string {
	return strings.Trim(notAnchor().ReplaceAllString(strings.ToLower(title), "-"), "-")
}

var (
	codeSpan = lazyregexp.New("`[^`]+`")
	mdImage  = lazyregexp.New(`!\[([^\]]*)\]\(([^)\s]+)\)`)
	mdLink   = lazyregexp.New(`\[([^\]]+)\]\(([^)\s]+)\)`)
	strong   = lazyregexp.New(`\*\*([^*]+)\*\*`)
	// pictureName is a drawing beside the pages.
	pictureName = lazyregexp.New(`^pictures/[a-z0-9-]+\.svg$`)
	listItem    = lazyregexp.New(`^\s*(?:[-*]|\d+\.)\s+`)
)

// inline renders a line's links, code and emphasis. Everything is escaped first.
func inline(s string) string {
	var b strings.Builder
	at := 0
	for _, m := range codeSpan().FindAllStringIndex(s, -1) {
		b.WriteString(prose(s[at:m[0]]))
		b.WriteString("<code>" + html.EscapeString(s[m[0]+1:m[1]-1]) + "</code>")
		at = m[1]
	}
	b.WriteString(prose(s[at:]))
	return b.String()
}

func prose(s string) string {
	s = html.EscapeString(s)
	s = mdImage().ReplaceAllStringFunc(s, func(m string) string {
		x := mdImage().FindStringSubmatch(m)
		if !pictureName().MatchString(x[2]) {
			return x[1]
		}
		return `<img src="/docs/` + x[2] + `" alt="` + x[1] + `">`
	})
	s = mdLink().ReplaceAllStringFunc(s, func(m string) string {
		x := mdLink().FindStringSubmatch(m)
		to, ok := docLink(html.UnescapeString(x[2]))
		if !ok {
			return x[1]
		}
		return `<a href="` + html.EscapeString(to) + `">` + x[1] + `</a>`
	})
	return strong().ReplaceAllString(s, "<strong>$1</strong>")
}

// docLink is where a link of a page leads here; false: to a file that no page shows.
func docLink(to string) (string, bool) {
	u, err := url.Parse(to)
	if err != nil {
		return "", false
	}
	if u.Scheme == "https" || u.Scheme == "http" {
		return to, true
	}
	if u.Scheme != "" {
		return "", false
	}
	frag := ""
	if u.Fragment != "" {
		frag = "#" + anchor(u.Fragment)
	}
	if u.Path == "" {
		return frag, frag != ""
	}
	name, ok := strings.CutSuffix(path.Clean("/docs/"+u.Path), ".md")
	if !ok || path.Dir(name) != "/docs" {
		return "", false
	}
	return name + frag, true
}

// longPage is from how many sections on a page shows their titles, to be opened one by one.
const longPage = 40

var sectionTitle = lazyregexp.New(`(?m)^<h2 id="([^"]*)">(.*)</h2>$`)

// article renders a page of ours; the sections of a long one are closed. A link to a
// section leads to what lies in it, which opens it.
func article(text string) template.HTML {
	page := string(markdown(text))
	titles := sectionTitle().FindAllStringSubmatchIndex(page, -1)
	if len(titles) < longPage {
		return template.HTML(page)
	}
	var b strings.Builder
	b.WriteString(page[:titles[0][0]])
	for i, t := range titles {
		end := len(page)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		b.WriteString("<details><summary><h2>" + page[t[4]:t[5]] + `</h2></summary><div id="` + page[t[2]:t[3]] + `">` + page[t[1]:end] + "</div></details>\n")
	}
	return template.HTML(b.String()) // markdown has escaped all of it
}

// markdown renders a page of ours.
func markdown(text string) template.HTML {
	var b strings.Builder
	lines := strings.Split(text, "\n")
	var para []string
	tables := 0
	flush := func() {
		if len(para) > 0 {
			b.WriteString("<p>" + inline(strings.Join(para, " ")) + "</p>\n")
			para = nil
		}
	}
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t")
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			b.WriteString(`<pre tabindex="0">`)
			for i++; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "```"); i++ {
				b.WriteString(html.EscapeString(lines[i]) + "\n")
			}
			b.WriteString("</pre>\n")
		case strings.HasPrefix(trimmed, "#"):
			flush()
			title := strings.TrimSpace(strings.TrimLeft(trimmed, "#"))
			level := string(rune('0' + min(len(trimmed)-len(strings.TrimLeft(trimmed, "#")), 4)))
			b.WriteString("<h" + level + ` id="` + anchor(title) + `">` + inline(title) + "</h" + level + ">\n")
		case strings.HasPrefix(trimmed, "|"):
			flush()
			tables++
			b.WriteString(`<div class="scroll" tabindex="0" role="region" aria-label="table ` + strconv.Itoa(tables) + `"><table>`)
			for n := 0; i < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i]), "|"); i++ {
				row := strings.Trim(strings.TrimSpace(lines[i]), "|")
				if strings.Trim(row, "|-: ") == "" {
					continue
				}
				open, closing := "<td>", "</td>"
				if n == 0 {
					open, closing = `<th scope="col">`, "</th>"
				}
				n++
				b.WriteString("<tr>")
				for _, c := range cellsOf(row) {
					if c = strings.TrimSpace(c); c == "" { // an empty head heads nothing
						b.WriteString("<td></td>")
						continue
					}
					b.WriteString(open + inline(c) + closing)
				}
				b.WriteString("</tr>\n")
			}
			i--
			b.WriteString("</table></div>\n")
		case listItem().MatchString(line):
			flush()
			b.WriteString("<ul>\n")
			for ; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
				if listItem().MatchString(lines[i]) {
					b.WriteString("<li>" + inline(listItem().ReplaceAllString(lines[i], "")))
				} else {
					b.WriteString(" " + inline(strings.TrimSpace(lines[i])))
				}
				b.WriteString("\n")
			}
			i--
			b.WriteString("</ul>\n")
		case trimmed == "":
			flush()
		default:
			para = append(para, trimmed)
		}
	}
	flush()
	return template.HTML(b.String()) // every piece was escaped above
}

// cellsOf splits a table's row at bars that do not stand in code.
func cellsOf(row string) []string {
	var out []string
	from, code := 0, false
	for i := 0; i < len(row); i++ {
		switch {
		case row[i] == '`':
			code = !code
		case row[i] == '|' && !code && (i == 0 || row[i-1] != '\\'):
			out = append(out, row[from:i])
			from = i + 1
		}
	}
	return append(out, row[from:])
}
