package platform

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/plain"
)

// How far back the plan of a retune looks.
const (
	planRuns    = 500
	planEntries = 2000
	planDays    = 7
)

// RetunePlan says what a retune would do, from what the arena's newest runs and
// submissions did under the numbers of today. It changes nothing.
func (p *Platform) RetunePlan(ctx context.Context, c Caller, arena string, r client.Retune) (*client.RetunePlan, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	if err := checkRetune(r); err != nil {
		return nil, err
	}
	out := &client.RetunePlan{Arena: arena, Changes: []client.RetuneChange{}}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(arena)
		if err != nil {
			return found(err, "arena", arena)
		}
		micros := func(m *agon.Micros) *int {
			if m == nil {
				return nil
			}
			n := int(*m)
			return &n
		}
		for _, f := range []struct {
			name   string
			from   int
			to     *int
			effect func(tx *store.Tx, a agon.Arena, ch *client.RetuneChange) error
		}{
			{"max_leases", a.MaxLeases, r.MaxLeases, planLeases},
			{"attempts", a.Attempts, r.Attempts, planAttempts},
			{"submissions_per_coldkey", a.SubmissionsPerColdkey, r.SubmissionsPerColdkey, p.planColdkeys},
			{"budget_micros", int(a.Policy.Budget.Micros), micros(r.BudgetMicros), planBudget},
		} {
			if f.to == nil || *f.to == f.from {
				continue
			}
			ch := client.RetuneChange{Field: f.name, From: int64(f.from), To: int64(*f.to)}
			if err := f.effect(tx, a, &ch); err != nil {
				return err
			}
			out.Changes = append(out.Changes, ch)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// planLeases: nothing is taken from who holds more; who holds as many gets no further one.
func planLeases(tx *store.Tx, a agon.Arena, ch *client.RetuneChange) error {
	list, err := tx.ValidatorStats(a.ID)
	if err != nil {
		return err
	}
	queued, _, err := tx.Waiting(a.ID)
	if err != nil {
		return err
	}
	ch.Of = int64(len(list))
	at := min(ch.From, ch.To) // where the smaller of both numbers stops them
	for _, v := range list {
		if v.Live >= at {
			ch.Touched++
		}
	}
	if ch.To < ch.From {
		ch.Effect = fmt.Sprintf("%d of %s hold %s or more now: they keep them and get no more until they hold fewer. Runs that wait: %d.", ch.Touched, plain.Count(int(ch.Of), "validator"), plain.Count(int(at), "run"), queued)
		return nil
	}
	ch.Effect = fmt.Sprintf("%d of %s hold %s, as many as they may now: each may take up to %d more. Runs that wait: %d.", ch.Touched, plain.Count(int(ch.Of), "validator"), plain.Count(int(at), "run"), ch.To-ch.From, queued)
	return nil
}

// planAttempts counts the runs that another number of retries would have ended otherwise.
func planAttempts(tx *store.Tx, a agon.Arena, ch *client.RetuneChange) error {
	runs, err := tx.Runs(store.RunFilter{Arena: a.ID, Limit: planRuns})
	if err != nil {
		return err
	}
	for _, x := range runs {
		if !x.State.Final() {
			continue
		}
		ch.Of++
		switch {
		case ch.To < ch.From && x.State == agon.RunScored && x.Retries > int(ch.To),
			ch.To > ch.From && x.State == agon.RunFailed && x.Fault.Ours() && x.Retries > int(ch.From):
			ch.Touched++
		}
	}
	if ch.To < ch.From {
		ch.Effect = fmt.Sprintf("Of the newest %d runs that ended, %d were scored only because they were tried more than %d times again after faults of ours: they would have failed.", ch.Of, ch.Touched, ch.To)
		return nil
	}
	ch.Effect = fmt.Sprintf("Of the newest %d runs that ended, %d failed because all their retries ended by faults of ours: they would have been tried again. Runs that have failed stay so.", ch.Of, ch.Touched)
	return nil
}

// planColdkeys plays the last days' submissions again under the other cap.
func (p *Platform) planColdkeys(tx *store.Tx, a agon.Arena, ch *client.RetuneChange) error {
	list, err := tx.Entries(store.EntryFilter{Arena: a.ID, Limit: planEntries})
	if err != nil {
		return err
	}
	since := p.now().Add(-planDays * 24 * time.Hour)
	slices.Reverse(list) // oldest first
	in := map[string][]time.Time{}
	day := func(coldkey string, at time.Time) (n int64) {
		for _, t := range in[coldkey] {
			if t.After(at.Add(-24 * time.Hour)) {
				n++
			}
		}
		return n
	}
	full := map[string]bool{} // coldkeys that the smaller cap stops
	for _, e := range list {
		if e.CreatedAt.Before(since) {
			continue
		}
		ch.Of++
		n := day(e.Coldkey, e.CreatedAt)
		if lower := ch.To; lower > 0 && (ch.From == 0 || lower < ch.From) && n >= lower {
			ch.Touched++
			full[e.Coldkey] = true
			continue // under the smaller cap it would not have come in
		}
		in[e.Coldkey] = append(in[e.Coldkey], e.CreatedAt)
		if ch.From > 0 && n+1 >= ch.From {
			full[e.Coldkey] = true
		}
	}
	if ch.To > 0 && (ch.From == 0 || ch.To < ch.From) {
		ch.Effect = fmt.Sprintf("Of %d submissions of the last %d days, %d of %d coldkeys would have been refused. Those that are in stay in.", ch.Of, planDays, ch.Touched, len(full))
		return nil
	}
	ch.Touched = int64(len(full))
	ch.Effect = fmt.Sprintf("Of %d submissions of the last %d days, those of %d coldkeys reached the cap of today: they could have entered more.", ch.Of, planDays, ch.Touched)
	return nil
}

// planBudget counts the runs that the other budget would have stopped, or let go on.
func planBudget(tx *store.Tx, a agon.Arena, ch *client.RetuneChange) error {
	costs, err := tx.Costs(a.ID, planRuns)
	if err != nil {
		return err
	}
	ch.Of = int64(len(costs))
	sum, most := agon.Micros(0), agon.Micros(0)
	for _, m := range costs {
		sum, most = sum+m, max(most, m)
		switch {
		case ch.To < ch.From && m > agon.Micros(ch.To), ch.To > ch.From && m >= agon.Micros(ch.From)*9/10:
			ch.Touched++
		}
	}
	mean := agon.Micros(0)
	if ch.Of > 0 {
		mean = sum / agon.Micros(ch.Of)
	}
	spent := fmt.Sprintf("The mean was %s, the most %s.", usd(mean), usd(most))
	if ch.To < ch.From {
		ch.Effect = fmt.Sprintf("Of the newest %d scored runs, %d spent more than %s and would have been stopped there. %s", ch.Of, ch.Touched, usd(agon.Micros(ch.To)), spent)
		return nil
	}
	ch.Effect = fmt.Sprintf("Of the newest %d scored runs, %d spent nine tenths of today's budget or more and may have been short of it. %s", ch.Of, ch.Touched, spent)
	return nil
}
