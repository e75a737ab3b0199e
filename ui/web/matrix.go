package web

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// A task matrix shows who solved what: a row for each submission, a square for
// each task. A square leads to the run behind it.

// What a matrix shows at most.
const (
	matrixRows = 25
	matrixCols = 60
	cellSize   = 16
)

// Matrix is drawn as SVG, its rows and columns in order of success.
type Matrix struct {
	Width, Height int
	Cols          []string // tasks, easiest first
	Rows          []matrixRow
	LeftOut       int // tasks that are not shown
}

type matrixRow struct {
	ID, Name string
	Champion bool
	Y        int
	Solved   string
	Cells    []cell
}

type cell struct {
	X     int
	Class string // m0 to m4; "": not played
	Label string
	Task  string
}

// shade is the class of a value: m0 is 0 or less, m4 is 1 or more.
func shade(v float64) string {
	switch {
	case v <= 0:
		return "m0"
	case v >= 1:
		return "m4"
	}
	return "m" + strconv.Itoa(1+int(math.Floor(v*3)))
}

// matrixOf is the matrix of submissions; nil of fewer than least that were scored, or of one task.
func matrixOf(rows []boardRow, values map[string]map[string]float64, least int) *Matrix {
	var shown []boardRow
	sum, n := map[string]float64{}, map[string]int{}
	for _, r := range rows {
		v := values[r.ID]
		if r.Score == nil || len(v) == 0 || len(shown) == matrixRows {
			continue
		}
		shown = append(shown, r)
		for k, x := range v {
			sum[k] += x
			n[k]++
		}
	}
	if len(shown) < least || len(sum) < 2 {
		return nil
	}
	m := &Matrix{}
	for k := range sum {
		m.Cols = append(m.Cols, k)
	}
	slices.SortFunc(m.Cols, func(a, b string) int {
		return cmp.Or(cmp.Compare(sum[b]/float64(n[b]), sum[a]/float64(n[a])), cmp.Compare(a, b))
	})
	if over := len(m.Cols) - matrixCols; over > 0 {
		m.Cols, m.LeftOut = m.Cols[:matrixCols], over
	}
	m.Width, m.Height = len(m.Cols)*cellSize, cellSize
	for _, r := range shown {
		row := matrixRow{ID: r.ID, Name: r.Name, Champion: r.Champion}
		for j, k := range m.Cols {
			c := cell{X: j * cellSize, Task: k, Label: plain.Line(r.Name) + " on " + plain.Line(k) + ": not played"}
			if v, ok := values[r.ID][k]; ok {
				c.Class, c.Label = shade(v), plain.Line(r.Name)+" on "+plain.Line(k)+": "+showScore(v)
			}
			row.Cells = append(row.Cells, c)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// runOfTask leads to the run of a submission in which a task was played.
func (s *server) runOfTask(q *request) error {
	id, err := s.runOn(q, q.PathValue("id"), q.URL.Query().Get("task"))
	if err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/runs/"+id, http.StatusSeeOther)
	return nil
}

// runOn is the newest scored run of a submission that has a task.
func (s *server) runOn(q *request, sub, task string) (string, error) {
	cursor := ""
	for range maxRunPages {
		page, err := s.cfg.Platform.Runs(q.Context(), q.caller, "", sub, "", cursor, runsPage)
		if err != nil {
			return "", err
		}
		for _, r := range page.Items {
			for _, t := range r.Tasks {
				if t.Key == task && r.State == agon.RunScored {
					return r.Run.Run, nil
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return "", &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: "No scored run of this submission has that task."}
}

// maxRunPages bounds how many pages of runs are read to find one.
const maxRunPages = 20
