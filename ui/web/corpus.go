package web

import (
	"net/http"
)

// Corpus is what the corpus page shows of a built corpus.
type Corpus struct {
	Rows     int
	Warning  string        // how much of it a script has written; empty: nothing
	Runs     int           // read
	Rejected []CorpusCount // why tasks of runs did not become rows
	Kinds    []CorpusCount
	Axes     []CorpusCount
	Scrubbed []CorpusCount
	Splits   []CorpusCount
	Tools    []CorpusCount // calls by name, the most frequent ones
	Success  []CorpusKind
	Tokens   int
	// Lists are the public benchmarks that were looked for; Contaminated is what each has cut.
	Lists        []string
	Contaminated []CorpusCount
	Sample       []CorpusRow
}

// CorpusCount is one counted reason.
type CorpusCount struct {
	Name string
	N    int
}

// CorpusKind is how the rows of a kind did.
type CorpusKind struct {
	Name                 string
	Rows, Solved, Tokens int
}

// CorpusRow is one row of the browser.
type CorpusRow struct {
	ID, Arena, Kind, Task, Run, Axis, Split string
	Tokens                                  int
	Scripted                                bool
	Score                                   *float64
}

func (s *server) corpus(q *request) error {
	data := struct {
		base
		Corpus *Corpus
		Chart  *Chart
	}{base: q.base("Corpus", "")}
	if s.cfg.Corpus != nil {
		c, err := s.cfg.Corpus(q.Context())
		if err != nil {
			return err
		}
		data.Corpus = c
		if c != nil {
			data.Chart = rowBars(c.Success)
		}
	}
	return s.render(q, http.StatusOK, "corpus", data)
}

func rowBars(kinds []CorpusKind) *Chart {
	var list []item
	for _, k := range kinds {
		solved := float64(k.Solved)
		list = append(list, item{name: k.Name, bar: float64(k.Rows), dot: &solved})
	}
	return bars("Rows by kind", "kind", "rows", "rows", "solved", list, trim)
}
