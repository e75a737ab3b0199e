package coordinator

import (
	"context"
	"errors"

	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Verification returns one replay by its id.
func (c *Coordinator) Verification(ctx context.Context, id string) (*Verification, error) {
	var out *Verification
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		submission := ""
		if row, err := tx.Doc(tableJobs, id); err == nil {
			submission = row.Ref
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		} else {
			at, err := tx.AttemptByLease(id)
			if errors.Is(err, store.ErrNotFound) {
				return notFound("verification", id)
			}
			if err != nil {
				return err
			}
			submission = at.Submission
		}
		list, err := c.verifications(tx, submission)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].ID == id {
				out = &list[i]
				return nil
			}
		}
		return notFound("verification", id)
	})
	return out, err
}

// Verifications lists the replays of a submission, oldest first.
func (c *Coordinator) Verifications(ctx context.Context, submission, status string) ([]Verification, error) {
	out := []Verification{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, err := c.verifications(tx, submission)
		for _, v := range list {
			if status == "" || v.Status == status {
				out = append(out, v)
			}
		}
		return err
	})
	return out, err
}

func (c *Coordinator) verifications(tx *store.Tx, submission string) ([]Verification, error) {
	row, err := tx.Doc(tableSubmissions, submission)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("submission", submission)
	}
	if err != nil {
		return nil, err
	}
	s, err := decode[storedSubmission](row)
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(row.Task)
	if err != nil {
		return nil, err
	}
	a, err := tx.Arena(t.arena)
	if err != nil {
		return nil, err
	}
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return nil, err
	}
	out := []Verification{}
	for _, r := range runs {
		list, err := tx.Attempts(r.RunSpec.Run)
		if err != nil {
			return nil, err
		}
		for _, at := range list {
			v := Verification{
				ID: at.Lease, Submission: submission, TaskID: t.id, Validator: at.Validator, Duel: r.Rival != nil, Counted: at.Counted, Late: at.Late,
				Trust: 1, Run: r.RunSpec.Run, Driver: at.Driver.Name, CreatedAt: Time{at.LeasedAt}, ExpiresAt: Time{at.LeaseUntil}, EndedAt: Time{at.EndedAt},
				Status: VerificationPending, Observed: map[string]float64{},
			}
			if v.Trust, err = validatorTrust(tx, *a.Contest, at.Validator); err != nil {
				return nil, err
			}
			switch {
			case at.Live():
			case at.Counted:
				x, _ := kr.ReplayOf(r.Run, nil)
				v.Status, v.Observed, v.Notes = statusOf(x.Verdict), observedOf(r.Scores[0].Metrics), r.Scores[0].Detail
				if agreed, ok := s.Observed[t.pub.MetricName]; ok && x.Verdict == quorum.VerdictAccepted && r.Rival == nil {
					d := x.Value - agreed
					v.Deviation = &d
				}
			case at.State == store.AttemptExpired:
				v.Status, v.Notes = VerificationExpired, at.Reason
			default:
				v.Status, v.Notes = kr.StatusError, at.Reason
			}
			if d, err := tx.Doc(tableJobs, at.Lease); err == nil {
				j, err := decode[storedJob](d)
				if err != nil {
					return nil, err
				}
				if j.Status != "" {
					v.Status, v.Observed = j.Status, j.Observed
					if j.Notes != "" {
						v.Notes = j.Notes
					}
				}
			} else if !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			out = append(out, v)
		}
	}
	parts, err := duelRows(tx, t, submission)
	return append(out, parts...), err
}
