package research

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/coordinator"
)

// A board draws the records of its task between the base and what is known
// elsewhere, hostile summaries as text.
func TestRecordPage(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	known, gain := 680.0, 12.0
	rec := func(n int, v float64, summary string) coordinator.BookEntry {
		e := coordinator.BookEntry{Summary: summary}
		e.Submission, e.Number, e.Value, e.Miner, e.At.Time = "s"+strings.Repeat("x", n), n, v, "5Miner", now.Add(-time.Hour*time.Duration(10-n))
		if n > 1 {
			e.Delta = &gain
		}
		return e
	}
	b := &coordinator.Book{Metric: "length", Direction: agon.Minimize, Baseline: 1802, BestKnown: &known, Entries: []coordinator.BookEntry{
		rec(1, 1100, "steps of a prime\nsecond line"), rec(2, 747, "<script>alert(1)</script>\x1b[31m"),
	}}
	card := agon.Driver{GPUs: []agon.GPU{{Model: "NVIDIA H100"}, {Model: "NVIDIA H100"}}}
	b.Entries[1].Replays = []coordinator.RecordReplay{{Hardware: card.HardwareClass()}, {Hardware: card.HardwareClass()}, {}}
	b.Members = []coordinator.MemberRecord{{Name: "sort<b>", Value: 31.5, Submission: "sx", Miner: "5Other"}}
	got, err := page(nil, time.Now).Render(newRecordPage(b, now))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"best known 680", "the base 1802", "9.9 % from the best known", "steps of a prime", "&lt;script&gt;", "1100", "747", "3 replays on 2 x NVIDIA H100<", "0 replays<", "sort&lt;b&gt;", "31.5", `href="/submissions/sx"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not on the page: %s", want, got)
		}
	}
	if strings.Contains(got, "<script>") || strings.Contains(got, "\x1b") {
		t.Errorf("hostile text stands on the page: %s", got)
	}
	var many coordinator.Book
	for n := range shownRecords + 3 {
		many.Entries = append(many.Entries, rec(n+1, 900, fmt.Sprintf("method %d.", n+1)))
	}
	got, err = page(nil, time.Now).Render(newRecordPage(&many, now))
	open, folded, cut := strings.Cut(got, "3 records before these")
	at := max(0, strings.Index(open, `<table class="records">`))
	if err != nil || !cut || !strings.Contains(open[at:], "method 13.") || !strings.Contains(open[at:], "method 4.") || strings.Contains(open[at:], "method 3.") || !strings.Contains(folded, "method 3.") {
		t.Errorf("%v: %s", err, got)
	}
	if got, err = page(nil, time.Now).Render(newRecordPage(&coordinator.Book{Metric: "length", Direction: agon.Maximize}, now)); err != nil || !strings.Contains(got, "Nobody has beaten the base yet.") {
		t.Errorf("%v: %s", err, got)
	}
}

func TestAgainst(t *testing.T) {
	for _, c := range []struct {
		v, known  float64
		direction string
		want      string
	}{
		{680, 680, agon.Minimize, "equal to the best known"},
		{679, 680, agon.Minimize, "better than the best known"},
		{679, 680, agon.Maximize, "0.1 % from the best known"},
		{2.6359, 2.63598, agon.Maximize, "within 0.1 % of the best known"},
		{747, 680, agon.Minimize, "9.9 % from the best known"},
	} {
		if got := against(c.v, c.known, c.direction); got != c.want {
			t.Errorf("%v against %v: %q, want %q", c.v, c.known, got, c.want)
		}
	}
}
