package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind/kindtest"
)

// A board shows the part of its own kind, hostile text in it escaped. A part
// without data is left out, and so is one that fails: the board stays.
func TestBoardPart(t *testing.T) {
	f := newFixture(t)
	kind := kindtest.Fake{}.Name()
	for name, c := range map[string]struct {
		kind, html string
		data       any
		want       string // "": no part
		logged     bool
		first      bool
	}{
		"shown":           {kind, `<h2>Of the kind</h2>{{line .Text}}`, struct{ Text string }{"<b>evil</b>\x1b[1m"}, "<h2>Of the kind</h2>&lt;b&gt;evil&lt;/b&gt;", false, false},
		"shown first":     {kind, `<h2>Of the kind</h2>`, 1, "<h2>Of the kind</h2><h2>Board</h2>", false, true},
		"of another kind": {"golf", `<h2>Of the kind</h2>`, 1, "", false, true},
		"nothing to show": {kind, `<h2>Of the kind</h2>`, nil, "", false, false},
		"fails":           {kind, `<h2>Of the kind</h2>{{.Missing}}`, 1, "", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var log bytes.Buffer
			h, err := New(Config{
				Platform: f.Platform, Ledger: ledger{}, Verifier: verifier{}, Server: client.Server{Operator: boss}, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)),
				Parts: map[string]Part{c.kind: {First: c.first, HTML: c.html, Data: func(_ context.Context, arena string) any {
					asked = append(asked, arena)
					return c.data
				}}},
			})
			must(t, err)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/arenas/demo", nil))
			page := w.Body.String()
			if w.Code != 200 || !strings.Contains(page, "Weights on the ledger") {
				t.Fatalf("%d: %s", w.Code, page)
			}
			if strings.Contains(page, "Of the kind") != (c.want != "") || !strings.Contains(page, c.want) || strings.Contains(page, "\x1b") {
				t.Errorf("page %s", page)
			}
			if c.want != "" && strings.Count(page, "Of the kind") != 1 {
				t.Errorf("it is shown %d times", strings.Count(page, "Of the kind"))
			}
			if strings.Contains(log.String(), "page part failed") != c.logged {
				t.Errorf("log %q", log.String())
			}
			if c.kind == kind && (len(asked) != 1 || asked[0] != "demo") {
				t.Errorf("asked for %v", asked)
			}
		})
	}
	if _, err := New(Config{Now: time.Now, Parts: map[string]Part{"golf": {HTML: "{{nosuch .}}"}}}); err == nil || !strings.Contains(err.Error(), "golf") {
		t.Errorf("a broken template: %v", err)
	}
}
