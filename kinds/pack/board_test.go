package pack_test

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/pack"
)

// The board shows what the validators without a platform agree on, and of an
// arena where there are none nothing.
func TestBoard(t *testing.T) {
	page := pack.Kit().Page
	if d := page.Data(t.Context(), "demo-pack"); d != nil {
		t.Errorf("without validators there is %v", d)
	}
	winner, hash := "5WinnerWinnerWinner", strings.Repeat("ab", 32)
	g := &client.Agreement{Netuid: 11, Agreed: true, Winner: &winner, PackHash: &hash, CostUSD: 0.25, Tasks: []string{"office/standup"}, Validators: []client.Agreeing{
		{Hotkey: "5OneOneOneOneOneOne", Winner: winner, CostUSD: 0.25, Judged: 3, Filter: "3 in", Excluded: map[string]string{"5Bad": "<b>copy</b>"}, Weights: []agon.Weight{{UID: 4, Weight: 65535}}},
	}}
	got, err := page.Render(g)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 validator found the packs", "They agree", "5Winn", "$0.250000 an episode", "uid 4 100.0 %", "&lt;b&gt;copy"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if got, err = page.Render(&client.Agreement{Note: "it is early"}); err != nil || !strings.Contains(got, "not agreed yet: it is early") {
		t.Errorf("%s, %v", got, err)
	}
}
