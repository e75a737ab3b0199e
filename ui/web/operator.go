package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

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
		// Needs is what the operator should look at, an arena a line.
		Needs []string
		Log   []agon.OperatorAction
	}{base: q.base("Operator", "")}
	if data.Log, err = s.cfg.Platform.Actions(q.Context(), q.caller, 50); err != nil {
		return err
	}
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
		data.Needs = append(data.Needs, needs(r.Arena, r.Runs)...)
		data.Arenas = append(data.Arenas, r)
	}
	return s.render(q, http.StatusOK, "operator", data)
}

// needs is what of an arena wants its operator: work that stands still, and
// runs that failed through us.
func needs(a client.Arena, runs []runRow) (out []string) {
	if a.State == agon.ArenaPaused {
		out = append(out, a.Title+" is paused: it takes no submissions.")
	}
	failed := 0
	for _, r := range runs {
		if r.State.Final() && r.Fault.Ours() {
			failed++
		}
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("%s: %s of the last ones failed on our side. Look at one, then retry its submission.", a.Title, count(failed, "run")))
	}
	if a.Queued > 0 && a.Playing == 0 {
		out = append(out, fmt.Sprintf("%s: %s waiting and none under way. Is a validator running?", a.Title, count(a.Queued, "run")))
	}
	return out
}

func (q *request) operatorOnly() error {
	if q.caller.Operator {
		return nil
	}
	return &agon.Error{Code: "not_operator", Status: 403, Message: "Only the operator sees this page.", Mend: "Sign in with the operator's key: agon web login --wallet.name operator --wallet.path DATA/wallets, where DATA is the server's data directory."}
}

func (s *server) arenaState(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	err := s.cfg.Platform.SetArenaState(q.Context(), q.caller, q.PostForm.Get("arena"), agon.ArenaState(q.PostForm.Get("state")), q.PostForm.Get("reason"))
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

// number reads an optional number of a form; an empty field is none.
func (q *request) number(field string) (*int, error) {
	v := q.PostForm.Get(field)
	if v == "" {
		return nil, nil //nolint:nilnil // nothing was asked for
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return nil, &agon.Error{Code: "bad_" + field, Status: 422, Field: field, Message: field + " must be a whole number."}
	}
	return &n, nil
}

func (s *server) retune(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	var r client.Retune
	var err error
	for _, f := range []struct {
		name string
		to   **int
	}{{"max_leases", &r.MaxLeases}, {"attempts", &r.Attempts}, {"submissions_per_coldkey", &r.SubmissionsPerColdkey}} {
		if *f.to, err = q.number(f.name); err != nil {
			return err
		}
	}
	budget, err := q.number("budget_micros")
	if err != nil {
		return err
	}
	if budget != nil {
		m := agon.Micros(*budget)
		r.BudgetMicros = &m
	}
	if err := s.cfg.Platform.Retune(q.Context(), q.caller, q.PostForm.Get("arena"), r, q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/operator", http.StatusSeeOther)
	return nil
}

func (s *server) ban(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	id := q.PostForm.Get("submission")
	if err := s.cfg.Platform.Ban(q.Context(), q.caller, id, q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/submissions/"+url.PathEscape(id), http.StatusSeeOther)
	return nil
}

func (s *server) retry(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	id := q.PostForm.Get("submission")
	if _, err := s.cfg.Platform.Retry(q.Context(), q.caller, id, q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/submissions/"+url.PathEscape(id), http.StatusSeeOther)
	return nil
}
