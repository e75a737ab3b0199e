//go:build browser

// Package browsertest clicks through the pages of a running agon in a real
// Chromium: `make browser` starts both. It fails on a serious finding of axe,
// a request that leaves the machine, or an error in the console, and keeps a
// picture of each page.
package browsertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// perType is how many pages of one form are looked at for each arena, and of a
// form with a query.
const perType, perQuery = 2, 1

// picture are links that are not pages: pictures and feeds.
var picture = regexp.MustCompile(`\.(atom|svg|png|json|zip)$`)

// minPages is what the six demo arenas have at least.
const minPages = 50

var (
	ids   = regexp.MustCompile(`/[0-9a-f-]{36}|/[0-9]+(\.[0-9]+)?$|=[^&]*`)
	plain = regexp.MustCompile(`[^a-z0-9]+`)
	arena = regexp.MustCompile(`^/arenas/([^/?]+)`)
	// inside are pages that belong to the arena whose page links to them.
	inside = regexp.MustCompile(`^/(arenas|submissions|runs|embed)/`)
)

// browser is one Chromium that notes what goes wrong in it.
type browser struct {
	context.Context
	t               *testing.T
	base, shots, ax string
	mu              sync.Mutex
	trouble         []string
}

func setting(t *testing.T, name string) string {
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: run make browser", name)
	}
	return v
}

func open(t *testing.T) *browser {
	axe, err := os.ReadFile(setting(t, "AGON_AXE"))
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, base: setting(t, "AGON_BROWSER_URL"), shots: setting(t, "AGON_BROWSER_SHOTS"), ax: string(axe)}
	if err := os.MkdirAll(b.shots, 0o755); err != nil {
		t.Fatal(err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(setting(t, "AGON_CHROMIUM")))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b.Context, cancel = context.WithTimeout(ctx, 40*time.Minute)
	t.Cleanup(cancel)
	home, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	b.listen(b, home)
	return b
}

// listen notes what goes wrong in a tab.
func (b *browser) listen(tab context.Context, home *url.URL) {
	chromedp.ListenTarget(tab, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err == nil && u.Host != home.Host && u.Scheme != "data" && u.Scheme != "about" {
				b.trouble = append(b.trouble, "a request left the machine: "+e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			b.trouble = append(b.trouble, "exception: "+e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.LevelError {
				b.trouble = append(b.trouble, "console: "+e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	if err := chromedp.Run(tab, network.Enable(), cdplog.Enable()); err != nil {
		b.t.Fatal(err)
	}
}

// more opens further tabs of the same Chromium.
func (b *browser) more(n int) (tabs []context.Context) {
	home, err := url.Parse(b.base)
	if err != nil {
		b.t.Fatal(err)
	}
	for range n {
		tab, cancel := chromedp.NewContext(b.Context)
		b.t.Cleanup(cancel)
		b.listen(tab, home)
		tabs = append(tabs, tab)
	}
	return tabs
}

func (b *browser) run(acts ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b, acts...); err != nil {
		b.t.Fatal(err)
	}
}

// close tells what went wrong meanwhile.
func (b *browser) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.trouble {
		b.t.Error(x)
	}
}

// drawn waits until every chart of a page has been drawn by its script.
const drawn = `[...document.querySelectorAll("figure[data-plot]")].every(f => f.querySelector(".plot canvas"))`

// look opens a page (or stays on this one for ""), wide and light, narrow and
// dark: nothing serious for axe, nothing wider than the screen, a picture. It
// returns the links, and reports what is wrong.
func (b *browser) look(at, name string) (links []string) {
	b.t.Helper()
	links, err := b.lookIn(b, at, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return links
}

// tallest is how many pixels of a page a picture shows: Chromium makes none of a page that is much taller.
const tallest = 30_000

// shoot takes a picture of the whole page, down to tallest.
func shoot(shot *[]byte) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, all, err := page.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		*shot, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).
			WithClip(&page.Viewport{Width: all.Width, Height: min(all.Height, tallest), Scale: 1}).Do(ctx)
		return err
	})
}

// lookIn is look in a tab; its error says that the page could not be looked at.
func (b *browser) lookIn(tab context.Context, at, name string) (links []string, err error) {
	b.t.Helper()
	for _, view := range []struct {
		name, scheme string
		width        int64
	}{{"wide", "light", 1280}, {"phone", "dark", 390}} {
		var found string
		var scroll int64
		var shot []byte
		acts := chromedp.Tasks{
			emulation.SetDeviceMetricsOverride(view.width, 900, 1, view.width < 500),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: view.scheme}}),
		}
		if at != "" {
			acts = append(acts, chromedp.Navigate(b.base+at))
		}
		acts = append(acts, chromedp.WaitReady("main"), chromedp.Poll(drawn, nil, chromedp.WithPollingTimeout(20*time.Second)),
			chromedp.Evaluate(`[...document.querySelectorAll("a[href^='/']")].map(a => a.getAttribute("href").split("#")[0])`, &links),
			chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &scroll),
			chromedp.Evaluate(b.ax+"; true", nil),
			chromedp.Evaluate(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
				JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))}))))`,
				&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
			shoot(&shot))
		var err error
		for range 2 { // a page that loads itself anew meanwhile never answers axe: once more
			look, cancel := context.WithTimeout(tab, 2*time.Minute)
			err = chromedp.Run(look, acts)
			cancel()
			if err == nil {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s (%s): %w", at, view.name, err)
		}
		if err := os.WriteFile(filepath.Join(b.shots, name+"-"+view.name+".png"), shot, 0o644); err != nil {
			return nil, err
		}
		if scroll > 1 {
			b.t.Errorf("%s (%s): %d pixels wider than the screen", at, view.name, scroll)
		}
		var list []struct {
			ID, Impact, Help string
			Nodes            []string
		}
		if err := json.Unmarshal([]byte(found), &list); err != nil {
			return nil, err
		}
		for _, v := range list {
			if v.Impact == "serious" || v.Impact == "critical" {
				b.t.Errorf("%s (%s): %s: %s\n\t%s", at, view.name, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
			} else {
				b.t.Logf("%s (%s): %s, %s", at, view.name, v.Impact, v.Help)
			}
		}
	}
	return links, nil
}

// link is a page and the arena that it is of.
type link struct{ at, arena, name string }

// forms chooses the pages that are looked at: some of each form of page for each arena.
type forms struct {
	only   *regexp.Regexp // the groups that are looked at; the first page always is
	seen   map[string]bool
	types  map[string]int
	arenas map[string]bool
}

// choose names the links of a list that shall be looked at.
func (f *forms) choose(todo []link) (chosen []link) {
	for _, l := range todo {
		if m := arena.FindStringSubmatch(l.at); m != nil {
			l.arena = m[1]
		} else if !inside.MatchString(l.at) {
			l.arena = ""
		}
		if l.at != "/" && !f.only.MatchString(cmp.Or(l.arena, "server")) {
			continue
		}
		if l.arena != "" {
			f.arenas[l.arena] = true
		}
		form := l.arena + ids.ReplaceAllString(strings.TrimPrefix(l.at, "/arenas/"+l.arena), "/x")
		most := perType
		if strings.Contains(form, "?") {
			most = perQuery
		}
		if f.seen[l.at] || f.types[form] >= most || (l.arena == "" && f.types[form] > 0) {
			continue
		}
		f.seen[l.at] = true
		f.types[form]++
		name := strings.Trim(plain.ReplaceAllString(form, "-"), "-")
		if name == "" {
			name = "home"
		}
		l.name = fmt.Sprintf("%s-%d", name, f.types[form])
		chosen = append(chosen, l)
	}
	return chosen
}

// atOnce is how many pages are looked at at once.
const atOnce = 3

// TestPages follows the links of every page from the first one. Each form of
// page is looked at for each arena.
func TestPages(t *testing.T) {
	b := open(t)
	f := &forms{only: regexp.MustCompile(os.Getenv("AGON_BROWSER_ONLY")), seen: map[string]bool{}, types: map[string]int{}, arenas: map[string]bool{}}
	free := make(chan context.Context, atOnce)
	for _, tab := range b.more(atOnce) {
		free <- tab
	}
	n := 0
	// Those of one distance from the first page at once, so that each run looks at the same.
	for todo := f.choose([]link{{at: "/"}}); len(todo) > 0; {
		found := make([][]string, len(todo))
		var wg sync.WaitGroup
		for i, l := range todo {
			tab := <-free
			wg.Go(func() {
				defer func() { free <- tab }()
				began := time.Now()
				links, err := b.lookIn(tab, l.at, l.name)
				if err != nil {
					t.Error(err)
				}
				found[i] = links
				t.Logf("%3d of %d: %s, %.1f s", n+i+1, n+len(todo), l.at, time.Since(began).Seconds())
			})
		}
		wg.Wait()
		n += len(todo)
		var next []link
		for i, l := range todo {
			for _, at := range found[i] {
				if !strings.HasPrefix(at, "/openapi") && !strings.HasPrefix(at, "/v1/") && !strings.Contains(at, "/file?") && !picture.MatchString(at) {
					next = append(next, link{at: at, arena: l.arena})
				}
			}
		}
		todo = f.choose(next)
	}
	b.close()
	t.Logf("%d pages of %d forms in %d arenas, each wide and light, narrow and dark", n, len(f.types), len(f.arenas))
	if os.Getenv("AGON_BROWSER_ONLY") == "" && (n < minPages || len(f.arenas) < 5) {
		t.Errorf("only %d pages of %d arenas were found", n, len(f.arenas))
	}
}

// signIn signs the browser in by the link of a wallet of the demo; before is
// called on the page that asks for the click.
func (b *browser) signIn(wallet string, before func()) {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), setting(b.t, "AGON_BIN"), "web", "login", "-o", "id",
		"--url", b.base, "--wallet.path", filepath.Join(setting(b.t, "AGON_BROWSER_DATA"), "wallets"), "--wallet.name", wallet).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	b.run(chromedp.Navigate(strings.TrimSpace(string(out))), chromedp.WaitVisible(`form[action="/signin"] button`))
	before()
	b.run(chromedp.Click(`form[action="/signin"] button`), chromedp.WaitVisible(`form[action="/signout"]`))
}

// TestDesks looks at the desk of a miner who was refused, of one who leads, and
// of the validator.
func TestDesks(t *testing.T) {
	for _, wallet := range []string{"miner-gaming", "miner-lexical", "validator"} {
		b := open(t)
		b.signIn(wallet, func() {})
		b.look("/desk", "desk-"+wallet)
		b.close()
	}
}

// TestOperator signs a browser in by the operator's link and uses the forms of its page.
func TestOperator(t *testing.T) {
	b := open(t)
	b.signIn("operator", func() { b.look("", "signin") })
	b.run(chromedp.WaitVisible(`form[action="/operator/arena"]`))
	b.look("", "operator")
	var state, first string
	b.run(chromedp.Evaluate(`"#" + document.querySelector("section.card").id`, &first))
	press := func(button, want string) {
		t.Helper()
		b.run(chromedp.Click(`form[action="/operator/arena"] button[value="`+button+`"]`), chromedp.WaitVisible(first+" .s-"+want), chromedp.Text(first+" .state", &state))
		if state != want {
			t.Errorf("after the button %s the first arena is %s", button, state)
		}
	}
	var needs string
	press("paused", "paused")
	if b.run(chromedp.Text("main", &needs)); !strings.Contains(needs, "is paused: it takes no submissions") {
		t.Errorf("a paused arena is not named first: %s", needs)
	}
	press("open", "open")
	// The effect is shown before anything is changed.
	var plan string
	b.run(chromedp.Click(`section.card summary`), chromedp.SetValue(`form[action="/operator/retune"] input[name="attempts"]`, "3"),
		chromedp.SetValue(`form[action="/operator/retune"] input[name="max_leases"]`, "1"),
		chromedp.SetValue(`form[action="/operator/retune"] input[name="reason"]`, "a test of the form"),
		chromedp.Click(`button[formaction="/operator/retune-plan"]`), chromedp.WaitVisible(`//h1[contains(., "What the change would do")]`), chromedp.Text("main", &plan))
	if !strings.Contains(plan, "max_leases") || !strings.Contains(plan, "Nothing is changed yet") {
		t.Errorf("the effect: %s", plan)
	}
	b.look("", "operator-retune")
	b.run(chromedp.Click(`form[action="/operator/retune"] button`), chromedp.WaitVisible(`//td[contains(., "a test of the form")]`))
	b.look("", "operator-after")
	var sub string
	b.run(chromedp.Navigate(b.base+"/"), chromedp.WaitReady("main"),
		chromedp.Evaluate(`document.querySelector("a[href^='/submissions/']").getAttribute("href")`, &sub))
	b.look(sub, "operator-submission")
	b.close()
}

// TestAppeal has a miner of the demo appeal from his desk and the operator deny it from the other.
func TestAppeal(t *testing.T) {
	wallets, err := filepath.Glob(filepath.Join(setting(t, "AGON_BROWSER_DATA"), "wallets", "miner-*"))
	if err != nil || len(wallets) == 0 {
		t.Fatalf("no wallets of miners: %v", err)
	}
	const form = `form[action="/desk/appeal"]`
	made := ""
	for _, w := range wallets { // each submission is appealed once, and tests run again on the same data
		b := open(t)
		b.signIn(filepath.Base(w), func() {})
		var forms []*cdp.Node
		b.run(chromedp.Navigate(b.base+"/desk"), chromedp.WaitReady("main"), chromedp.Nodes(form, &forms, chromedp.ByQueryAll, chromedp.AtLeast(0)))
		if len(forms) > 0 {
			b.run(chromedp.Evaluate(`document.querySelector('form[action="/desk/appeal"] input[name="submission"]').value`, &made),
				chromedp.Evaluate(`document.querySelector('form[action="/desk/appeal"]').closest("details").open = true`, nil),
				chromedp.SetValue(form+` input[name="reason"]`, "its model <b>was away</b>"), chromedp.Click(form+" button"), chromedp.WaitVisible(`//p[contains(., "Your appeal is open")]`))
			b.look("", "desk-appeal")
		}
		b.close()
		if made != "" {
			break
		}
	}
	if made == "" {
		t.Fatal("no miner of the demo has anything left to appeal")
	}
	b := open(t)
	b.signIn("operator", func() {})
	answer := `//form[@action="/operator/appeal"][input[@value="` + made + `"]]`
	b.run(chromedp.Navigate(b.base+"/operator"), chromedp.WaitVisible(answer))
	b.look("", "operator-appeal")
	var log string
	b.run(chromedp.SetValue(answer+`//input[@name="reason"]`, "played again, it scores the same"), chromedp.Click(answer+`//button[@value="deny"]`),
		chromedp.WaitVisible(`//td[contains(., "appeal denied")]`), chromedp.Text("main", &log))
	if !strings.Contains(log, made) {
		t.Errorf("the log does not tell of the answer: %s", log)
	}
	b.close()
}

// TestTimelineZooms drags over a part of a run's timeline, and goes back, without
// the page being loaded anew; its links do the same without a script.
func TestTimelineZooms(t *testing.T) {
	b := open(t)
	var run, caption string
	b.run(chromedp.Navigate(b.base+"/"), chromedp.WaitReady("main"),
		chromedp.Evaluate(`document.querySelector("a[href^='/runs/']").getAttribute("href")`, &run))
	drag := `(() => {
		window.stayed = true;
		const s = document.querySelector("#timeline svg"), r = s.getBoundingClientRect();
		const at = (type, x) => s.dispatchEvent(new PointerEvent(type, {bubbles: true, button: 0, clientX: r.left + x * r.width, clientY: r.top + 5}));
		at("pointerdown", 0.3); at("pointermove", 0.5); at("pointermove", 0.6); at("pointerup", 0.6);
	})()`
	says := `document.querySelector("#timeline figcaption").textContent`
	b.run(chromedp.Navigate(b.base+run), chromedp.WaitVisible("#timeline svg", chromedp.ByQuery), chromedp.Evaluate(drag, nil),
		chromedp.Poll(says+`.includes("after its start")`, nil, chromedp.WithPollingTimeout(20*time.Second)))
	b.look("", "timeline-zoomed")
	var stayed bool
	b.run(chromedp.Evaluate(`window.stayed === true && location.search.includes("t=")`, &stayed),
		chromedp.Click(`//*[@id="timeline"]//a[contains(., "the whole")]`), chromedp.Poll(`!`+says+`.includes("after its start")`, nil, chromedp.WithPollingTimeout(20*time.Second)))
	if !stayed {
		t.Error("the page was loaded anew, or its address does not lead to the part")
	}
	b.run(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(b.base+run), chromedp.Click(`//*[@id="timeline"]//a[contains(., "second half")]`),
		chromedp.WaitVisible(`//*[@id="timeline"]//a[contains(., "the whole")]`), chromedp.Text("#timeline figcaption", &caption, chromedp.ByQuery))
	if !strings.Contains(caption, "after its start") {
		t.Errorf("without a script: %s", caption)
	}
	b.close()
}

// TestKeysAndNoScript steps through a run by keys, and reads a board without any script.
func TestKeysAndNoScript(t *testing.T) {
	b := open(t)
	var run, board string
	var here int
	b.run(chromedp.Navigate(b.base+"/"), chromedp.WaitReady("main"),
		chromedp.Evaluate(`document.querySelector(".card h3 a").getAttribute("href")`, &board),
		chromedp.Click(`a[href^="/submissions/"]`, chromedp.ByQuery), chromedp.WaitVisible(`a[href^="/runs/"]`, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("a[href^='/runs/']").getAttribute("href")`, &run))
	b.run(chromedp.Navigate(b.base+run), chromedp.WaitVisible(".step", chromedp.ByQuery), chromedp.KeyEvent("jjk"),
		chromedp.Evaluate(`[...document.querySelectorAll(".step")].findIndex(s => s.classList.contains("here"))`, &here))
	if here != 0 {
		t.Errorf("j, j, k lead to step %d, want the first", here)
	}
	// The rows of the matrix in the order of a task: who did better on it comes first.
	var order string
	b.run(chromedp.Navigate(b.base+board), chromedp.WaitVisible("table.matrix", chromedp.ByQuery), chromedp.Evaluate(`(() => {
		const s = document.querySelector("label select"), m = document.querySelector("table.matrix");
		const names = () => [...m.rows].map(r => r.cells[0].textContent).join("|");
		const before = names();
		s.value = s.options[s.options.length - 1].value;
		s.dispatchEvent(new Event("change"));
		const marks = [...m.rows].map(r => [...r.querySelectorAll("svg a")].find(a => new URL(a.href.baseVal, location.href).searchParams.get("task") === s.value)?.firstElementChild.className.baseVal ?? "");
		const sorted = marks.every((x, i) => i === 0 || x <= marks[i - 1]);
		s.value = "";
		s.dispatchEvent(new Event("change"));
		return (sorted ? "sorted" : "not sorted: " + marks) + (names() === before ? "" : ", and not put back");
	})()`, &order))
	if order != "sorted" {
		t.Errorf("the matrix is %s", order)
	}
	var bars []*cdp.Node
	b.run(emulation.SetScriptExecutionDisabled(true), chromedp.Navigate(b.base+board+"/tasks"), chromedp.Nodes(".chart svg rect.dot", &bars, chromedp.ByQueryAll, chromedp.AtLeast(0)))
	if len(bars) == 0 {
		t.Error("no chart is drawn without a script")
	}
	b.close()
}
