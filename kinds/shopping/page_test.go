package shopping

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/ui/web"
)

// The page of a run shows each product beside what was wanted, and the voucher's
// sum; what a catalogue or an agent wrote stays text.
func TestRunPage(t *testing.T) {
	if v := page().RunData(t.Context(), web.RunView{Events: []agon.Event{{Type: agon.EventNote, Data: json.RawMessage(`{"withheld":true}`)}}}); v != nil {
		t.Errorf("of a hidden problem there is %v", v)
	}
	evil := "<script>x</script>\x1b[31m\u202e"
	notes := []play.Basket{
		{Text: play.NoteBasket, Task: "demo/one", Query: "a lamp " + evil, Category: "Voucher", Account: &score.Account{Shops: 1, Items: []score.Matched{
			{Wanted: "A", Chosen: &score.Chosen{ID: "B", Title: "lamp " + evil, Shop: "s1", Price: 12.5}, Met: 1, Of: 2, Checks: []score.Check{{What: "colour", Want: "red", Got: evil}, {What: "price", Want: "at most 20.00", Got: "12.50", Met: true}}},
			{Wanted: "C"},
		}, Sum: &score.Sum{Total: 30, After: 25, Applies: true, Budget: 25, Within: true, Voucher: "5.00 off above 20.00"}}},
		{Text: play.NoteBasket, Task: "demo/two", Query: "a chair", Ended: "timed_out"},
	}
	var v web.RunView
	for _, n := range append([]play.Basket{{Text: play.NoteBasket, Task: "demo/one", Query: "judged before"}}, notes...) {
		b, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		v.Events = append(v.Events, agon.Event{Type: agon.EventNote, Task: n.Task, Data: b})
	}
	got, err := page().RenderRun(page().RunData(t.Context(), v))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12.50", "1 of 2 conditions met", "meant was A", "25.00 with the voucher", "✓ within the budget", "No product of the catalogue", "timed out", "at most 20.00"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	for _, no := range []string{"<script", "\x1b", "\u202e", "judged before"} {
		if strings.Contains(got, no) {
			t.Errorf("%q is in %s", no, got)
		}
	}
}
