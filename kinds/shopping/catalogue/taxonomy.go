package catalogue

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// taxonomyText is the table of branches and goods; its head says how it is written.
//
//go:embed taxonomy.txt
var taxonomyText string

// all are the categories of a generated catalogue: those of words.go, which
// have names in six languages, and those of the table, which have English ones.
var all = sync.OnceValue(func() []category {
	list, err := parseTaxonomy(taxonomyText)
	if err != nil {
		panic("catalogue: " + err.Error()) // the table is a part of the program
	}
	return append(append([]category{}, categories...), list...)
})

// parseTaxonomy reads the table. Errors name the line.
func parseTaxonomy(text string) ([]category, error) {
	var out []category
	var branch category
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		bad := func(what string) error { return fmt.Errorf("taxonomy, line %d: %s", i+1, what) }
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			path, prices, ok := strings.Cut(line[1:], "] ")
			lo, hi, ok2 := strings.Cut(prices, "-")
			l, err1 := strconv.ParseFloat(lo, 64)
			h, err2 := strconv.ParseFloat(hi, 64)
			if !ok || !ok2 || err1 != nil || err2 != nil || l <= 0 || h <= l {
				return nil, bad("want [path] lowest-highest")
			}
			branch = category{path: path, lo: l, hi: h}
		case strings.HasPrefix(line, "goods: "):
			names, said, ok := strings.Cut(line[len("goods: "):], " / ")
			if !ok || branch.path == "" {
				return nil, bad("want goods: names / what a buyer says, below a branch")
			}
			c := branch
			c.names = map[string][]string{"en": splitTrim(names, ";")}
			c.said = splitTrim(said, ";")
			c.path += " > " + c.names["en"][0]
			out = append(out, c)
		default:
			key, values, ok := strings.Cut(line, " = ")
			if !ok || branch.path == "" {
				return nil, bad("want key = value | value")
			}
			a := attr{strings.TrimPrefix(key, "+"), splitTrim(values, "|")}
			if key[0] == '+' {
				branch.sku = append(branch.sku[:len(branch.sku):len(branch.sku)], a)
			} else {
				branch.attrs = append(branch.attrs[:len(branch.attrs):len(branch.attrs)], a)
			}
		}
	}
	return out, nil
}

func splitTrim(s, sep string) []string {
	var out []string
	for part := range strings.SplitSeq(s, sep) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// Goods is what is known of a category of a generated catalogue.
type Goods struct {
	Names []string // what sellers call it, the usual name first
	Said  []string // what a buyer may say who does not know the name; none of it stands in a title
	// Values are what products may say under a key, attributes and options alike.
	Values map[string][]string
}

var goods = sync.OnceValue(func() map[string]*Goods {
	out := map[string]*Goods{}
	for _, c := range all() {
		g := &Goods{Said: c.said, Values: map[string][]string{}}
		for _, l := range languages {
			g.Names = append(g.Names, c.names[l]...)
		}
		for _, list := range [][]attr{c.attrs, c.sku} {
			for _, a := range list {
				g.Values[a.key] = a.values
			}
		}
		out[c.path] = g
	}
	return out
})

// GoodsOf is what is known of a product's category; nil for those of other catalogues.
func GoodsOf(path string) *Goods { return goods()[path] }
