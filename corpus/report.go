package corpus

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agon-arena/agon/client"
)

// Report says what became of every run.
type Report struct {
	Arenas        []ArenaNote               `json:"arenas"`
	Runs          int                       `json:"runs"` // read
	EventBytes    int64                     `json:"event_bytes"`
	Rejected      map[string]int            `json:"rejected"` // tasks of runs, by reason
	ByKind        map[string]map[string]int `json:"rejected_by_kind"`
	Open          []string                  `json:"open_runs"` // refused: they are not over
	Contamination []ListNote                `json:"contamination"`
	Scrubbed      map[string]int            `json:"scrubbed"` // by pattern
}

// ArenaNote names an arena that rows come from.
type ArenaNote struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Licence string `json:"licence"`
}

// ListNote is what one poison list has cut.
type ListNote struct {
	List     string   `json:"list"`
	Cut      int      `json:"cut"`
	Examples []string `json:"examples"` // at most five: how, where, what
}

func newReport() *Report {
	return &Report{Arenas: []ArenaNote{}, Rejected: map[string]int{}, ByKind: map[string]map[string]int{}, Open: []string{}, Contamination: []ListNote{}, Scrubbed: map[string]int{}}
}

func (r *Report) arena(a client.Arena) {
	r.Arenas = append(r.Arenas, ArenaNote{a.ID, a.Kind, a.Licence})
}

func (r *Report) reject(reason, kind string) {
	r.Rejected[reason]++
	if r.ByKind[kind] == nil {
		r.ByKind[kind] = map[string]int{}
	}
	r.ByKind[kind][reason]++
}

func (r *Report) contaminated(from *Provenance, h Hit) {
	i := slices.IndexFunc(r.Contamination, func(n ListNote) bool { return n.List == h.List })
	if i < 0 {
		i = len(r.Contamination)
		r.Contamination = append(r.Contamination, ListNote{List: h.List, Examples: []string{}})
	}
	n := &r.Contamination[i]
	n.Cut++
	if len(n.Examples) < 5 {
		n.Examples = append(n.Examples, fmt.Sprintf("%s in run %s, task %s: %s", h.How, from.Run, from.Task, h.Text))
	}
}

// Counts are the rows of a corpus.
type Counts struct {
	Rows    int `json:"rows"`
	Train   int `json:"train"`
	Eval    int `json:"eval"`
	Held    int `json:"held"`
	Cluster int `json:"clusters"`
	Queries int `json:"distinct_queries"`
	// Withheld are the rows of the split held that a release leaves out.
	Withheld int `json:"withheld,omitempty"`
	Solved   int `json:"solved"`
	// Scripted counts rows by the stand-in script: no model's, worthless to train on.
	Scripted int            `json:"scripted"`
	Tokens   int            `json:"tokens"`
	Axis     map[string]int `json:"axis"`
	Kind     map[string]int `json:"kind"`
	// SolvedByKind counts rows whose task was solved.
	SolvedByKind map[string]int `json:"solved_by_kind"`
	TokensByKind map[string]int `json:"tokens_by_kind"`
	Tools        map[string]int `json:"tools"` // calls by name
	Licences     map[string]int `json:"licences"`
}

// Warning says how much of the corpus a script has written; "": nothing.
func (c *Counts) Warning() string {
	const where = " Good for testing loaders, worthless for training."
	switch {
	case c.Scripted == 0:
		return ""
	case c.Scripted == c.Rows:
		return "Every row comes from the stand-in script, not from a model." + where
	case c.Scripted == 1:
		return fmt.Sprintf("1 of %d rows comes from the stand-in script, not from a model.", c.Rows) + where
	}
	return fmt.Sprintf("%d of %d rows come from the stand-in script, not from a model.", c.Scripted, c.Rows) + where
}

// markdown writes the report for people.
func (r *Report) markdown(c Counts, lists []string) string {
	var b strings.Builder
	table := func(title string, m map[string]int) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if len(m) == 0 {
			b.WriteString("None.\n")
			return
		}
		b.WriteString("| | n |\n|---|---|\n")
		keys := slices.Sorted(maps.Keys(m))
		slices.SortStableFunc(keys, func(x, y string) int { return m[y] - m[x] })
		for _, k := range keys {
			fmt.Fprintf(&b, "| %s | %d |\n", k, m[k])
		}
	}
	fmt.Fprintf(&b, "# Corpus report\n\n%d runs were read; they gave %d rows in %d clusters: %d to train on, %d to evaluate with, %d held back. %d rows solve their task; %d tokens.\n",
		r.Runs, c.Rows, c.Cluster, c.Train, c.Eval, c.Held, c.Solved, c.Tokens)
	if w := c.Warning(); w != "" {
		fmt.Fprintf(&b, "\n**%s**\n", w)
	}
	table("Rows by kind", c.Kind)
	table("Rows by axis", c.Axis)
	table("Licences", c.Licences)
	table("Tasks of runs that became no row", r.Rejected)
	for _, k := range slices.Sorted(maps.Keys(r.ByKind)) {
		table("… of the kind "+k, r.ByKind[k])
	}
	if len(r.Open) > 0 {
		fmt.Fprintf(&b, "\n## Runs that were not over\n\nThey were refused: %s\n", strings.Join(r.Open, ", "))
	}
	b.WriteString("\n## Contamination\n\n")
	if len(lists) == 0 {
		b.WriteString("No list of public benchmarks was given: nothing is known about contamination. Give one with `--poison FILE`.\n")
	} else {
		fmt.Fprintf(&b, "Checked against %s: exact texts, %d words in a row, ids of ground truths.\n", strings.Join(lists, ", "), PoisonNGram)
		if len(r.Contamination) == 0 {
			b.WriteString("\nNothing was found.\n")
		}
		for _, n := range r.Contamination {
			fmt.Fprintf(&b, "\n**%s**: %d rows were cut.\n\n", n.List, n.Cut)
			for _, e := range n.Examples {
				fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(e, "\n", " "))
			}
		}
	}
	table("Secrets and personal data that were removed", r.Scrubbed)
	return b.String()
}
