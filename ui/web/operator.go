package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/plain"
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
	data := struct {
		base
		Arenas []operatorRow
		// Needs is what the operator should look at, an arena a line.
		Needs      []string
		Appeals    []openAppeal
		Log        []agon.OperatorAction
		Validators *client.Standings
	}{base: q.base("Operator", "")}
	if data.Validators, err = s.cfg.Platform.ValidatorStandings(q.Context()); err != nil {
		return err
	}
	for _, v := range data.Validators.Validators {
		if v.Excluded {
			data.Needs = append(data.Needs, fmt.Sprintf("Validator %s gets no leases: others contradict it too often.", short(v.Hotkey)))
		}
	}
	if data.Appeals, err = s.openAppeals(q.Context(), list); err != nil {
		return err
	}
	data.Needs = append(data.Needs, appealAlarm(data.Appeals, s.cfg.Now())...)
	data.Needs = append(data.Needs, storageAlarms(s.cfg.Platform.Storage(q.Context()))...)
	if data.Log, err = s.cfg.Platform.Actions(q.Context(), q.caller, 50); err != nil {
		return err
	}
	for _, a := range list {
		r := operatorRow{arenaCard: arenaCard{Arena: a}, Interim: map[string]string{}}
		if r.Health, err = s.cfg.Platform.Health(q.Context(), q.caller, a.ID); err != nil {
			return err
		}
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
			if _, known := r.Interim[x.Submission]; !known && !x.State.Final() {
				if r.Interim[x.Submission], err = s.interim(q, x.Submission); err != nil {
					return err
				}
			}
		}
		data.Needs = append(data.Needs, needs(r.Arena, r.Runs)...)
		data.Needs = append(data.Needs, alarms(a.Title, r.Health, s.cfg.Now())...)
		lacks, err := s.cfg.Platform.UnservedGPUs(q.Context(), q.caller, a.ID)
		if err != nil {
			return err
		}
		for _, text := range lacks {
			data.Needs = append(data.Needs, a.Title+": "+text+".")
		}
		decided, err := s.cfg.Platform.Decisions(q.Context(), a.ID, shownDecisions)
		if err != nil {
			return err
		}
		data.Needs = append(data.Needs, ruleAlarms(a.Title, decided, func(id string) string {
			sub, err := s.cfg.Platform.Submission(q.Context(), q.caller, id)
			if err != nil { // its id says which
				return short(id)
			}
			return plain.Line(sub.Name)
		})...)
		data.Arenas = append(data.Arenas, r)
	}
	return s.render(q, http.StatusOK, "operator", data)
}

// operatorRow is an arena as its operator sees it.
type operatorRow struct {
	arenaCard
	Health store.Lately
	Runs   []runRow
	// Interim is what submissions under way have so far, by id.
	Interim map[string]string
}

// interim says what a submission that is still played has so far: the mean of the
// tasks that are scored, which is not the score it is decided by.
func (s *server) interim(q *request, sub string) (string, error) {
	page, err := s.cfg.Platform.Runs(q.Context(), q.caller, "", sub, "", "", 200)
	if err != nil {
		return "", err
	}
	sum, scored, tasks := 0.0, 0, 0
	for _, r := range page.Items {
		tasks += len(r.Tasks)
		for _, x := range r.Scores {
			sum, scored = sum+x.Value, scored+1
		}
	}
	if scored == 0 {
		return fmt.Sprintf("none of %s scored", plain.Count(tasks, "task")), nil
	}
	return fmt.Sprintf("%.3g on %d of %s", sum/float64(scored), scored, plain.Count(tasks, "task")), nil
}

// Failed counts the runs that failed through us, of those that were looked at.
func (r operatorRow) Failed() (n int64) {
	for f, k := range r.Health.Ours {
		if f.Ours() {
			n += k
		}
	}
	return n
}

// From when an arena's figures are an alarm.
const (
	alarmFailed = 0.1 // of the runs that ended, failed through us
	alarmEnded  = 10  // runs that ended, before a share means anything
	alarmWait   = time.Hour
)

// alarms are the figures of an arena that are out of the ordinary.
func alarms(title string, h store.Lately, now time.Time) (out []string) {
	failed, worst := int64(0), agon.FaultNone
	for _, f := range agon.Faults {
		if n := h.Ours[f]; f.Ours() && n > 0 {
			if failed += n; worst == agon.FaultNone || n > h.Ours[worst] {
				worst = f
			}
		}
	}
	if ended := h.Scored + failed; ended >= alarmEnded && float64(failed) > alarmFailed*float64(ended) {
		out = append(out, fmt.Sprintf("%s: %d of the last %s that ended failed on our side, most by a fault of the %s.", title, failed, plain.Count(ended, "run"), worst))
	}
	if !h.Oldest.IsZero() && now.Sub(h.Oldest) > alarmWait {
		out = append(out, fmt.Sprintf("%s: a run has waited for %s.", title, about(now.Sub(h.Oldest))))
	}
	return out
}

// storageAlarms say that the server's bytes are in danger.
func storageAlarms(s platform.Storage) (out []string) {
	if s.Blobs != nil {
		out = append(out, fmt.Sprintf("The place of the blobs does not answer: %s. Submissions and results are refused until it does.", plain.Line(s.Blobs.Error())))
	}
	if s.LowDisk() {
		out = append(out, fmt.Sprintf("Of the disk of the data directory %s of %s are left. A full disk refuses submissions and results; agon gc frees what nobody needs.", gigabytes(s.DiskFree), gigabytes(s.DiskTotal)))
	}
	return out
}

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }

// ruleAlarms are the alarms that the rules of decisions raise themselves: numbers
// of theirs whose names end in "alarm", of the newest decisions.
func ruleAlarms(title string, list []agon.Decision, name func(submission string) string) (out []string) {
	for _, d := range list {
		for _, alarm := range slices.Sorted(maps.Keys(d.Numbers)) {
			if strings.HasSuffix(alarm, "alarm") && d.Numbers[alarm] != 0 {
				out = append(out, fmt.Sprintf("%s: the rule raises an alarm (%s) over %s: %s", title, strings.ReplaceAll(alarm, "_", " "), name(d.Challenger), plain.Line(d.Sentence)))
			}
		}
	}
	return out
}

// needs is what of an arena wants its operator: work that stands still, and
// runs that failed through us.
func needs(a client.Arena, runs []runRow) (out []string) {
	switch a.State {
	case agon.ArenaPaused:
		out = append(out, a.Title+" is paused: it takes no submissions.")
	case agon.ArenaHeld:
		out = append(out, fmt.Sprintf("%s is held: it takes and plays nothing, %s waiting. Open it, or pause it to drain its queue.", a.Title, plain.Count(a.Queued, "run")))
	}
	if a.Judge != nil && !a.Judge.Seats {
		out = append(out, a.Title+": "+strings.ToLower(a.Judge.Sentence[:1])+a.Judge.Sentence[1:])
	}
	failed := 0
	for _, r := range runs {
		if r.State.Final() && r.Fault.Ours() {
			failed++
		}
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("%s: %s of the last ones failed on our side. Look at one, then retry its submission.", a.Title, plain.Count(failed, "run")))
	}
	if a.Queued > 0 && a.Playing == 0 && a.State != agon.ArenaHeld {
		out = append(out, fmt.Sprintf("%s: %s waiting and none under way. Is a validator running? What is played again, for an appeal or a canary, waits for another validator than the first.", a.Title, plain.Count(a.Queued, "run")))
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

func (s *server) requeueRun(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	if err := s.cfg.Platform.RequeueRun(q.Context(), q.caller, q.PostForm.Get("run"), q.PostForm.Get("reason")); err != nil {
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

// retuneOf reads the numbers of a retune's form; an empty field stays as it is.
func (q *request) retuneOf() (r client.Retune, err error) {
	if err := q.form(); err != nil {
		return r, err
	}
	for _, f := range []struct {
		name string
		to   **int
	}{{"max_leases", &r.MaxLeases}, {"attempts", &r.Attempts}, {"submissions_per_coldkey", &r.SubmissionsPerColdkey}} {
		if *f.to, err = q.number(f.name); err != nil {
			return r, err
		}
	}
	budget, err := q.number("budget_micros")
	if err != nil {
		return r, err
	}
	if budget != nil {
		m := agon.Micros(*budget)
		r.BudgetMicros = &m
	}
	return r, nil
}

func (s *server) retune(q *request) error {
	r, err := q.retuneOf()
	if err != nil {
		return err
	}
	if err := s.cfg.Platform.Retune(q.Context(), q.caller, q.PostForm.Get("arena"), r, q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/operator", http.StatusSeeOther)
	return nil
}

// retunePlan shows what the numbers of the form would do, and the form again to do it.
func (s *server) retunePlan(q *request) error {
	r, err := q.retuneOf()
	if err != nil {
		return err
	}
	arena := q.PostForm.Get("arena")
	plan, err := s.cfg.Platform.RetunePlan(q.Context(), q.caller, arena, r)
	if err != nil {
		return err
	}
	return s.render(q, http.StatusOK, "retune", struct {
		base
		Plan   *client.RetunePlan
		Reason string
	}{q.base("What the change would do", ""), plan, q.PostForm.Get("reason")})
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
