package incentive

import "testing"

func TestPays(t *testing.T) {
	for _, c := range []struct {
		paid   []Paid
		burned float64
		why    string
		want   string
	}{
		{nil, 1, "", "The whole reward is burned: nobody sits yet."},
		{nil, 1, "no entry has taken the seat", "The whole reward is burned: no entry has taken the seat."},
		{[]Paid{{"a", 1}}, 0, "", "a earns 100 %."},
		{[]Paid{{"a", 0.6}, {"b", 0.3}}, 0.1, "the third place is empty", "a earns 60 %, b earns 30 %; 10 % is burned: the third place is empty."},
		{[]Paid{{"a", 0.25}, {"b", 0}}, 0.75, "", "a earns 25 %; 75 % is burned. Placed without a reward: b."},
		{[]Paid{{"a", 0}}, 1, "", "Nobody is paid; 100 % is burned. Placed without a reward: a."},
	} {
		if got := Pays(c.paid, c.burned, c.why); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
