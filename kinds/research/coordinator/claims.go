package coordinator

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// Limits of a claim's texts, in bytes.
const (
	maxDescription = 4000
	maxID          = 100
)

// member lets only hotkeys in that are registered on a task's subnet with enough stake.
func (c *Coordinator) member(ctx context.Context, t *task, hotkey string) (Member, error) {
	m, ok, err := c.cfg.Member(ctx, t.arena, t.netuid, hotkey)
	if err != nil {
		return m, &agon.Error{Status: 503, Code: "ledger", Message: "the ledger does not answer", Mend: "try again", Fault: agon.FaultLedger, Err: err}
	}
	if !ok || m.Stake < c.cfg.MinMinerStake {
		r := refuse(403, "insufficient_miner_stake", "hotkey %s is not registered on subnet %d", hotkey, t.netuid).
			with("required_stake_rao", c.cfg.MinMinerStake).with("stake_rao", m.Stake).with("netuid", t.netuid)
		if ok {
			r.Message = "the hotkey has too little stake"
		}
		return m, r
	}
	return m, nil
}

// live reads a task's arena and refuses unless it is live.
func (c *Coordinator) live(tx *store.Tx, t *task) (agon.Arena, error) {
	a, err := tx.Arena(t.arena)
	if err != nil {
		return a, err
	}
	if s := stateOf(a.State); s != StateLive {
		return a, refuse(409, "task_not_live", "task %s is %s and takes no claims or submissions", t.pub.Slug, s).with("task_state", s)
	}
	return a, nil
}

// checkText wants UTF-8 without NUL of at most limit bytes.
func checkText(field, s string, limit int) error {
	if len(s) > limit {
		return refuse(413, "field_too_large", "%s has %d bytes, at most %d are allowed", field, len(s), limit).with("field", field).with("limit", limit)
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return refuse(422, "bad_text", "%s: want UTF-8 text without NUL", field).with("field", field)
	}
	return nil
}

// ClaimRequest is what a miner asks for.
type ClaimRequest struct {
	Description string
	Base        string // submission it builds on, optional
	Item        string // work item; empty: the task itself
}

// Once defers the nonce of a signed request, so that Claim and Submit record it
// in their own transaction. end takes their outcome, records the nonce where
// they did not, and returns what to answer: the outcome, or that the request
// was used before.
func (c *Coordinator) Once(ctx context.Context) (_ context.Context, end func(error) error) {
	ctx = platform.DeferNonce(ctx)
	return ctx, func(err error) error {
		if serr := c.cfg.Platform.SettleNonce(ctx); serr != nil && err == nil {
			return serr
		}
		return err
	}
}

// Claim reserves an attempt on a task, or on a work item of it.
func (c *Coordinator) Claim(ctx context.Context, hotkey, taskID string, r ClaimRequest) (*Claim, error) {
	if err := checkText("claim_description", r.Description, maxDescription); err != nil {
		return nil, err
	}
	if len(r.Base) > maxID {
		return nil, refuse(422, "unknown_base_submission", "base_submission_id is not an id")
	}
	if r.Item != "" {
		item, err := c.WorkItem(ctx, r.Item)
		if err != nil {
			return nil, err
		}
		taskID = item.TaskID
	} else if strings.TrimSpace(r.Description) == "" {
		return nil, refuse(422, "missing_claim_description", "claim_description is required: say what you will try").with("field", "claim_description")
	}
	t, err := c.taskOf(taskID)
	if err != nil {
		return nil, err
	}
	if _, err := c.member(ctx, t, hotkey); err != nil {
		return nil, err
	}
	now := c.now()
	out := &Claim{
		ID: newID(), TaskID: t.id, Miner: hotkey, Status: ClaimActive, Description: r.Description, Base: opt(r.Base),
		CreatedAt: Time{now}, ExpiresAt: Time{now.Add(c.claimLife(t))},
	}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if err := platform.UseNonce(ctx, tx); err != nil {
			return err
		}
		if _, err := c.live(tx, t); err != nil {
			return err
		}
		active, err := c.activeClaims(tx, t, hotkey)
		if err != nil {
			return err
		}
		if len(active) >= c.cfg.MaxActive {
			return refuse(409, "too_many_active_claims", "hotkey %s holds %d active claims on this task: submit or cancel one", hotkey, len(active)).
				with("max_active_claims", c.cfg.MaxActive).with("active_claim_ids", active)
		}
		if r.Base != "" {
			b, err := tx.Doc(tableSubmissions, r.Base)
			if errors.Is(err, store.ErrNotFound) || (err == nil && b.Task != t.id) {
				return refuse(422, "unknown_base_submission", "base_submission_id names no submission of this task")
			}
			if err != nil {
				return err
			}
		}
		if r.Item != "" {
			if err := takeItem(tx, r.Item, out); err != nil {
				return err
			}
		}
		body, err := encode(out)
		if err != nil {
			return err
		}
		return tx.InsertDoc(tableClaims, store.Doc{ID: out.ID, Task: t.id, Owner: hotkey, Ref: r.Item, Status: ClaimActive, At: now, Body: body})
	})
	if err != nil {
		return nil, err
	}
	platform.NonceKept(ctx)
	return out, nil
}

// claimLife is how long a claim on t lives.
func (c *Coordinator) claimLife(t *task) time.Duration {
	return min(max(c.cfg.MinClaim, 8*time.Duration(t.pub.TimeBudgetSeconds)*time.Second), c.cfg.MaxClaim)
}

// activeClaims lists a hotkey's live claims on a task and ends those whose time is over.
func (c *Coordinator) activeClaims(tx *store.Tx, t *task, hotkey string) ([]string, error) {
	rows, err := tx.Docs(tableClaims, store.DocFilter{Task: t.id, Owner: hotkey, Status: ClaimActive})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range rows {
		cl, err := decode[Claim](r)
		if err != nil {
			return nil, err
		}
		if cl.ExpiresAt.After(c.now()) {
			out = append(out, cl.ID)
			continue
		}
		if err := endClaim(tx, &cl, ClaimExpired); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// endClaim moves an active claim on and frees its work item, unless it was submitted.
func endClaim(tx *store.Tx, cl *Claim, to string) error {
	cl.Status = to
	body, err := encode(cl)
	if err != nil {
		return err
	}
	if err := tx.SetDoc(tableClaims, store.Doc{ID: cl.ID, Owner: cl.Miner, Ref: val(cl.WorkItem), Status: to, Body: body}, ClaimActive); err != nil {
		return err
	}
	if cl.WorkItem == nil {
		return nil
	}
	if to == ClaimSubmitted {
		return moveItem(tx, *cl.WorkItem, ItemClaimed, ItemCompleted, cl.ID)
	}
	return moveItem(tx, *cl.WorkItem, ItemClaimed, ItemOpen, "")
}

// CancelClaim ends a claim by its owner. Cancelling it again changes nothing.
func (c *Coordinator) CancelClaim(ctx context.Context, hotkey, id string) (*Claim, error) {
	var out Claim
	err := c.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if out, err = c.ownClaim(tx, hotkey, id); err != nil {
			return err
		}
		switch {
		case out.Status == ClaimCancelled:
			return nil
		case out.Status != ClaimActive:
			return refuse(409, "claim_not_active", "claim %s is %s", id, out.Status).with("status", out.Status)
		}
		return endClaim(tx, &out, ClaimCancelled)
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// ownClaim reads a claim of hotkey. Its status may still say active when its time is over.
func (c *Coordinator) ownClaim(tx *store.Tx, hotkey, id string) (Claim, error) {
	d, err := tx.Doc(tableClaims, id)
	if errors.Is(err, store.ErrNotFound) {
		return Claim{}, notFound("claim", id)
	}
	if err != nil {
		return Claim{}, err
	}
	if d.Owner != hotkey {
		return Claim{}, refuse(403, "claim_owner_mismatch", "claim %s belongs to another hotkey", d.ID)
	}
	return decode[Claim](d)
}

// usable refuses a claim that cannot be submitted on.
func (c *Coordinator) usable(cl Claim) error {
	if cl.Status == ClaimExpired || (cl.Status == ClaimActive && !cl.ExpiresAt.After(c.now())) {
		return refuse(409, "claim_expired", "claim %s expired at %s: claim again", cl.ID, cl.ExpiresAt.Format(timeForm)).with("expires_at", cl.ExpiresAt)
	}
	if cl.Status != ClaimActive {
		return refuse(409, "claim_not_active", "claim %s is %s", cl.ID, cl.Status).with("status", cl.Status)
	}
	return nil
}

// Claims lists claims, newest first.
func (c *Coordinator) Claims(ctx context.Context, taskID, status string, limit int) ([]Claim, error) {
	f := store.DocFilter{Task: taskID, Status: status, Limit: limit}
	if status == ClaimExpired || status == ClaimActive {
		f.Status = "" // an expired one may still be written active
	}
	out := []Claim{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableClaims, f)
		if err != nil {
			return err
		}
		for _, r := range rows {
			cl, err := decode[Claim](r)
			if err != nil {
				return err
			}
			c.showExpired(&cl)
			if status == "" || cl.Status == status {
				out = append(out, cl)
			}
		}
		return nil
	})
	return out, err
}

func (c *Coordinator) showExpired(cl *Claim) {
	if cl.Status == ClaimActive && !cl.ExpiresAt.After(c.now()) {
		cl.Status = ClaimExpired
	}
}

// ClaimByID returns one claim.
func (c *Coordinator) ClaimByID(ctx context.Context, id string) (*Claim, error) {
	var out Claim
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		d, err := tx.Doc(tableClaims, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("claim", id)
		}
		if err != nil {
			return err
		}
		out, err = decode[Claim](d)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.showExpired(&out)
	return &out, nil
}
