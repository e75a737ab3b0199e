package corpus

import (
	"slices"

	"github.com/agon-arena/agon"
)

// boilerplate is in how many different queries of a corpus words stand that say
// nothing of any of them: the rules of a voucher, the form of a request.
const boilerplate = 8

// question is a query as its likes are looked for.
type question struct{ shingles []uint64 }

// suspect is a row in which words of a public benchmark stand.
type suspect struct {
	from Provenance
	hits []gramHit
}

// joinQuestions joins the clusters of nearly the same query. What stands in many
// queries makes none of them alike.
func (b *builder) joinQuestions() {
	in := map[uint64]int{}
	for _, q := range b.asked {
		for _, h := range q.shingles {
			in[h]++
		}
	}
	most := max(boilerplate, len(b.asked)/20)
	like := newIndex()
	var names []string
	for _, key := range b.order {
		own := slices.DeleteFunc(slices.Clone(b.asked[key].shingles), func(h uint64) bool { return in[h] > most })
		if len(own) == 0 {
			continue
		}
		for _, i := range like.like(signature(own), SameQuery) {
			b.union.join(key, names[i])
		}
		names = append(names, key)
	}
}

// cutContaminated cuts the rows that hold words in a row of a public benchmark
// which are not boilerplate of the corpus.
func (b *builder) cutContaminated() {
	b.rows = slices.DeleteFunc(b.rows, func(k kept) bool {
		s, ok := b.suspects[k.id]
		if !ok {
			return false
		}
		i := slices.IndexFunc(s.hits, func(h gramHit) bool { return len(b.grams[h.gram]) < boilerplate })
		if i < 0 {
			return false
		}
		b.report.contaminated(&s.from, s.hits[i].Hit)
		b.report.reject(RejectContaminated, s.from.Kind)
		return true
	})
}

// tallyOf counts a play of a problem in which a model took part.
func (b *builder) tallyOf(t agon.TaskRef, submission string, r *Row) {
	if b.tallies == nil {
		return // a filter looks at one run at a time
	}
	key := b.names.of("task " + string(t.Digest))
	if b.tallies[key] == nil {
		b.tallies[key] = &tally{agents: map[name][2]int{}}
	}
	b.tallies[key].add(b.names.of(submission), &r.Reward)
}

func boolCmp(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (b *builder) cluster(list []kept, coldkeys map[name]int) ([]kept, error) {
	var out []kept
	// Two agents may do the same and think otherwise: only near-copies of the text go.
	type did struct {
		calls      [16]byte
		task       name
		submission name
		success    bool
	}
	type agentOn struct{ submission, task name }
	type play struct {
		calls   [16]byte
		task    name
		success bool
	}
	calls, plays := map[did]bool{}, map[play]bool{}
	near := newIndex()
	agents := map[agentOn]int{}
	problems := map[name]int{}
	for _, k := range list {
		// Success and failure of the same calls are both worth keeping: they differ in something.
		same := did{k.calls, k.task, k.submission, k.success}
		by := agentOn{k.submission, k.task}
		sig, err := b.signatureAt(&k)
		if err != nil {
			return nil, err
		}
		reason, twin := "", !calls[same] && len(near.like(sig, NearDuplicate)) > 0
		switch {
		case calls[same], twin && plays[play{k.calls, k.task, k.success}]:
			reason = RejectDuplicate
		case twin:
			reason = RejectNear
		case problems[k.task] >= b.cfg.PerCluster, agents[by] >= b.cfg.PerAgent:
			reason = RejectClusterCap
		case coldkeys[k.coldkey] >= b.cfg.PerColdkey:
			reason = RejectColdkeyCap
		}
		calls[same], plays[play{k.calls, k.task, k.success}] = true, true
		if reason != "" {
			b.report.reject(reason, b.names.all[k.kind])
			continue
		}
		agents[by]++
		problems[k.task]++
		coldkeys[k.coldkey]++
		out = append(out, k)
	}
	return out, nil
}

// splitOf gives a whole cluster to one split.
func splitOf(cluster, salt string, eval, held float64) string {
	h := hash64(salt + " " + cluster)
	x := float64(h>>11) / (1 << 53)
	switch {
	case x < held:
		return Held
	case x < held+eval:
		return Eval
	}
	return Train
}
