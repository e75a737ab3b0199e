package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/translog"
)

// What is taken in, scored and decided goes to the transparency log (package
// translog): the transaction that makes a fact true notes it, the log's turn
// makes its entry from what is stored. Hidden tasks and undecided code show
// there as commitments only.

// History is what the platform asks of the log.
type History interface {
	Key() string
	Salt(index int64) string
	Head() translog.Checkpoint
	Entry(index int64) ([]byte, error)
	Publish(ctx context.Context) (translog.Checkpoint, error)
	// Trouble is why nothing could be published lately; nil: it could.
	Trouble() error
	Inclusion(i int64, c translog.Checkpoint) (tlog.RecordProof, error)
	Consistency(n int64, c translog.Checkpoint) (tlog.TreeProof, error)
}

// SetHistory gives the platform its log. It must be called before Start; without
// it facts are kept for the log, and no proofs are given.
func (p *Platform) SetHistory(h History) { p.history = h }

// unordered stands for the head of events that did not come in the order of
// their numbers: it is computed when the result's entry is made.
const unordered agon.Digest = "unordered"

// nextHead is the running hash after e was added to the events of a.
func nextHead(a *store.Attempt, e agon.Event) agon.Digest {
	if a.EventHead == unordered || e.Seq != a.EventCount+1 {
		return unordered
	}
	return translog.HeadOf(a.EventHead, e)
}

// resultOf puts together what is stored of an attempt's result.
func resultOf(tx *store.Tx, x *store.Result) (translog.Result, error) {
	head := x.EventHead
	if head == unordered {
		var err error
		if head, err = eventHead(tx, x.Run, x.N); err != nil {
			return translog.Result{}, err
		}
	}
	return translog.ResultOf(x.Of, x.Policy, x.Submission, x.Attempt.Attempt, x.Scores, x.EventCount, head, x.Receipts)
}

// eventHead reads the events of an attempt and hashes them in order.
func eventHead(tx *store.Tx, run string, attempt int) (h agon.Digest, err error) {
	const page = 500
	for after := int64(0); ; {
		list, err := tx.Events(run, attempt, after, page)
		if err != nil {
			return "", err
		}
		for _, e := range list {
			if e.Attempt != attempt {
				return h, nil
			}
			h, after = translog.HeadOf(h, e), e.Seq
		}
		if len(list) < page {
			return h, nil
		}
	}
}

// Facts is the log's source: it makes entries from what is stored.
type Facts struct {
	Store *store.Store
}

// LeafCount implements translog.Source.
func (f Facts) LeafCount(ctx context.Context) (int64, error) { return f.Store.FactCount(ctx) }

// Leaves implements translog.Source. What can be read no more, since somebody
// has removed it, becomes an entry that says so.
func (f Facts) Leaves(ctx context.Context, from int64, limit int, salt func(int64) string) (out []translog.Leaf, err error) {
	err = f.Store.Read(ctx, func(tx *store.Tx) error {
		out = nil
		facts, err := tx.Facts(from, limit)
		if err != nil {
			return err
		}
		var ids []string
		for _, x := range facts {
			if x.Type == store.FactResult {
				ids = append(ids, x.ID)
			}
		}
		results, err := tx.Results(ids)
		if err != nil {
			return err
		}
		for _, x := range facts {
			l, err := leafOf(tx, x, salt(x.Index), results)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				// A store that is away says nothing about the row: the next turn reads it.
				if _, away := tx.FactRow(); away != nil {
					return err
				}
			}
			if err != nil {
				l, err = translog.NewLeaf(translog.Leaf{Index: x.Index, Type: x.Type, ID: x.ID}, "", time.Time{}, map[string]string{"unreadable": cut(err.Error(), 200)}, nil)
			}
			if err != nil {
				return err
			}
			out = append(out, l)
		}
		return nil
	})
	return out, err
}

// leafOf makes the entry of a fact.
func leafOf(tx *store.Tx, x store.Fact, salt string, results map[string]*store.Result) (translog.Leaf, error) {
	l := translog.Leaf{Index: x.Index, Type: x.Type, ID: x.ID, Salt: salt}
	switch x.Type {
	case store.FactSubmission:
		e, err := tx.Entry(x.ID)
		if err != nil {
			return l, err
		}
		return translog.NewLeaf(l, e.Arena, e.CreatedAt, nil, translog.SubmissionOf(e.Submission))
	case store.FactResult:
		r := results[x.ID]
		if r == nil {
			return l, store.ErrNotFound
		}
		res, err := resultOf(tx, r)
		if err != nil {
			return l, err
		}
		return translog.NewLeaf(l, r.Arena, r.EndedAt, nil, res)
	case store.FactDecision:
		d, err := tx.Decision(x.ID)
		if err != nil {
			return l, err
		}
		return translog.NewLeaf(l, d.Arena, d.At, d, nil)
	case store.FactOperator:
		a, err := tx.Action(x.ID)
		if err != nil {
			return l, err
		}
		// The reason and the change may name what is hidden.
		open := map[string]string{"actor": a.Actor, "what": a.What, "target": cut(a.Target, 200)}
		return translog.NewLeaf(l, "", a.At, open, a)
	case store.FactKey, store.FactWeights, store.FactSeeds, store.FactReveal, store.FactJudging, store.FactTask, store.FactRetired, store.FactSet:
		n, err := tx.Note(x.ID)
		if err != nil {
			return l, err
		}
		var of struct {
			Arena string `json:"arena"`
		}
		if err := json.Unmarshal(n.Body, &of); err != nil {
			return l, fmt.Errorf("read note: %w", err)
		}
		if x.Type == store.FactWeights || x.Type == store.FactKey {
			of.Arena = "" // of a subnet, and of the log
		}
		return translog.NewLeaf(l, of.Arena, n.At, n.Body, nil)
	case store.FactLoss:
		return translog.NewLeaf(l, "", time.Time{}, map[string]string{"lost": x.ID}, nil)
	}
	return l, fmt.Errorf("unknown type of fact %q", x.Type)
}

// Proof shows that a fact stands in the log. The salt that opens it goes to
// those who may read the fact.
func (p *Platform) Proof(ctx context.Context, c Caller, typ, id string) (*client.LogProof, error) {
	if p.history == nil {
		return nil, notFound("log", "")
	}
	var x store.Fact
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		x, err = tx.FactOf(typ, id)
		return found(err, typ+" in the log", id)
	})
	if err != nil {
		return nil, err
	}
	head := p.history.Head()
	if x.Index >= head.N { // it is newer than the newest head
		err := p.history.Trouble() // a place that is away is not waited for by everybody
		if err == nil {
			head, err = p.history.Publish(ctx)
		}
		if err != nil {
			return nil, &agon.Error{
				Code: "log_behind", Status: 503, Fault: agon.FaultPlatform, Err: err, Mend: "ask again later: the log goes on where it stopped",
				Message: fmt.Sprintf("this %s is stored, and will be entry %d of the log, which cannot be written now", typ, x.Index),
			}
		}
	}
	hashes, err := p.history.Inclusion(x.Index, head)
	if err != nil {
		return nil, err
	}
	entry, err := p.history.Entry(x.Index)
	if err != nil {
		return nil, err
	}
	out := &client.LogProof{Index: x.Index, Entry: entry, Hashes: translog.HashTexts(hashes), Checkpoint: head.Text, Key: p.history.Key()}
	ok, err := p.mayOpen(ctx, c, typ, id)
	if ok {
		out.Salt = p.history.Salt(x.Index)
	}
	return out, err
}

// mayOpen reports whether a caller may read all that a leaf commits to.
func (p *Platform) mayOpen(ctx context.Context, c Caller, typ, id string) (bool, error) {
	switch typ {
	case store.FactOperator:
		return c.Operator, nil
	case store.FactSubmission:
		s, err := p.submission(ctx, id)
		if err != nil {
			return false, err
		}
		v, err := p.viewOf(ctx, c, s.Submission)
		return err == nil && v.may(WhatCode), err
	case store.FactResult:
		id, _, _ := strings.Cut(id, "/")
		var run store.Run
		var e store.Entry
		var a agon.Arena
		err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			if run, err = tx.Run(id); err != nil {
				return found(err, "run", id)
			}
			if a, err = tx.Arena(run.Arena); err != nil {
				return err
			}
			e, err = tx.Entry(run.Submission)
			return err
		})
		if err != nil {
			return false, err
		}
		v, err := p.viewOf(ctx, c, e.Submission)
		return err == nil && v.may(WhatTraces) && v.may(WhatEvidence) && (!p.anyHidden(a, run.Tasks) || v.may(WhatHidden)), err
	}
	return false, nil // nothing of it is secret
}

// Receipts returns what is stored of an attempt's calls, for those who may read
// its trace.
func (p *Platform) Receipts(ctx context.Context, c Caller, run string, attempt int) ([]agon.Receipt, error) {
	ok, err := p.mayOpen(ctx, c, store.FactResult, run)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(403, "not_public", "the receipts of run %s are not public", cut(run, 80))
	}
	list := []agon.Receipt{}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		got, err := tx.Receipts(run, attempt)
		list = append(list, got...)
		return err
	})
	return list, err
}

// Consistency proves that the log of a size begins the newest one.
func (p *Platform) Consistency(_ context.Context, size int64) (*client.LogConsistency, error) {
	if p.history == nil {
		return nil, notFound("log", "")
	}
	head := p.history.Head()
	if size < 1 || size > head.N {
		e := refuse(422, "bad_size", "the log has %d leaves", head.N)
		e.Field, e.Limit = "size", fmt.Sprintf("1 to %d", head.N)
		return nil, e
	}
	hashes, err := p.history.Consistency(size, head)
	if err != nil {
		return nil, err
	}
	return &client.LogConsistency{Size: size, Hashes: translog.HashTexts(hashes), Checkpoint: head.Text, Key: p.history.Key()}, nil
}
