package score

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func flagged(list []Standing) string {
	var out []string
	for _, s := range list {
		if s.Flagged {
			out = append(out, s.Validator)
		}
	}
	return strings.Join(out, " ")
}

func TestAgree(t *testing.T) {
	// opinions of validators a, b, c … by item: a letter per validator, 1 or 0, "-" for none.
	build := func(rows ...string) (list []Opinion) {
		for i, row := range rows {
			for j, c := range row {
				if c != '-' {
					list = append(list, Opinion{string(rune('a' + j)), fmt.Sprint("i", i), float64(c - '0')})
				}
			}
		}
		return list
	}
	for name, c := range map[string]struct {
		rows []string
		want string
	}{
		"all agree":               {[]string{"111", "000", "111", "000", "111", "111"}, ""},
		"one broken":              {[]string{"110", "000", "110", "110", "001", "111"}, "c"},
		"two cannot be told":      {[]string{"10", "01", "10", "10", "10"}, ""},
		"a slip is not a failure": {[]string{"110", "000", "111", "111", "000", "111"}, ""},
		"too few items":           {[]string{"110", "110", "110"}, ""},
		"noise is nobody's":       {[]string{"110", "101", "011", "110", "101", "011", "110", "101"}, ""},
		"broken beside noise":     {[]string{"11110", "11100", "00001", "11110", "00001", "11110", "00001", "01110"}, "e"},
		"two broken of five":      {[]string{"11100", "11100", "00011", "11100", "00011", "11100", "00011", "11100"}, ""},
		"broken where it played":  {[]string{"110-", "1101", "0010", "1101", "1101", "0010", "1101"}, "c"},
	} {
		got := Concord(build(c.rows...))
		if flagged(got) != c.want {
			t.Errorf("%s: flagged %q, want %q: %+v", name, flagged(got), c.want, got)
		}
	}
	if len(Concord(nil)) != 0 {
		t.Error("nobody has an opinion")
	}
}

// The order of opinions is no matter, and honest validators with little noise
// are hardly ever flagged, while one that answers by chance is.
func TestAgreeProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	wrong, found := 0, 0
	for range 300 {
		var list []Opinion
		for i := range 24 {
			truth := float64(r.IntN(2))
			for _, v := range []string{"a", "b", "c"} {
				x := truth
				if v == "c" || r.Float64() < .03 {
					x = float64(r.IntN(2))
				}
				list = append(list, Opinion{v, fmt.Sprint(i), x})
			}
		}
		got := Concord(list)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if !reflect.DeepEqual(got, Concord(list)) {
			t.Fatal("the order of opinions decides")
		}
		if strings.ContainsAny(flagged(got), "ab") {
			wrong++
		}
		if flagged(got) == "c" {
			found++
		}
	}
	if wrong > 0 || found < 285 {
		t.Errorf("of 300: %d honest ones flagged, %d broken ones found", wrong, found)
	}
}
