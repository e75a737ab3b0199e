package supply

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/claim/play"
)

// model is a gateway session whose model is a function of the document.
type model struct {
	*httptest.Server
	calls atomic.Int64
	say   func(doc map[string]any) (string, int)
}

func (m *model) ID() string                 { return "s" }
func (m *model) BaseURL() string            { return m.URL }
func (m *model) Header() map[string]string  { return nil }
func (m *model) Spent() agon.Micros         { return agon.Micros(m.calls.Load()) }
func (m *model) Receipts() []agon.Receipt   { return nil }
func (m *model) Evidence() gateway.Evidence { return gateway.Evidence{} }
func (m *model) Close() error               { return nil }

func newModel(t testing.TB, say func(doc map[string]any) (string, int)) (*model, *judge.Judge) {
	t.Helper()
	m := &model{say: say}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		var in struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		var doc map[string]any
		if err := json.Unmarshal([]byte(in.Messages[1].Content), &doc); err != nil {
			t.Error(err)
		}
		text, status := m.say(doc)
		w.WriteHeader(status)
		if status == 200 {
			_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": text}}}})
		} else {
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(m.Server.Close)
	j, err := judge.New(judge.Config{Session: m, Sleep: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return m, j
}

// proposer writes four claims about places that the item names; every call writes others.
func proposer(doc map[string]any) (string, int) {
	n := int(doc["lap"].(float64))*1000 + len(doc["title"].(string))*100
	var claims []map[string]any
	for i := range 4 {
		claims = append(claims, map[string]any{"factoid": "f", "claim": fmt.Sprintf("Buoy number %d lies off Brenn.", n+i), "true": true})
	}
	b, _ := json.Marshal(map[string]any{"claims": claims})
	return string(b), 200
}

func reference(map[string]any) (string, int) {
	return `{"verdict": 1, "justification": "The list has it.", "quotes": ["All buoys lie off Brenn"], "ambiguous": false}`, 200
}

// champion gets every fifth claim wrong.
type champion struct{ asked, wrongEach int }

func (c *champion) Answer(context.Context, play.Claim) (int, bool, error) {
	c.asked++
	if c.asked%c.wrongEach == 0 {
		return -1, true, nil
	}
	return 1, true, nil
}

func items(n int) []Item {
	var out []Item
	for i := range n {
		out = append(out, Item{
			URL: fmt.Sprintf("https://feed.example/%d", i), Title: strings.Repeat("t", i+1), At: time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC),
			Text: fmt.Sprintf("Report %d of the harbour office. All buoys lie off Brenn, it says, and the list of them is kept in the harbour office itself.", i),
		})
	}
	return tidy(out)
}

func config(t *testing.T, log string) (Config, *model, *champion) {
	t.Helper()
	_, p := newModel(t, proposer)
	m, r := newModel(t, reference)
	l, err := OpenLog(log, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ch := &champion{wrongEach: 5}
	return Config{Items: items(6), Proposer: p, Reference: r, Champion: ch, ChampionID: "c1", Log: l, Count: 10, Seed: 7}, m, ch
}

// The loop moves a set of which the champion gets 20 % wrong to at least 50 %.
func TestDifficultyLoop(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c, m, _ := config(t, log)
	s, err := Generate(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Report
	first := Round{}
	for _, x := range r.Rounds {
		if x.Claims == 10 && first.Claims == 0 {
			first = x
		}
	}
	if first.Wrong != .2 || r.Wrong < .5 || !r.Complete || r.Claims != 10 {
		t.Fatalf("from %.2f to %.2f: %+v", first.Wrong, r.Wrong, r)
	}
	t.Logf("%d draws moved the champion's wrong share from %.0f %% to %.0f %%", r.Draws, 100*first.Wrong, 100*r.Wrong)

	// The same log gives the same set, without asking anybody.
	calls := m.calls.Load()
	l, err := OpenLog(log, true)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Generate(context.Background(), Config{Items: c.Items, ChampionID: "c1", Log: l, Replay: true, Count: 10, Seed: 7})
	if err != nil || again.Report.Digest != r.Digest || m.calls.Load() != calls {
		t.Fatalf("replay: %v, %s, want %s", err, again.Report.Digest, r.Digest)
	}

	// What is written can be loaded as tasks.
	dir := filepath.Join(t.TempDir(), "set")
	if err := Write(dir, s); err != nil {
		t.Fatal(err)
	}
	tk, err := task.LoadDir(filepath.Join(dir, "claim-001"), "set/claim-001")
	if err != nil || tk.Config.Agon.Kind != "claim" {
		t.Fatalf("load: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "claim-001", play.ClaimFile))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := play.ParseClaim(b)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(filepath.Join(dir, "claim-001", play.ReferenceFile)); err != nil {
		t.Fatal(err)
	}
	ref, err := play.ParseReference(b, cl.Payload)
	if err != nil || ref.Spans[0].Excerpt != "All buoys lie off Brenn" {
		t.Fatalf("reference: %v %+v", err, ref)
	}
	if err := Write(dir, s); err == nil {
		t.Error("a set is written over another")
	}
}

// Killed at any line of the log, even within one, the making goes on to the same set.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	c, m, ch := config(t, filepath.Join(dir, "whole"))
	// A champion that answers by the claim, so that a restart changes nothing.
	c.Champion = byText{}
	want, err := Generate(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "whole"))
	if err != nil {
		t.Fatal(err)
	}
	_ = ch
	lines := bytes.SplitAfter(whole, []byte("\n"))
	calls := m.calls.Load()
	for n := 1; n < len(lines)-1; n += 7 {
		path := filepath.Join(dir, fmt.Sprint(n))
		half := append(bytes.Join(lines[:n], nil), lines[n][:len(lines[n])/2]...)
		if err := os.WriteFile(path, half, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLog(path, false)
		if err != nil {
			t.Fatal(err)
		}
		c.Log = l
		got, err := Generate(context.Background(), c)
		if err != nil || got.Report.Digest != want.Report.Digest {
			t.Fatalf("killed after line %d: %v, %s, want %s", n, err, got.Report.Digest, want.Report.Digest)
		}
		l.Close()
		after, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(after, whole) {
			t.Fatalf("killed after line %d: the log differs", n)
		}
	}
	if m.calls.Load() == calls {
		t.Error("nothing was asked again")
	}
	// Another making must not go on with this log.
	l, err := OpenLog(filepath.Join(dir, "whole"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c.Log, c.Seed = l, 8
	if _, err := Generate(context.Background(), c); err == nil || !strings.Contains(err.Error(), "another making") {
		t.Errorf("another seed: %v", err)
	}
}

type byText struct{}

func (byText) Answer(_ context.Context, c play.Claim) (int, bool, error) {
	if strings.Contains(c.Payload.ClaimText, "2 lies") {
		return 0, false, nil // breaks the contract: wrong
	}
	return 1, true, nil
}

func TestChecks(t *testing.T) {
	for name, c := range map[string]struct {
		reference string
		reason    string
	}{
		"made up quote": {`{"verdict": 1, "justification": "j", "quotes": ["never said"], "ambiguous": false}`, "unsupported"},
		"no quote":      {`{"verdict": 1, "justification": "j", "quotes": [], "ambiguous": false}`, "unsupported"},
		"ambiguous":     {`{"verdict": 1, "justification": "j", "quotes": ["All buoys lie off Brenn"], "ambiguous": true}`, "ambiguous"},
		"disputed":      {`{"verdict": -1, "justification": "j", "quotes": ["All buoys lie off Brenn"], "ambiguous": false}`, "disputed"},
		"illegal":       {`{"verdict": 3, "justification": "j", "quotes": ["All buoys lie off Brenn"], "ambiguous": false}`, "illegal_verdict"},
		"no form":       {`certainly`, "no_reference"},
	} {
		t.Run(name, func(t *testing.T) {
			conf, _, _ := config(t, filepath.Join(t.TempDir(), "log"))
			_, conf.Reference = newModel(t, func(map[string]any) (string, int) { return c.reference, 200 })
			conf.Draws = 6
			s, err := Generate(context.Background(), conf)
			if err != nil || len(s.Tasks) != 0 || s.Report.Dropped[c.reason] != 6 || s.Report.Complete {
				t.Errorf("%v %+v", err, s.Report)
			}
		})
	}
	t.Run("duplicate", func(t *testing.T) {
		conf, _, _ := config(t, filepath.Join(t.TempDir(), "log"))
		_, conf.Proposer = newModel(t, func(map[string]any) (string, int) {
			return `{"claims":[{"factoid":"f","claim":"All buoys lie off Brenn.","true":true},{"factoid":"f","claim":"All the buoys lie off Brenn","true":true}]}`, 200
		})
		conf.Draws = 8
		s, err := Generate(context.Background(), conf)
		if err != nil || len(s.Tasks) != 1 || s.Report.Dropped["duplicate"] != 7 {
			t.Errorf("%v %+v", err, s.Report)
		}
	})
	// A provider that is down, or money that is used up, stops the making; nothing is held against a claim.
	for name, say := range map[string]func(map[string]any) (string, int){
		"provider": func(map[string]any) (string, int) { return "", 503 },
		"budget":   func(map[string]any) (string, int) { return `{"error":{"code":"budget_exceeded"}}`, 429 },
	} {
		conf, _, _ := config(t, filepath.Join(t.TempDir(), "log"))
		_, conf.Reference = newModel(t, say)
		s, err := Generate(context.Background(), conf)
		if err != nil || s.Report.Complete || !strings.Contains(s.Report.Why, name) || len(s.Report.Dropped) != 0 {
			t.Errorf("%s: %v %+v", name, err, s.Report)
		}
	}
}

func TestReadFeed(t *testing.T) {
	long := strings.Repeat("The ferry of Brenn runs every hour. ", 5)
	for name, feed := range map[string]string{
		"rss":   `<?xml version="1.0"?><rss version="2.0"><channel><title>c</title><item><title>A &amp; B</title><link>https://a.example/1</link><pubDate>Thu, 01 Jan 2026 10:00:00 +0000</pubDate><description>&lt;p&gt;` + long + `&lt;/p&gt;&lt;script&gt;x&lt;/script&gt;</description></item></channel></rss>`,
		"atom":  `<feed xmlns="http://www.w3.org/2005/Atom"><entry><title>A &amp; B</title><link rel="self" href="https://a.example/self"/><link rel="alternate" href="https://a.example/1"/><updated>2026-01-01T10:00:00Z</updated><content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>` + long + `</p></div></content></entry></feed>`,
		"jsonf": `{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1","url":"https://a.example/1","title":"A & B","content_html":"<b>` + long + `</b>","date_published":"2026-01-01T10:00:00Z"}]}`,
	} {
		got, err := ReadFeed([]byte(feed))
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v %+v", name, err, got)
			continue
		}
		if i := got[0]; i.Title != "A & B" || i.URL != "https://a.example/1" || i.Text != strings.TrimSpace(long) || i.At.Hour() != 10 {
			t.Errorf("%s: %+v", name, i)
		}
	}
	for name, bad := range map[string]string{
		"entity": `<!DOCTYPE r [<!ENTITY a "b">]><rss/>`, "html": `<html></html>`, "text": `hello`, "cut": `<rss><channel><item>`,
		"deep": "<rss>" + strings.Repeat("<a>", 100), "utf8": "\xff<rss/>", "json": `{"items":[]}`, "charset": `<?xml version="1.0" encoding="utf-16"?><rss/>`,
	} {
		if got, err := ReadFeed([]byte(bad)); err == nil {
			t.Errorf("%s is accepted: %+v", name, got)
		}
	}
	now := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	got, err := ReadFolder(fstest.MapFS{
		"a.md": {Data: []byte("date: 2026-01-01T10:00:00Z\n\n" + long)}, "b.md": {Data: []byte("date: 2025-12-01\n\nOld: " + long)}, "c.txt": {Data: []byte(long + "c"), ModTime: now.Add(-time.Hour)},
	})
	if err != nil || len(got) != 3 || len(Fresh(got, now)) != 2 {
		t.Errorf("folder: %v, %d items, %d fresh", err, len(got), len(Fresh(got, now)))
	}
}

func FuzzReadFeed(f *testing.F) {
	f.Add([]byte(`<rss><channel><item><title>t</title><description>d</description></item></channel></rss>`))
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1","items":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadFeed(b)
		for _, i := range got {
			if err != nil || len(i.Text) > maxText || len(i.ID) != 16 || strings.ContainsAny(i.Text, "\x00\x1b") {
				t.Fatalf("%v %+v", err, i)
			}
		}
	})
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte(`{"claims":[{"factoid":"f","claim":"c","true":true}]}`))
	f.Add([]byte(`{"verdict":1,"justification":"j","quotes":["q"],"ambiguous":false}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := parseProposals(b); err == nil && len(list) > perRound {
			t.Fatal("too many")
		}
		if r, err := parseReference(b); err == nil && (r.Justification == "" || len(r.Quotes) > maxQuotes) {
			t.Fatalf("%+v", r)
		}
	})
}

func FuzzLog(f *testing.F) {
	f.Add([]byte("{\"n\":1,\"op\":\"start\",\"answer\":{}}\n{\"n\":2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &Log{answers: map[string]json.RawMessage{}}
		good, err := l.read(bytes.NewReader(b))
		if err == nil && (good > int64(len(b)) || (good > 0 && b[good-1] != '\n')) {
			t.Fatalf("good %d of %d", good, len(b))
		}
	})
}

// A round of 200 claims out of 1,000 documents of 3 KB, after five such rounds, against a
// champion that gets every third wrong. The models answer at once: what is measured is
// all but their time, and the champion's boxes.
func BenchmarkRound(b *testing.B) {
	docs := items(1000)
	for i := range docs {
		docs[i].Text += strings.Repeat(fmt.Sprintf(" Entry %d of the register is kept in the harbour office.", i), 60)
	}
	var avoid []string
	for i := range 1000 {
		avoid = append(avoid, fmt.Sprintf("Lighthouse number %d stands on the coast of Marn and was painted in the spring.", i))
	}
	for b.Loop() {
		dir := b.TempDir()
		_, p := newModel(b, proposer)
		_, r := newModel(b, reference)
		_, a := newModel(b, func(map[string]any) (string, int) { return `{"sound": true, "fault": ""}`, 200 })
		l, err := OpenLog(filepath.Join(dir, "log"), false)
		if err != nil {
			b.Fatal(err)
		}
		set, err := Generate(b.Context(), Config{Items: docs, Proposer: p, Reference: r, Auditor: a, Avoid: avoid, Champion: &champion{wrongEach: 3}, ChampionID: "c", Log: l, Count: 200, Seed: 7})
		if err != nil || !set.Report.Complete || len(set.Tasks) != 200 {
			b.Fatalf("%+v %v", set, err)
		}
		if err := Write(filepath.Join(dir, "set"), set); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(set.Report.Draws), "draws")
	}
}
