package search

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of an index.
const (
	maxDocs    = 200_000
	maxDoc     = 1 << 20 // bytes of one document; the rest is not indexed
	maxCorpus  = 1 << 30 // bytes of all
	maxWord    = 64
	snippetLen = 300
)

// Index is an inverted index over a folder of text documents, in memory.
// Ranking is BM25 (k1 = 1.2, b = 0.75); equal scores are ordered by name, so
// the same folder gives the same answers everywhere. Safe for concurrent use.
type Index struct {
	docs  []doc
	words map[string][]posting
	mean  float64 // words of a document
}

type doc struct {
	link, title, text string
	words             int
}

type posting struct {
	doc   int32
	count int32
}

// NewIndex reads every .txt and .md file of a tree. A document's link is base
// joined with its path; its title the first line.
func NewIndex(files fs.FS, base string) (*Index, error) {
	x := &Index{words: map[string][]posting{}}
	total, words := 0, 0
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := path.Ext(p); !d.Type().IsRegular() || (ext != ".txt" && ext != ".md") {
			return nil
		}
		if len(x.docs) == maxDocs {
			return fmt.Errorf("more than %d documents", maxDocs)
		}
		b, err := fs.ReadFile(files, p)
		if err != nil {
			return err
		}
		b = b[:min(len(b), maxDoc)]
		if total += len(b); total > maxCorpus {
			return fmt.Errorf("larger than %d bytes", maxCorpus)
		}
		text := strings.ToValidUTF8(string(b), "\uFFFD")
		title, _, _ := strings.Cut(strings.TrimLeft(text, "# \n"), "\n")
		counts := map[string]int32{}
		n := 0
		for w := range tokens(text) {
			counts[w]++
			n++
		}
		at := int32(len(x.docs))
		x.docs = append(x.docs, doc{link: strings.TrimSuffix(base, "/") + "/" + p, title: strings.TrimSpace(title), text: text, words: n})
		words += n
		for w, c := range counts {
			x.words[w] = append(x.words[w], posting{at, c})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("index documents: %w", err)
	}
	if len(x.docs) > 0 {
		x.mean = float64(words) / float64(len(x.docs))
	}
	return x, nil
}

// Name implements Source.
func (x *Index) Name() string { return "index" }

// tokens yields the words of a text: runs of letters and digits, lower case.
func tokens(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if len(w) <= maxWord && !yield(strings.ToLower(w)) {
				return
			}
		}
	}
}

// Search implements Source. It never fails.
func (x *Index) Search(_ context.Context, q Query) ([]Hit, error) {
	const k1, b = 1.2, 0.75
	scores := map[int32]float64{}
	seen := map[string]bool{}
	var terms []string
	for w := range tokens(strings.Join(q.Terms, " ")) {
		if seen[w] {
			continue
		}
		seen[w] = true
		terms = append(terms, w)
		list := x.words[w]
		idf := math.Log(1 + (float64(len(x.docs))-float64(len(list))+0.5)/(float64(len(list))+0.5))
		for _, p := range list {
			tf := float64(p.count)
			scores[p.doc] += idf * tf * (k1 + 1) / (tf + k1*(1-b+b*float64(x.docs[p.doc].words)/x.mean))
		}
	}
	ids := make([]int32, 0, len(scores))
	for id := range scores {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(i, j int32) int {
		switch {
		case scores[i] > scores[j]:
			return -1
		case scores[i] < scores[j]:
			return 1
		}
		return int(i - j) // documents stand in the order of their names
	})
	out := make([]Hit, 0, min(q.Num, len(ids)))
	for _, id := range ids[:min(q.Num, len(ids))] {
		d := x.docs[id]
		out = append(out, Hit{Link: d.link, Title: d.title, Snippet: snippet(d.text, terms)})
	}
	return out, nil
}

// snippet is the text around the first word that was asked for.
func snippet(text string, terms []string) string {
	low := strings.ToLower(text)
	at := 0
	if len(low) == len(text) { // lower case may change lengths; then the beginning must do
		for _, w := range terms {
			if i := strings.Index(low, w); i >= 0 {
				at = max(0, i-snippetLen/3)
				break
			}
		}
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	end := min(len(text), at+snippetLen)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSpace(text[at:end])
}
