// Package index is a small inverted index with BM25 ranking, and a search back
// end over a folder of documents built on it. It needs nothing outside the
// process, gives the same order for the same documents, and bounds what it
// reads.
package index

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// BM25's usual parameters.
const (
	k1 = 1.2
	b  = 0.75
)

// Limits of one index.
const (
	// MaxTerm cuts a word, in bytes: longer ones are not words.
	MaxTerm = 64
	// maxQueryTerms bounds the words of a query that are looked up.
	maxQueryTerms = 64
)

// posting is one document of a term's list.
type posting struct {
	doc int32
	n   int32 // occurrences
}

// Inverted is the index. Build it with Add, then only read: reads may run at once.
type Inverted struct {
	terms  map[string][]posting
	length []int32 // terms of each document
	total  int64
}

// Match is one document found, best first; Score is above 0.
type Match struct {
	Doc   int
	Score float64
}

// Add indexes the next document and returns its number, from 0. Fields are
// texts with a weight: a title counts more than a body.
func (x *Inverted) Add(fields ...Field) int {
	if x.terms == nil {
		x.terms = map[string][]posting{}
	}
	doc := int32(len(x.length))
	count := map[string]int32{}
	n := int32(0)
	for _, f := range fields {
		w := int32(max(f.Weight, 1))
		for t := range Terms(f.Text) {
			count[t] += w
			n += w
		}
	}
	for t, c := range count {
		x.terms[t] = append(x.terms[t], posting{doc, c})
	}
	x.length = append(x.length, n)
	x.total += int64(n)
	return int(doc)
}

// Field is a text with a weight of at least 1.
type Field struct {
	Text   string
	Weight int
}

// Len is the number of documents.
func (x *Inverted) Len() int { return len(x.length) }

// Search returns at most limit documents that hold a word of the query, best
// first; equal scores by document number. keep may be nil.
func (x *Inverted) Search(query string, limit int, keep func(doc int) bool) []Match {
	if len(x.length) == 0 || limit <= 0 {
		return nil
	}
	average := float64(x.total) / float64(len(x.length))
	if average == 0 {
		return nil
	}
	scores := map[int32]float64{}
	seen := map[string]bool{}
	for t := range Terms(query) {
		if seen[t] {
			continue
		}
		if seen[t] = true; len(seen) > maxQueryTerms {
			break
		}
		list := x.terms[t]
		idf := math.Log(1 + (float64(len(x.length))-float64(len(list))+0.5)/(float64(len(list))+0.5))
		for _, p := range list {
			f := float64(p.n)
			scores[p.doc] += idf * f * (k1 + 1) / (f + k1*(1-b+b*float64(x.length[p.doc])/average))
		}
	}
	out := make([]Match, 0, len(scores))
	for d, s := range scores {
		if keep == nil || keep(int(d)) {
			out = append(out, Match{int(d), s})
		}
	}
	slices.SortFunc(out, func(a, b Match) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return a.Doc - b.Doc
	})
	if len(out) > limit {
		out = out[:limit]
	}
	return out
}

// Terms yields the words of a text in order: letters and digits, lower case, a
// plain plural's "s" taken off, so that "miners" finds "miner". An underscore
// or a change of case parts the words of an identifier.
func Terms(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := -1
		emit := func(end int) bool {
			if start < 0 {
				return true
			}
			w := text[start:end]
			start = -1
			if len(w) > MaxTerm {
				return true
			}
			return yield(stem(strings.ToLower(w)))
		}
		var before rune
		for i, r := range text {
			word := unicode.IsLetter(r) || unicode.IsDigit(r)
			if !word || (start >= 0 && unicode.IsUpper(r) && unicode.IsLower(before)) {
				if !emit(i) {
					return
				}
			}
			if word && start < 0 {
				start = i
			}
			before = r
		}
		emit(len(text))
	}
}

func stem(w string) string {
	if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is") {
		return w[:len(w)-1]
	}
	return w
}

// Excerpt is the part of text, at most limit code points, that holds most
// words of the query, cut at white space.
func Excerpt(text, query string, limit int) string {
	text = strings.TrimSpace(text)
	rs := []rune(text)
	if len(rs) <= limit {
		return text
	}
	want := map[string]bool{}
	for t := range Terms(query) {
		want[t] = true
	}
	best, bestAt := -1, 0
	step := max(limit/3, 1)
	for at := 0; at < len(rs); at += step {
		end := min(at+limit, len(rs))
		got := map[string]bool{}
		for t := range Terms(string(rs[at:end])) {
			if want[t] {
				got[t] = true
			}
		}
		if len(got) > best {
			best, bestAt = len(got), at
		}
		if end == len(rs) {
			break
		}
	}
	end := min(bestAt+limit, len(rs))
	cut := rs[bestAt:end]
	if bestAt > 0 {
		if i := slices.IndexFunc(cut, unicode.IsSpace); i > 0 && i < limit/4 {
			cut = cut[i:]
		}
	}
	if end < len(rs) {
		for i := len(cut) - 1; i > len(cut)*3/4; i-- {
			if unicode.IsSpace(cut[i]) {
				cut = cut[:i]
				break
			}
		}
	}
	return strings.TrimSpace(string(cut))
}
