package audit

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/translog"
)

// hiddenKeys are the tasks of the bundle's runs that are hidden, or were.
func (b *Bundle) hiddenKeys() []string {
	var out []string
	for _, r := range b.Runs {
		for _, t := range r.Run.Tasks {
			if t.Hidden && !slices.Contains(out, t.Key) {
				out = append(out, t.Key)
			}
		}
	}
	slices.Sort(out)
	return out
}

// titled reports whether a task was played on the set of a later period only:
// that is committed to before the period begins, after the submission was entered.
func (b *Bundle) titled(key string) bool {
	out := false
	for _, r := range b.Runs {
		if slices.ContainsFunc(r.Run.Tasks, func(t agon.TaskRef) bool { return t.Key == key }) {
			if r.Run.Title == nil {
				return false
			}
			out = true
		}
	}
	return out
}

func (b *Bundle) hiddenTask(key string) *client.HiddenTask {
	for i := range b.Arena.Hidden {
		if b.Arena.Hidden[i].Task == key {
			return &b.Arena.Hidden[i]
		}
	}
	return nil
}

// collectHidden reads the proofs of what was committed to of hidden tasks.
func (b *Bundle) collectHidden(ctx context.Context, c *client.Client) error {
	keys := b.hiddenKeys()
	if slices.ContainsFunc(keys, func(key string) bool { return b.hiddenTask(key) == nil }) {
		list, err := c.ArenaTasks(ctx, b.Arena.ID) // the arena's own view has no sets of before
		if err != nil {
			return err
		}
		for _, t := range list {
			if t.Committed != nil && b.hiddenTask(t.Task) == nil && slices.Contains(keys, t.Task) {
				b.Arena.Hidden = append(b.Arena.Hidden, *t.Committed)
			}
		}
	}
	for _, key := range keys {
		h := b.hiddenTask(key)
		if h == nil {
			continue
		}
		if err := b.prove(ctx, c, translog.TypeTask, translog.TaskID(translog.TypeTask, b.Arena.ID, key)); err != nil {
			return err
		}
		if h.RetiredAt == nil {
			continue
		}
		if err := b.prove(ctx, c, translog.TypeRetired, translog.TaskID(translog.TypeRetired, b.Arena.ID, key)); err != nil {
			return err
		}
	}
	return nil
}

// hidden checks that the hidden tasks of the runs were committed to before the
// submission was entered, and opens the commitments of those that have retired.
func (k *checker) hidden() {
	const what = "hidden tasks"
	keys := k.b.hiddenKeys()
	if len(keys) == 0 || k.Log == nil {
		return
	}
	opened := 0
	for _, key := range keys {
		h := k.b.hiddenTask(key)
		if h == nil {
			k.open(what, "the server has committed to nothing of task %s", key)
			return
		}
		if !k.committed(what, translog.TypeTask, *h) {
			return
		}
		mine, sub := k.b.Proofs[translog.TypeTask+"/"+translog.TaskID(translog.TypeTask, k.b.Arena.ID, key)], k.b.Proofs[translog.TypeSubmission+"/"+k.b.Submission.ID]
		if sub != nil && mine.Index > sub.Index && !k.b.titled(key) {
			k.open(what, "task %s was committed to after the submission was entered", key)
			return
		}
		if h.RetiredAt == nil {
			continue
		}
		if c, err := seeds.TaskCommitment(h.Salt, h.Digest); err != nil || c != h.Commitment {
			k.wrong(what, "what is shown of task %s is not what was committed to", key)
			return
		}
		for _, r := range k.b.Runs {
			for _, t := range r.Run.Tasks {
				if t.Key == key && t.Digest != "" && t.Digest != h.Digest {
					k.wrong(what, "run %s was played on %s, committed to was %s", r.Run.RunSpec.Run, t.Digest, h.Digest)
					return
				}
			}
		}
		if !k.committed(what, translog.TypeRetired, *h) {
			return
		}
		opened++
	}
	k.ok(what, "%d were committed to in time, %d of them have retired and open it", len(keys), opened)
}

// committed compares what the log says of a hidden task with what is shown.
func (k *checker) committed(what, typ string, h client.HiddenTask) bool {
	e, ok := k.entry(what, typ, translog.TaskID(typ, k.b.Arena.ID, h.Task), nil)
	if !ok {
		return false
	}
	var said client.HiddenTask
	if err := json.Unmarshal(e.Body, &said); err != nil {
		k.wrong(what, "the log's entry of task %s cannot be read: %v", h.Task, err)
		return false
	}
	want := h
	if typ == translog.TypeTask { // when it was made nothing was open
		want.Salt, want.Digest = "", agon.Digest("")
	}
	if said.Task != want.Task || said.Commitment != want.Commitment || said.Salt != want.Salt || said.Digest != want.Digest {
		k.wrong(what, "the log says otherwise of task %s: %.200s", h.Task, e.Body)
		return false
	}
	return true
}
