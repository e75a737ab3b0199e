package problem

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// What retires is shown with its answers. A hidden problem that shares one of them could be
// answered out of a list of those: it retires too, and none such is taken into the bank.
func TestAnswersOfRetiredProblems(t *testing.T) {
	one := func(name string, answers ...string) shop.Problem {
		p := shop.Problem{ProblemID: newID(name), Query: "query " + name, Category: shop.CategoryShop, Difficulty: "easy", Title: name}
		for _, id := range answers {
			p.Reward.Items = append(p.Reward.Items, shop.Item{ProductID: id, Title: []string{"goods " + id}})
		}
		return p
	}
	first, second, third, other := one("first", "1", "2"), one("second", "2", "3"), one("third", "3", "4"), one("other", "5", "6")
	b, err := NewBank(Policy{MaxExposures: 1}, []shop.Problem{one("public", "7", "8")}, []shop.Problem{first, second, third, other})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Draw("r1", 4)
	if err != nil || len(r) != 4 {
		t.Fatal(err)
	}
	if err := b.Expose("r1", first.ProblemID, "s"); err != nil {
		t.Fatal(err)
	}
	retired, err := b.Close("r1")
	slices.Sort(retired)
	want := []string{first.ProblemID, second.ProblemID, third.ProblemID}
	slices.Sort(want)
	if err != nil || !slices.Equal(retired, want) || b.Left() != 1 {
		t.Errorf("%v retired, want %v; %d left, %v", retired, want, b.Left(), err)
	}
	if why := b.Entries[second.ProblemID].Retired; !strings.Contains(why, first.ProblemID) {
		t.Errorf("it does not say why: %q", why)
	}
	if again, err := b.Close("r1"); again != nil || err != nil {
		t.Errorf("%v, %v", again, err)
	}
	known, fresh := one("known", "9", "4"), one("fresh", "9", "5")
	var e *agon.Error
	if err := b.Add(StateHidden, []shop.Problem{known}); !errors.As(err, &e) || e.Field != "reward" {
		t.Errorf("a problem with a known answer is taken: %v", err)
	}
	if got := b.Unshown([]shop.Problem{known, fresh}); len(got) != 1 || got[0].ProblemID != fresh.ProblemID {
		t.Errorf("%v", got)
	}
	if err := b.Add(StateHidden, []shop.Problem{fresh}); err != nil {
		t.Error(err)
	}
}
