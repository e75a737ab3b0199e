package incentive

import (
	"cmp"
	"strings"
)

// Paid is who earns what share of a reward.
type Paid struct {
	Name  string
	Share float64
}

// Pays says in a sentence who earns what, and why the rest is burned. paid is by
// place, with those who sit and earn nothing; why is the rule's (Rule.Unpaid), or
// says why nobody sits.
func Pays(paid []Paid, burned float64, why string) string {
	if len(paid) == 0 {
		return "The whole reward is burned: " + cmp.Or(why, "nobody sits yet") + "."
	}
	var earn, none []string
	for _, p := range paid {
		if p.Share > 0 {
			earn = append(earn, p.Name+" earns "+Percent(p.Share))
		} else {
			none = append(none, p.Name)
		}
	}
	s := "Nobody is paid"
	if len(earn) > 0 {
		s = strings.Join(earn, ", ")
	}
	if burned > 0 {
		s += "; " + Percent(burned) + " is burned"
		if why != "" {
			s += ": " + why
		}
	}
	s += "."
	if len(none) > 0 {
		s += " Placed without a reward: " + strings.Join(none, ", ") + "."
	}
	return s
}

// Percent writes a share for people: 0.25 is 25 %.
func Percent(share float64) string { return Figure(share*100) + " %" }
