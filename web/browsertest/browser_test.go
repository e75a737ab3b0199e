//go:build browser

// Package browsertest clicks through the pages of a running agon in a real
// Chromium: `make browser` starts both. It fails on a serious finding of axe,
// a request that leaves the machine, or an error in the console, and keeps a
// picture of each page.
package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// perType is how many pages of one form are looked at.
const perType = 3

var ids = regexp.MustCompile(`/[0-9a-f-]{36}|/[0-9]+(\.[0-9]+)?$|=[^&]*`)

func setting(t *testing.T, name string) string {
	v := os.Getenv(name)
	if v == "" {
		t.Fatalf("%s is not set: run make browser", name)
	}
	return v
}

func TestPages(t *testing.T) {
	base := setting(t, "AGON_BROWSER_URL")
	shots := setting(t, "AGON_BROWSER_SHOTS")
	axe, err := os.ReadFile(setting(t, "AGON_AXE"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(setting(t, "AGON_CHROMIUM")))
	actx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	defer stop()
	ctx, cancel := chromedp.NewContext(actx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()

	home, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var trouble []string
	chromedp.ListenTarget(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := ev.(type) {
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err == nil && u.Host != home.Host && u.Scheme != "data" && u.Scheme != "about" {
				trouble = append(trouble, "a request left the machine: "+e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			trouble = append(trouble, "exception: "+e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if e.Entry.Level == cdplog.LevelError {
				trouble = append(trouble, "console: "+e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	if err := chromedp.Run(ctx, network.Enable(), cdplog.Enable()); err != nil {
		t.Fatal(err)
	}

	todo, seen, types := []string{"/"}, map[string]bool{}, map[string]int{}
	n := 0
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		form := ids.ReplaceAllString(at, "/X")
		if seen[at] || types[form] >= perType {
			continue
		}
		seen[at] = true
		types[form]++
		n++
		var links []string
		for _, view := range []struct {
			name  string
			width int64
			dark  bool
		}{{"wide", 1280, false}, {"phone", 390, true}} {
			scheme := "light"
			if view.dark {
				scheme = "dark"
			}
			var found string
			var scroll int64
			var shot []byte
			err := chromedp.Run(ctx,
				emulation.SetDeviceMetricsOverride(view.width, 900, 1, view.width < 500),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.Navigate(base+at), chromedp.WaitReady("main"),
				chromedp.Evaluate(`[...document.querySelectorAll("a[href^='/']")].map(a => a.getAttribute("href").split("#")[0])`, &links),
				chromedp.Evaluate(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &scroll),
				chromedp.Evaluate(string(axe)+"; true", nil),
				chromedp.Evaluate(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
					JSON.stringify(r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200))}))))`,
					&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
				chromedp.FullScreenshot(&shot, 100),
			)
			if err != nil {
				t.Fatalf("%s (%s): %v", at, view.name, err)
			}
			name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(form, "-"), "-")
			if name == "" {
				name = "home"
			}
			if err := os.WriteFile(filepath.Join(shots, fmt.Sprintf("%s-%d-%s.png", name, types[form], view.name)), shot, 0o644); err != nil {
				t.Fatal(err)
			}
			if scroll > 1 {
				t.Errorf("%s (%s): %d pixels wider than the screen", at, view.name, scroll)
			}
			var list []struct {
				ID, Impact, Help string
				Nodes            []string
			}
			if err := json.Unmarshal([]byte(found), &list); err != nil {
				t.Fatal(err)
			}
			for _, v := range list {
				if v.Impact == "serious" || v.Impact == "critical" {
					t.Errorf("%s (%s): %s: %s\n\t%s", at, view.name, v.ID, v.Help, strings.Join(v.Nodes, "\n\t"))
				} else {
					t.Logf("%s (%s): %s, %s", at, view.name, v.Impact, v.Help)
				}
			}
		}
		for _, l := range links {
			if !strings.HasPrefix(l, "/openapi") && !strings.Contains(l, "/file?") {
				todo = append(todo, l)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, x := range trouble {
		t.Error(x)
	}
	t.Logf("%d pages of %d forms, each wide and light, narrow and dark", n, len(types))
	if n < 12 {
		t.Errorf("only %d pages were found", n)
	}
}
