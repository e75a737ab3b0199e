package web

import (
	"net/http"

	"github.com/agon-arena/agon"
)

// Corpus is what the corpus page shows of a built corpus.
type Corpus struct {
	Rows     int
	Rejected []CorpusCount // why runs did not become rows
	Kinds    []CorpusCount
	Axes     []CorpusCount
	Scrubbed []CorpusCount
	Sample   []CorpusRow
}

// CorpusCount is one counted reason.
type CorpusCount struct {
	Name string
	N    int
}

// CorpusRow is one row of the browser.
type CorpusRow struct {
	ID, Arena, Run, Axis, Split string
	Tokens                      int
	Score                       *float64
}

func (s *server) corpus(q *request) error {
	data := struct {
		base
		Corpus *Corpus
	}{base: q.base("Corpus", "")}
	if s.cfg.Corpus != nil {
		c, err := s.cfg.Corpus(q.Context())
		if err != nil {
			return err
		}
		data.Corpus = c
	}
	return s.render(q, http.StatusOK, "corpus", data)
}

// operator shows what only the operator may do.
func (s *server) operator(q *request) error {
	if err := q.operatorOnly(); err != nil {
		return err
	}
	list, err := s.cfg.Platform.Arenas(q.Context())
	if err != nil {
		return err
	}
	type row struct {
		arenaCard
		Runs []runRow
	}
	data := struct {
		base
		Arenas []row
	}{base: q.base("Operator", "")}
	for _, a := range list {
		r := row{arenaCard: arenaCard{Arena: a}}
		if r.Facts, err = s.cfg.Platform.Facts(q.Context(), a.ID); err != nil {
			return err
		}
		page, err := s.cfg.Platform.Runs(q.Context(), q.caller, a.ID, "", "", "", 20)
		if err != nil {
			return err
		}
		for _, x := range page.Items {
			if !x.State.Final() || x.Fault.Ours() {
				r.Runs = append(r.Runs, rowOf(x))
			}
		}
		data.Arenas = append(data.Arenas, r)
	}
	return s.render(q, http.StatusOK, "operator", data)
}

func (q *request) operatorOnly() error {
	if q.caller.Operator {
		return nil
	}
	return &agon.Error{Code: "not_operator", Status: 403, Message: "Only the operator sees this page.", Mend: "Sign in with the operator's key: agon web login --wallet.name operator"}
}

func (s *server) arenaState(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	err := s.cfg.Platform.SetArenaState(q.Context(), q.caller, q.PostForm.Get("arena"), agon.ArenaState(q.PostForm.Get("state")))
	if err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/operator", http.StatusSeeOther)
	return nil
}

func (s *server) cancelRun(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	if err := s.cfg.Platform.CancelRun(q.Context(), q.caller, q.PostForm.Get("run"), q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/operator", http.StatusSeeOther)
	return nil
}
