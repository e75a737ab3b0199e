package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"path"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/internal/served"
)

// pages holds a template set per page: the layout and the page's own blocks.
type pages map[string]*template.Template

func loadPages(now func() time.Time) (pages, error) {
	names, err := fs.Glob(files, "template/*.html")
	if err != nil {
		return nil, err
	}
	out := pages{}
	// Browsers keep static files for an hour: a new binary's have a new address.
	sum := sha256.New()
	for _, n := range []string{"static/agon.css", "static/agon.js"} {
		b, err := fs.ReadFile(files, n)
		if err != nil {
			return nil, err
		}
		sum.Write(b)
	}
	version := hex.EncodeToString(sum.Sum(nil)[:6])
	own := template.FuncMap{"asset": func() string { return version }}
	for _, n := range names {
		name := strings.TrimSuffix(path.Base(n), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := template.New("layout.html").Funcs(funcs).Funcs(clocks(now)).Funcs(own).ParseFS(files, "template/layout.html", "template/parts.html", n)
		if err != nil {
			return nil, fmt.Errorf("parse page %s: %w", name, err)
		}
		out[name] = t
	}
	return out, nil
}

// clocks are the functions of pages that depend on the time.
func clocks(now func() time.Time) template.FuncMap {
	return template.FuncMap{"ago": func(t time.Time) string { return ago(now(), t) }}
}

// base is what the layout shows around every page.
type base struct {
	Title    string
	At       string // the arena that the page belongs to, for the trail
	Hotkey   string
	Operator bool
	Live     string // what the page's script listens to; empty: nothing
	Bare     bool   // it stands in a frame: no header, no footer
	Feed     string // an Atom feed of what the page shows; empty: none
	Picture  string // of what the page shows, for links to it elsewhere; empty: none
	About    string // what the page shows, in a sentence, beside the picture
	Version  string
}

func (q *request) base(title, arena string) base {
	return base{Title: title, At: arena, Hotkey: q.caller.Hotkey, Operator: q.caller.Operator, Version: agon.Version}
}

// render writes a page whole or not at all. Templates make hostile text plain
// where they show it; what one of them forgets is stripped here.
func (s *server) render(q *request, status int, name string, data any) error {
	var b bytes.Buffer
	if err := s.pages[name].Execute(&b, data); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	return q.send(status, served.New(plain.Strip(b.Bytes())))
}

func (q *request) send(status int, d *served.Document) error {
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	d.Write(q.w, q.Request, status)
	return nil
}

var funcs = template.FuncMap{
	"usd":      usd,
	"score":    showScore,
	"short":    short,
	"when":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"ms":       showMS,
	"line":     plain.Line,
	"lines":    func(s string) string { t, _ := text(s, maxBlock); return t },
	"diff":     patchLines,
	"words":    func(s string) string { return strings.ReplaceAll(plain.Line(s), "_", " ") },
	"count":    plain.Count,
	"faults":   faultWord,
	"hardness": hardness,
	"neg":      func(n int) int { return -n },
	"add":      func(a, b int) int { return a + b },
	"pc":       func(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" },
	"num":      num,
	"p":        func(p float64) string { return strconv.FormatFloat(p, 'g', 3, 64) },
	"named":    named,
	"bytes":    func(n any) string { v, _ := strconv.Atoi(fmt.Sprint(n)); return showBytes(v) },
	"tao":      func(rao uint64) string { return strconv.FormatFloat(float64(rao)/1e9, 'f', -1, 64) + " τ" },
	"about":    about,
	"pair":     func(a, b any) struct{ A, B any } { return struct{ A, B any }{a, b} },
	"share":    func(w uint16) float64 { return float64(w) / 65535 },
}

// num shows a number, or what a pointer to one holds, to six digits.
func num(v any) string {
	switch x := v.(type) {
	case float64:
		return strconv.FormatFloat(x, 'g', 6, 64)
	case *float64:
		if x != nil {
			return strconv.FormatFloat(*x, 'g', 6, 64)
		}
	}
	return "–"
}

// named shows a number of a rule; those that are times by their name as a time.
func named(name string, x float64) string {
	if (name == "now" || strings.HasSuffix(name, "_at")) && x > 1e9 && x < 1e11 {
		return time.Unix(int64(x), 0).UTC().Format("2006-01-02 15:04:05")
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// usd shows money with as many digits as it has, at least two.
func usd(m agon.Micros) string {
	s := strconv.FormatFloat(float64(m)/1e6, 'f', 6, 64)
	s = strings.TrimRight(s, "0")
	if i := strings.IndexByte(s, '.'); len(s)-i < 3 {
		s += strings.Repeat("0", 3-(len(s)-i))
	}
	return "$" + s
}

func showScore(v any) string {
	switch x := v.(type) {
	case float64:
		return strconv.FormatFloat(x, 'f', 4, 64)
	case *float64:
		if x != nil {
			return strconv.FormatFloat(*x, 'f', 4, 64)
		}
	}
	return "–"
}

// short shows the ends of an address or a digest.
func short(v any) string {
	// A field that may be missing comes as a pointer: what it holds is meant.
	for r := reflect.ValueOf(v); r.Kind() == reflect.Pointer; r = r.Elem() {
		if r.IsNil() {
			return "–"
		}
		v = r.Elem().Interface()
	}
	s := strings.TrimPrefix(fmt.Sprint(v), agon.DigestPrefix)
	if len(s) <= 14 {
		return s
	}
	return s[:6] + "…" + s[len(s)-6:]
}

func showMS(n int64) string {
	switch d := time.Duration(n) * time.Millisecond; {
	case d < time.Second:
		return strconv.FormatInt(n, 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	default:
		d = d.Round(time.Second)
		if d < time.Hour {
			return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
		}
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}

// about rounds a time to what one would say: 40 s, 3 min, 5 h.
func about(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return strconv.Itoa(max(1, int(d.Round(time.Second).Seconds()))) + " s"
	case d < 90*time.Minute:
		return strconv.Itoa(int(d.Round(time.Minute).Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Round(time.Hour).Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24+0.5)) + " days"
}

func showBytes(n int) string {
	switch {
	case n < 1<<10:
		return strconv.Itoa(n) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MB"
}

// faultWord says whose failure it was, as the contestant sees it.
func faultWord(f agon.Fault) string {
	switch {
	case f == agon.FaultNone:
		return ""
	case f.Ours():
		return "ours: " + string(f)
	}
	return "yours"
}

// Bounds of agent text in a page.
const (
	maxBlock = 6 << 10 // bytes of one block in a list of steps
	maxWhole = 1 << 20 // bytes of one block on its own page
	maxLine  = 2000    // runes of one line
)

// text is hostile text made plain and short enough for a page. The template
// escapes it; more says that the rest is left out.
func text(s string, limit int) (out string, more bool) {
	if len(s) > limit {
		s, more = s[:limit], true
	}
	s = plain.Clean(s)
	if !strings.ContainsFunc(s, func(r rune) bool { return r == '\n' }) && len(s) <= maxLine {
		return s, more
	}
	var b strings.Builder
	for l := range strings.Lines(s) {
		n := 0
		for _, r := range l {
			if n++; n > maxLine {
				b.WriteByte('\n') // a line that never ends is broken, not hidden
				n = 1
			}
			b.WriteRune(r)
		}
	}
	return b.String(), more
}

// nice returns a round step so that at most n of them span width.
func nice(width float64, n int) float64 {
	if width <= 0 {
		return 1
	}
	raw := width / float64(n)
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5, 10} {
		if raw <= m*mag {
			return m * mag
		}
	}
	return 10 * mag
}

// hardness says how hard the present set is, where its level follows who sits.
func hardness(x *client.Seeds) string {
	if x == nil || x.Period == nil || x.Period.Difficulty == nil {
		return ""
	}
	return "The hidden tasks of this period have " + x.Period.Difficulty.Sentence() + "."
}
