package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
)

// Appeals: a miner's desk makes them, the operator's answers them. One that nobody
// answers is granted at its deadline.

// openAppeal is an appeal that waits for the operator.
type openAppeal struct {
	agon.Appeal
	Name string // of its submission
}

// Came says what playing again has come to.
func (a openAppeal) Came() string {
	c := a.Compared
	if c.Played == 0 {
		if a.Alone {
			return "Nothing is played again yet: that waits for a second validator, and none serves the arena now."
		}
		return "Nothing is played again yet."
	}
	return fmt.Sprintf("Played again: %d of %s, %d with the same score, %d with the same requests; mean %s before, %s now.",
		c.Played, plain.Count(c.Tasks, "task"), c.Same, c.Requests, showScore(c.Before), showScore(c.After))
}

// openAppeals are those of arenas that wait, the next to be granted first.
func (s *server) openAppeals(ctx context.Context, arenas []client.Arena) (out []openAppeal, err error) {
	var ids []string
	for _, a := range arenas {
		list, err := s.cfg.Platform.Appeals(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			if x.State == agon.AppealOpen {
				out, ids = append(out, openAppeal{Appeal: x}), append(ids, x.Submission)
			}
		}
	}
	names, err := s.cfg.Platform.Names(ctx, ids)
	for i := range out {
		out[i].Name = names[out[i].Submission]
	}
	slices.SortStableFunc(out, func(a, b openAppeal) int { return a.Deadline.Compare(b.Deadline) })
	return out, err
}

// appealAlarm says that appeals wait, and when one is granted without an answer.
func appealAlarm(list []openAppeal, now time.Time) []string {
	if len(list) == 0 {
		return nil
	}
	verb := "waits"
	if len(list) > 1 {
		verb = "wait"
	}
	return []string{fmt.Sprintf("%s %s for an answer; the first is granted without one %s.", plain.Count(len(list), "appeal"), verb, ago(now, list[0].Deadline))}
}

// mayAppeal says whether a desk offers an appeal of a submission; whether one is
// allowed is the platform's to say.
func mayAppeal(sub client.Submission, a client.Arena) bool {
	return sub.Appeal == nil && a.Contest == nil && (sub.State == agon.SubmissionScored || sub.State == agon.SubmissionExcluded)
}

func (s *server) makeAppeal(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	if _, err := s.cfg.Platform.Appeal(q.Context(), q.caller, q.PostForm.Get("submission"), q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/desk", http.StatusSeeOther)
	return nil
}

func (s *server) answerAppeal(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	answer := q.PostForm.Get("answer")
	if answer != "grant" && answer != "deny" {
		return &agon.Error{Code: "bad_field", Status: 422, Field: "answer", Message: "An appeal is granted or denied."}
	}
	if _, err := s.cfg.Platform.AnswerAppeal(q.Context(), q.caller, q.PostForm.Get("submission"), answer == "grant", q.PostForm.Get("reason")); err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, "/operator", http.StatusSeeOther)
	return nil
}
