package web

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind/kindtest"
)

// contest plays two submissions on the fixture's tasks: the first solves the first
// task, the second none.
func (f *fixture) contest() (first, second string) {
	a := f.submit(miner, "first", "x = 1")
	for l := f.claim(); l != nil; l = f.claim() {
		v := 0.0
		if l.Run.Tasks[0].Key == "small/one" {
			v = 1
		}
		f.score(l, v, "because <b>so</b>")
	}
	b := f.submit(rival, "second", "x = 2")
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 0, "wrong")
	}
	return a.ID, b.ID
}

// A board says who leads in a sentence, and shows who solved what: each square
// leads to the run of its task.
func TestWhoSolvedWhat(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"}, agon.TaskRef{Key: "small/two"})
	a, _ := f.contest()
	c := f.browser("")
	_, page := f.get(c, "/arenas/demo")
	for _, want := range []string{"first leads with 0.5000: 1 of 2 tasks solved.", `aria-label="first on small/one: 1.0000"`, `class="m4"`, `aria-label="second on small/two: 0.0000"`, `class="m0"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the board has no %q", want)
		}
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Get(f.url + "/submissions/" + a + "/run?task=small/two")
	must(t, err)
	resp.Body.Close()
	if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/runs/") {
		t.Errorf("status %d to %q", resp.StatusCode, to)
	}
	if status, _ := f.get(f.browser(""), "/submissions/"+a+"/run?task=nosuch"); status != http.StatusNotFound {
		t.Errorf("a task that was not played: %d", status)
	}
}

// What others show: a feed that parses, a badge, and a race of which only the form
// below /embed may stand in a frame. No name breaks out of either.
func TestShownElsewhere(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"}, agon.TaskRef{Key: "small/two"})
	_, second := f.contest()
	var feed atomFeed
	_, body := f.get(f.browser(""), "/arenas/demo/feed.atom")
	if err := xml.Unmarshal([]byte(body), &feed); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if len(feed.Entries) != 2 || feed.Entries[0].Link.Href != "/submissions/"+second || feed.Entries[0].Summary == "" {
		t.Errorf("feed %+v", feed)
	}
	if _, b := f.get(f.browser(""), "/arenas/demo/badge.svg"); !strings.Contains(b, "demo: first 0.5000") {
		t.Errorf("badge %s", b)
	}
	if b := badgeOf(`<script>`, `"&`); strings.Contains(b, "<script>") || xml.Unmarshal([]byte(b), new(struct{})) != nil {
		t.Errorf("badge %s", b)
	}
	for path, frames := range map[string]string{"/arenas/demo/race": "frame-ancestors 'none'", "/embed/arenas/demo": "frame-ancestors *"} {
		resp, err := f.browser(boss).Get(f.url + path)
		must(t, err)
		resp.Body.Close()
		if p := resp.Header.Get("Content-Security-Policy"); !strings.Contains(p, frames) || !strings.Contains(p, "default-src 'none'") {
			t.Errorf("%s: policy %q", path, p)
		}
	}
	_, embedded := f.get(f.browser(boss), "/embed/arenas/demo")
	if strings.Contains(embedded, "<form") || strings.Contains(embedded, boss[:6]) || !strings.Contains(embedded, "first</a> leads") {
		t.Errorf("the frame shows %s", embedded)
	}
	if _, then := f.get(f.browser(""), "/arenas/demo/race?n=1"); !strings.Contains(then, "As it stood after decision 1 of 2") || strings.Contains(then, "<strong>second</strong>") {
		t.Errorf("the race after one decision: %s", then)
	}
}

// The top of a run's page says what happened, in words that escape what is hostile.
func TestStory(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "mine", "x = 1")
	l := f.claim()
	f.beat(l,
		event(1, agon.EventPhase, "", map[string]any{"phase": "playing"}),
		event(2, agon.EventBox, "", map[string]any{"role": "agent<i>", "action": "start", "ms": 5}),
		event(3, agon.EventBox, "", map[string]any{"role": "agent<i>", "action": "end", "ms": 50}),
		event(4, agon.EventPhase, "", map[string]any{"phase": "judging"}),
	)
	f.score(l, 0, "it <b>fails</b>")
	_, page := f.get(f.browser(""), "/runs/"+l.Run.Run)
	for _, want := range []string{"mine was played on small/one: it made no call of a model or a tool", "did not solve the task and scored 0.0000: it &lt;b&gt;fails&lt;/b&gt;."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "<b>fails") || strings.Contains(page, "agent<i>") {
		t.Error("hostile text stands on the page")
	}
}

// Two runs are said to part at the call in which they do.
func TestParted(t *testing.T) {
	call := func(seq int64, title, said string) Step {
		return Step{Seq: seq, Type: agon.EventTool, Title: title, Blocks: []Block{{Text: said}}}
	}
	run := func(name string, steps ...Step) *compared {
		d := &compared{Acts: steps, Sub: &client.Submission{}}
		d.Sub.Name = name
		return d
	}
	one := call(2, "tool call: ls", "a")
	for _, c := range []struct {
		a, b *compared
		want string
	}{
		{run("x"), run("y"), ""},
		{run("x", one), run("y", one), "Their calls are the same."},
		{run("x", one, call(3, "tool call: rm", "")), run("y", one), "The first call is the same, then x goes on with step 3 (tool call: rm), y makes no more calls."},
		{run("x", one), run("y", call(4, "tool call: ls", "b")), "They part at the first call: x goes on with step 2 (tool call: ls), y goes on with step 4 (tool call: ls)."},
	} {
		if got := strings.TrimSpace(parted(c.a, c.b)); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{0: "just now", 59 * time.Second: "59 s ago", 90 * time.Minute: "1 h ago", 14 * time.Minute: "14 min ago", 72 * time.Hour: "3 days ago", -6 * time.Hour: "in 6 h"} {
		if got := ago(now, now.Add(-d)); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// Pages of documentation: what is written is escaped, links lead to pages here.
func TestMarkdown(t *testing.T) {
	for in, want := range map[string]string{
		"# A <b> & `c<d>`":               `<h1 id="a-b-c-d">A &lt;b&gt; &amp; <code>c&lt;d&gt;</code></h1>`,
		"a [link](web.md#frames) **b**":  `<p>a <a href="/docs/web#frames">link</a> <strong>b</strong></p>`,
		"[up](../README.md)":             `<p>up</p>`,
		"![a <b>](pictures/wheel.svg)":   `<p><img src="/docs/pictures/wheel.svg" alt="a &lt;b&gt;"></p>`,
		"![x](https://else.where/a.svg)": `<p>x</p>`,
		"[x](javascript:alert)":          `<p>x</p>`,
		"```\n<i> **x**\n```":            "<pre tabindex=\"0\">&lt;i&gt; **x**\n</pre>",
		"- one\n  more\n- two":           "<ul>\n<li>one\n more\n<li>two\n</ul>",
		"| a | `b|c` |\n|---|---|":       `<th scope="col">a</th><th scope="col"><code>b|c</code></th>`,
	} {
		if got := string(markdown(in)); !strings.Contains(got, want) {
			t.Errorf("%q: %q", in, got)
		}
	}
	for _, name := range []string{"pictures/../x.svg", "pictures/a.html", "pictures/a.svg/..", "pictures/%2e.svg", "x.svg", "pictures/a.svg\n"} {
		if pictureName().MatchString(name) {
			t.Errorf("%q is taken for a drawing", name)
		}
	}
	l := &library{fs: fstest.MapFS{"x.md": {Data: []byte("# Title\n\nfirst\nsecond")}}}
	if p := l.load(); len(p) != 1 || p[0].Title != "Title" || p[0].Lead != "first" {
		t.Errorf("%+v", p)
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n- b\n| c |\n```\n<script>")
	f.Fuzz(func(t *testing.T, s string) {
		if out := string(markdown(s)); strings.Contains(out, "<script") || strings.Contains(out, "javascript:") && strings.Contains(out, `href="javascript:`) {
			t.Errorf("%q: %q", s, out)
		}
	})
}

// A kind's part of a run that cannot be rendered is left out; what it shows is escaped.
func TestRunPart(t *testing.T) {
	p := Part{Run: `{{range diff .}}<span class="{{.Class}}">{{.Text}}</span>{{end}}`}
	got, err := p.RenderRun("--- a\n+<b>\n-c")
	must(t, err)
	if want := `<span class="at">--- a</span><span class="add">&#43;&lt;b&gt;</span><span class="del">-c</span>`; got != want {
		t.Errorf("%q", got)
	}
	if err := (Part{Run: "{{nosuch}}"}).Check(); err == nil {
		t.Error("a template with an unknown function passes")
	}
}

// A page of an error leads to what its code means, and all that it can lead to exists.
func TestErrorPage(t *testing.T) {
	l := &library{fs: fstest.MapFS{"errors.md": {Data: []byte("# Errors\n\n### `not_found`\n\nx\n\n### `bad_…`\n\ny\n")}}}
	for code, want := range map[string]string{"not_found": "/docs/errors#not-found", "bad_colour": "/docs/errors#bad", "odd&code": "/docs?q=odd%26code", "": "/docs?q="} {
		if got := l.errorPage(code); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
	body := string(markdown(l.load()[0].Text))
	for _, id := range []string{`id="not-found"`, `id="bad"`} {
		if !strings.Contains(body, id) {
			t.Errorf("no %s in %s", id, body)
		}
	}
}

// A long page is a list of its sections, and a link to one leads into it.
func TestLongPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nlead\n")
	for i := range longPage {
		fmt.Fprintf(&b, "\n## agon %d\n\nwhat <b> %d does\n", i, i)
	}
	got := string(article(b.String()))
	for _, want := range []string{"<p>lead</p>", `<details><summary><h2>agon 7</h2></summary><div id="agon-7">` + "\n<p>what &lt;b&gt; 7 does</p>\n</div></details>"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if n := strings.Count(got, "<details>"); n != longPage || strings.Count(got, "</details>") != n {
		t.Errorf("%d sections", n)
	}
	if got := string(article("# A\n\n## b\n\nc\n")); !strings.Contains(got, `<h2 id="b">`) {
		t.Errorf("a short page: %s", got)
	}
}

// A champion leads with its metric where a replay measured one, else with its score.
func TestLedWith(t *testing.T) {
	for want, d := range map[string]*agon.Decision{
		"0.6476":                   nil,
		"74.012 (lower is better)": {Numbers: map[string]float64{"observed": 74.012, "minimize": 1}},
		"2.5 (higher is better)":   {Numbers: map[string]float64{"observed": 2.5}},
	} {
		if got := ledWith(d, 0.6476); got != want {
			t.Errorf("leads with %q, want %q", got, want)
		}
	}
}

// judgedFake is a kind whose judges err.
type judgedFake struct{ kindtest.Fake }

func (judgedFake) Gauge() string { return "support" }

// A submission whose plays have ended, and whose arena waits for its judge to be measured, says so.
func TestWaitsForItsJudge(t *testing.T) {
	f := newFixtureOf(t, judgedFake{}, &agon.Gate{Kappa: 0.6, FalseAccepts: 0.2})
	sub := f.submit(miner, "one", "x")
	page := func() string {
		t.Helper()
		code, body := f.get(f.http.Client(), "/submissions/"+sub.ID)
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		return body
	}
	if body := page(); !strings.Contains(body, "It has not been decided yet.") || strings.Contains(body, "waits for the arena") {
		t.Errorf("before it is played:\n%s", body)
	}
	for range 2 {
		f.score(f.claim(), 1, "")
	}
	if body := page(); !strings.Contains(body, "Its decision waits for the arena's judge.</strong> ") || !strings.Contains(body, "never measured") || strings.Contains(body, "It has not been decided yet.") {
		t.Errorf("after it is played:\n%s", body)
	}
}
