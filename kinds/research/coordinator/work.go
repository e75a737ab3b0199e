package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/store"
)

// maxOpenItems bounds what a planner's pass leaves open on one task.
const maxOpenItems = 10

// WorkItem returns one work item.
func (c *Coordinator) WorkItem(ctx context.Context, id string) (*WorkItem, error) {
	var out WorkItem
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		d, err := tx.Doc(tableWorkItems, id)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("work item", id)
		}
		if err != nil {
			return err
		}
		out, err = decode[WorkItem](d)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// WorkItems lists work items by (-priority, created_at): the order in which they should be taken.
func (c *Coordinator) WorkItems(ctx context.Context, taskID, status string, limit int) ([]WorkItem, error) {
	out := []WorkItem{}
	stale := false
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		stale, err = c.anyStale(tx, taskID)
		return err
	})
	if err == nil && stale { // a read writes only where there is something to free
		err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error { return c.freeItems(tx, taskID) })
	}
	if err != nil {
		return nil, err
	}
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableWorkItems, store.DocFilter{Task: taskID, Status: status, Limit: limit, Oldest: true})
		if err != nil {
			return err
		}
		for _, r := range rows {
			w, err := decode[WorkItem](r)
			if err != nil {
				return err
			}
			out = append(out, w)
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b WorkItem) int { return b.Priority - a.Priority })
	return out, err
}

// anyStale reports whether an item is held by a claim that has expired.
func (c *Coordinator) anyStale(tx *store.Tx, taskID string) (bool, error) {
	rows, err := tx.Docs(tableWorkItems, store.DocFilter{Task: taskID, Status: ItemClaimed})
	if err != nil {
		return false, err
	}
	for _, r := range rows {
		d, err := tx.Doc(tableClaims, r.Ref)
		if err != nil {
			return false, err
		}
		cl, err := decode[Claim](d)
		if err != nil {
			return false, err
		}
		if cl.Status == ClaimActive && !cl.ExpiresAt.After(c.now()) {
			return true, nil
		}
	}
	return false, nil
}

// freeItems opens items whose claim has expired.
func (c *Coordinator) freeItems(tx *store.Tx, taskID string) error {
	rows, err := tx.Docs(tableWorkItems, store.DocFilter{Task: taskID, Status: ItemClaimed})
	if err != nil {
		return err
	}
	for _, r := range rows {
		d, err := tx.Doc(tableClaims, r.Ref)
		if err != nil {
			return err
		}
		cl, err := decode[Claim](d)
		if err != nil {
			return err
		}
		if cl.Status == ClaimActive && !cl.ExpiresAt.After(c.now()) {
			if err := endClaim(tx, &cl, ClaimExpired); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeItem gives an open item to a claim.
func takeItem(tx *store.Tx, id string, cl *Claim) error {
	if err := moveItem(tx, id, ItemOpen, ItemClaimed, cl.ID); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return refuse(409, "work_item_not_open", "work item %s is taken or completed", id)
		}
		return err
	}
	cl.WorkItem = &id
	return nil
}

// moveItem is one step of the machine open -> claimed -> completed | open.
func moveItem(tx *store.Tx, id, from, to, claim string) error {
	d, err := tx.Doc(tableWorkItems, id)
	if err != nil {
		return err
	}
	w, err := decode[WorkItem](d)
	if err != nil {
		return err
	}
	w.Status, w.ClaimID = to, opt(claim)
	if d.Body, err = encode(w); err != nil {
		return err
	}
	d.Ref, d.Status = claim, to
	return tx.SetDoc(tableWorkItems, d, from)
}

// Plan is one deterministic pass of the planner: for every live task (or one)
// it opens the items that its standing asks for and that are not open or taken
// yet. It returns what it made.
func (c *Coordinator) Plan(ctx context.Context, taskID string) ([]WorkItem, error) {
	tasks := c.list()
	if taskID != "" {
		t, err := c.taskOf(taskID)
		if err != nil {
			return nil, err
		}
		tasks = []*task{t}
	}
	slices.SortFunc(tasks, func(a, b *task) int { return a.created.Compare(b.created) })
	out := []WorkItem{}
	err := c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		out = out[:0]
		for _, t := range tasks {
			a, err := tx.Arena(t.arena)
			if err != nil {
				return err
			}
			if stateOf(a.State) != StateLive {
				continue
			}
			made, err := c.planTask(tx, t)
			if err != nil {
				return err
			}
			out = append(out, made...)
		}
		return nil
	})
	return out, err
}

func (c *Coordinator) planTask(tx *store.Tx, t *task) ([]WorkItem, error) {
	want, err := c.wanted(tx, t)
	if err != nil {
		return nil, err
	}
	return c.openItems(tx, t, want)
}

// openItems opens those of the wanted items that are not there yet, as many as
// may be open at once.
func (c *Coordinator) openItems(tx *store.Tx, t *task, want []WorkItem) ([]WorkItem, error) {
	if err := c.freeItems(tx, t.id); err != nil {
		return nil, err
	}
	rows, err := tx.Docs(tableWorkItems, store.DocFilter{Task: t.id})
	if err != nil {
		return nil, err
	}
	have, open := map[string]bool{}, 0
	for _, r := range rows {
		w, err := decode[WorkItem](r)
		if err != nil {
			return nil, err
		}
		if w.Status != ItemCompleted {
			open++
		}
		have[w.Strategy] = have[w.Strategy] || w.Status != ItemCompleted || w.Kind == "implement" || strings.HasPrefix(w.Strategy, "model:")
	}
	var made []WorkItem
	for _, w := range want {
		if have[w.Strategy] || open+len(made) >= maxOpenItems {
			continue
		}
		w.ID, w.TaskID, w.Status, w.CreatedAt = newID(), t.id, ItemOpen, Time{c.now()}
		body, err := encode(w)
		if err != nil {
			return nil, err
		}
		if err := tx.InsertDoc(tableWorkItems, store.Doc{ID: w.ID, Task: t.id, Status: ItemOpen, At: c.now(), Body: body}); err != nil {
			return nil, err
		}
		made = append(made, w)
		have[w.Strategy] = true
	}
	return made, nil
}

// wanted is what a task's standing asks for: implement ideas that were
// proposed, improve the best, explore.
func (c *Coordinator) wanted(tx *store.Tx, t *task) ([]WorkItem, error) {
	var out []WorkItem
	accepted, err := tx.Docs(tableSubmissions, store.DocFilter{Task: t.id, Status: "accepted", Limit: 200, Oldest: true})
	if err != nil {
		return nil, err
	}
	for _, d := range accepted {
		s, err := decode[storedSubmission](d)
		if err != nil {
			return nil, err
		}
		if s.ProposedIdea != nil {
			out = append(out, WorkItem{
				Kind: "implement", Strategy: "implement:" + s.ID, Title: "Implement an idea that was proposed", Priority: 20,
				Instructions: "Implement this idea (implemented_submission_id " + s.ID + "):\n\n" + *s.ProposedIdea, Base: opt(s.ID),
			})
		}
	}
	best, err := lastRecord(tx, t.id)
	if err != nil {
		return nil, err
	}
	if best != nil {
		out = append(out, WorkItem{
			Kind: "improve", Strategy: "improve:" + best.Submission, Title: "Improve the best result", Priority: 10, Base: opt(best.Submission),
			Instructions: fmt.Sprintf("The best %s is %v (%s it). Start from submission %s and pass its noise band of %v.", best.Metric, best.Value, best.Direction, best.Submission, best.Band),
		})
	}
	out = append(out, WorkItem{
		Kind: "explore", Strategy: "explore", Title: "Try something new", Priority: 1,
		Instructions: fmt.Sprintf("Improve %s (%s it) from the base. Change only: %v.", t.pub.MetricName, t.pub.MetricDirection, t.pub.AllowedPatchPaths),
	})
	return out, nil
}
