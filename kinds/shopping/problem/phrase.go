package problem

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/shopping/catalogue"
)

// phrasesText is how buyers say what catalogues write; its head says how it is written.
//
//go:embed phrases.txt
var phrasesText string

// phrases are the clauses by key and value; the key * stands for any.
var phrases = sync.OnceValue(func() map[[2]string][]string {
	out := map[[2]string][]string{}
	for i, line := range strings.Split(phrasesText, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		part := strings.Split(line, " | ")
		if len(part) != 3 {
			panic(fmt.Sprintf("problem: phrases, line %d: want key | value | clause; clause", i+1)) // a part of the program
		}
		at := [2]string{part[0], part[1]}
		for c := range strings.SplitSeq(part[2], "; ") {
			out[at] = append(out[at], c)
		}
	}
	return out
})

// clause says a value in other words than the catalogue's. ok is false where
// nobody knows any: then it is said as it is written.
func clause(r *catalogue.Random, key, value string) (string, bool) {
	for _, k := range []string{key, "*"} {
		if list := phrases()[[2]string{k, value}]; len(list) > 0 {
			return pick(r, list), true
		}
	}
	if s, ok := measureWords(key, value); ok {
		return s, true
	}
	switch value {
	case "yes":
		return "with " + strings.TrimPrefix(key, "with "), false
	case "no":
		return "without " + strings.TrimPrefix(key, "with "), false
	}
	return key + " " + value, false
}

var quantity = lazyregexp.New(`^(\d+(?:\.\d+)?) ?([a-z%]*)( .*)?$`)

// units are what a number may be said in instead: the factor and the name.
var units = map[string]struct {
	factor float64
	name   string
}{
	"l": {1000, "millilitres"}, "ml": {.001, "of a litre"}, "kg": {1000, "grams"}, "g": {.001, "of a kilo"},
	"cm": {10, "millimetres"}, "m": {100, "centimetres"}, "mm": {.1, "centimetres"}, "w": {.001, "kilowatts"}, "mah": {.001, "ampere-hours"}, "hours": {60, "minutes"},
}

var numberWords = map[string]string{
	"1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "10": "ten", "12": "a dozen", "20": "a score", "24": "two dozen",
	"25": "a quarter of a hundred", "50": "half a hundred", "100": "a hundred", "500": "five hundred", "1000": "a thousand",
}

// measureWords says a number with its unit in another unit, or in words.
func measureWords(key, value string) (string, bool) {
	m := quantity().FindStringSubmatch(value)
	if m == nil {
		return "", false
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return "", false
	}
	if u, ok := units[m[2]]; ok && m[3] == "" {
		return fmt.Sprintf("%s of %s %s", key, money(roundTo(float64(n*u.factor))), u.name), true
	}
	if w, ok := numberWords[m[1]]; ok {
		rest := strings.TrimSpace(m[2] + m[3])
		return strings.TrimSpace(fmt.Sprintf("%s of %s %s", key, w, rest)), true
	}
	return "", false
}

// roundTo leaves what is a unit's rounding error away.
func roundTo(f float64) float64 {
	x, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 9, 64), 64)
	if err != nil {
		return f
	}
	return x
}

// sizeOf is a value's number, where all values of its key have one in the same unit.
func sizeOf(values []string, value string) (n float64, ordered []string, ok bool) {
	type sized struct {
		n float64
		v string
	}
	var list []sized
	unit := ""
	for i, v := range values {
		m := quantity().FindStringSubmatch(v)
		if m == nil {
			return 0, nil, false
		}
		u := strings.TrimSuffix(strings.TrimSpace(m[2]+m[3]), "s")
		if i > 0 && u != unit {
			return 0, nil, false
		}
		unit = u
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, nil, false
		}
		list = append(list, sized{x, v})
		if v == value {
			n, ok = x, true
		}
	}
	slices.SortFunc(list, func(a, b sized) int {
		switch {
		case a.n < b.n:
			return -1
		case a.n > b.n:
			return 1
		}
		return 0
	})
	for _, s := range list {
		ordered = append(ordered, s.v)
	}
	return n, ordered, ok && unit != ""
}
