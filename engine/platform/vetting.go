package platform

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
)

// Vettings ask somebody outside, a judge's program or a person behind it: before a
// submission is played, and before one takes a seat. A worker holds one for a
// time; where it does not answer, another gets it. A submission that waits
// holds up nobody: those behind it are decided, and what it has to beat is looked at
// when its answer is there.

const (
	minVet       = 10 * time.Second
	maxVet       = 2 * time.Hour
	vetPause     = 10 * time.Second // after a try that came to nothing; twice as long after each
	maxVetPace   = 10 * time.Minute
	maxVetText   = 4 << 10
	maxVetDetail = 256 << 10
	maxVetList   = 200
)

// FindingVetted marks submissions that a vetting has refused.
const FindingVetted = "vetting"

// vets says what an arena has vetted.
func (p *Platform) vets(a agon.Arena) (entries, seats bool) {
	if k, ok := p.cfg.Kinds[a.Kind].(kind.Vetted); ok {
		return k.Vets(&a)
	}
	return false, false
}

func (p *Platform) askVetting(tx *store.Tx, e store.Entry, what string) error {
	now := p.now()
	return tx.InsertVetting(store.Vetting{ID: newID(), Arena: e.Arena, Submission: e.ID, What: what, State: store.VettingOpen, NextAt: now, CreatedAt: now})
}

// vettedSeat asks whether a submission may take the seat that d gives it. It reports
// true until somebody has answered.
func (p *Platform) vettedSeat(tx *store.Tx, a agon.Arena, e *store.Entry, d *agon.Decision) (waits bool, err error) {
	if _, seats := p.vets(a); !seats || d.Outcome != agon.TookSeat {
		return false, nil
	}
	v, err := tx.VettingOf(e.ID, store.VetSeat)
	if errors.Is(err, store.ErrNotFound) {
		return true, p.askVetting(tx, *e, store.VetSeat)
	}
	if err != nil || v.State != store.VettingDone {
		return true, err
	}
	if v.Verdict == store.VetRefused {
		d.Outcome, d.Rule = agon.KeptSeat, incentive.VettedRule
		e.Findings = append(e.Findings, agon.Finding{Code: FindingVetted, Message: v.Summary, Warning: true})
	}
	return false, nil
}

// ClaimVetting gives worker the vetting of an arena that has waited longest, for hold
// (10 s to 2 h), and the token with which it answers. nil: there is none.
func (p *Platform) ClaimVetting(ctx context.Context, c Caller, arena, what, worker string, hold time.Duration) (v *store.Vetting, token string, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, "", err
	}
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		v = nil
		now := p.now()
		x, err := tx.NextVetting(arena, what, now)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		token = hex.EncodeToString(randomBytes(16))
		x.State, x.Worker, x.TokenHash, x.Tries = store.VettingHeld, cut(worker, 200), tokenHash(token), x.Tries+1
		x.ClaimedAt, x.LeaseUntil = now, now.Add(min(max(hold, minVet), maxVet))
		v = &x
		return tx.SetVetting(x)
	})
	if err != nil || v == nil {
		return nil, "", err
	}
	return v, token, nil
}

// ExtendVetting keeps a vetting that is held for hold (10 s to 2 h) from now, never shorter than it has.
func (p *Platform) ExtendVetting(ctx context.Context, c Caller, id, token string, hold time.Duration) (*store.Vetting, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	return p.settleVetting(ctx, id, func(_ *store.Tx, v *store.Vetting) error {
		if err := heldBy(v, token); err != nil {
			return err
		}
		now := p.now()
		if v.State != store.VettingHeld || !now.Before(v.LeaseUntil) {
			return lostVetting(id)
		}
		if until := now.Add(min(max(hold, minVet), maxVet)); until.After(v.LeaseUntil) {
			v.LeaseUntil = until
		}
		return nil
	})
}

func lostVetting(id string) error {
	return refuse(409, "lost_vetting", "vetting %s is not held by this token: another worker has it", id)
}

// heldBy refuses a token that a vetting was not last taken by.
func heldBy(v *store.Vetting, token string) error {
	if subtle.ConstantTimeCompare([]byte(tokenHash(token)), []byte(v.TokenHash)) != 1 {
		return lostVetting(v.ID)
	}
	return nil
}

// VetAnswer is what a worker says of a vetting. Error says that it could not answer:
// then another try is made later.
type VetAnswer struct {
	Token, Verdict    string
	Score, Confidence float64
	Summary           string
	Detail            json.RawMessage
	Error             string
}

// AnswerVetting takes a worker's answer; the same one again changes nothing.
func (p *Platform) AnswerVetting(ctx context.Context, c Caller, id string, r VetAnswer) (out *store.Vetting, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	known := r.Verdict == store.VetPassed || r.Verdict == store.VetRefused || r.Verdict == store.VetUnsure
	in := func(x float64) bool { return x >= 0 && x <= 1 }
	if r.Error == "" && (!known || !in(r.Score) || !in(r.Confidence) || len(r.Detail) > maxVetDetail) {
		return nil, refuse(422, "bad_vetting", "a verdict is %s, %s or %s, with a score and a confidence of 0 to 1 and at most %d bytes of detail", store.VetPassed, store.VetRefused, store.VetUnsure, maxVetDetail)
	}
	return p.settleVetting(ctx, id, func(tx *store.Tx, v *store.Vetting) error {
		if err := heldBy(v, r.Token); err != nil {
			return err
		}
		if v.State != store.VettingHeld {
			return errSettled
		}
		if r.Error != "" {
			v.State, v.Error = store.VettingOpen, cut(r.Error, maxVetText)
			v.NextAt = p.now().Add(min(vetPause<<min(v.Tries-1, 10), maxVetPace))
			return nil
		}
		v.Verdict, v.Score, v.Confidence, v.Summary, v.Detail = r.Verdict, r.Score, r.Confidence, cut(r.Summary, maxVetText), string(r.Detail)
		if v.State = store.VettingDone; r.Verdict == store.VetUnsure {
			v.State = store.VettingSent
		}
		return nil
	})
}

// ReviewVetting is the operator's own answer where the worker could not tell.
func (p *Platform) ReviewVetting(ctx context.Context, c Caller, id, actor, reason string, pass bool) (*store.Vetting, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	if err := needReason(reason); err != nil {
		return nil, err
	}
	return p.settleVetting(ctx, id, func(tx *store.Tx, v *store.Vetting) error {
		if v.State != store.VettingSent {
			return refuse(409, "no_review", "vetting %s is %s: the operator settles those that a worker was unsure of", id, v.State)
		}
		v.State, v.Verdict, v.Summary, v.Actor = store.VettingDone, store.VetRefused, cut(reason, maxVetText), cut(actor, 200)
		if pass {
			v.Verdict = store.VetPassed
		}
		return p.logAction(tx, Caller{Hotkey: c.Hotkey, Operator: true}, "vetting", v.Submission, reason, v.What+" "+v.Verdict)
	})
}

// errSettled says that an answer is known already.
var errSettled = errors.New("settled")

// settleVetting changes a vetting and does what follows from it.
func (p *Platform) settleVetting(ctx context.Context, id string, change func(*store.Tx, *store.Vetting) error) (*store.Vetting, error) {
	var v store.Vetting
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		queued = 0
		if v, err = tx.Vetting(id); err != nil {
			return found(err, "vetting", id)
		}
		if err = change(tx, &v); errors.Is(err, errSettled) {
			return nil
		} else if err != nil {
			return err
		}
		if v.State == store.VettingDone {
			v.EndedAt = p.now()
		}
		if err := tx.SetVetting(v); err != nil || v.State != store.VettingDone {
			return err
		}
		queued, err = p.vetted(tx, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.news(queued)
	p.hub.changed("")
	return &v, nil
}

// vetted does what an answer means.
func (p *Platform) vetted(tx *store.Tx, v store.Vetting) (queued int, err error) {
	e, err := tx.Entry(v.Submission)
	if err != nil {
		return 0, err
	}
	a, err := tx.Arena(v.Arena)
	if err != nil {
		return 0, err
	}
	switch {
	case v.What == store.VetSeat:
		return p.decideReady(tx, a)
	case e.State != agon.SubmissionQueued: // banned meanwhile
		return 0, nil
	case v.Verdict == store.VetRefused:
		f := agon.Finding{Code: FindingVetted, Message: v.Summary}
		return 0, p.setState(tx, e.ID, agon.SubmissionRefused, append(e.Findings, f))
	case e.Beacon != nil && e.Beacon.Rule != agon.BeaconNone && e.Beacon.Hash == "":
		return 0, nil // it begins when the block is there (awaitBeacons)
	}
	return p.firstOrOurs(tx, a, e)
}

// firstOrOurs is first for a submission whose files passed every gate before: where
// nothing can be planned the failure is ours.
func (p *Platform) firstOrOurs(tx *store.Tx, a agon.Arena, e store.Entry) (int, error) {
	n, err := p.first(tx, a, e)
	if err == nil {
		return n, nil
	}
	return 0, p.setState(tx, e.ID, agon.SubmissionExcluded, append(e.Findings, incomplete(nil, err)))
}

// VettingOf returns a submission's vetting; nil: there is none.
func (p *Platform) VettingOf(ctx context.Context, c Caller, submission, what string) (out *store.Vetting, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		v, err := tx.VettingOf(submission, what)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		out = &v
		return err
	})
	return out, err
}

// Vettings lists the newest vettings of an arena, in a state or ("") any.
func (p *Platform) Vettings(ctx context.Context, c Caller, arena, what, state string) (out []store.Vetting, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		out, err = tx.Vettings(arena, what, state, maxVetList)
		return err
	})
	return out, err
}
