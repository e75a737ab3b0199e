package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// A desk is the page of one key: what it entered, what to try next, and what it
// plays as a validator.

// What a desk shows at most.
const (
	deskSubmissions = 50 // of all arenas
	deskTasks       = 8  // hints of a kind for one submission
	deskRuns        = 200
)

// deskEntry is one submission of the desk's owner.
type deskEntry struct {
	client.Submission
	Reward string
	Next   *nextStep // of the newest that was scored in its arena; else nil
	Ousted string    // that it took a seat and sits no more; "": it did not, or does
	// Appealable: its miner may object to how it was played.
	Appealable bool
}

// nextStep is what the numbers of a submission say about where to gain.
type nextStep struct {
	Hair   []taskGap // scored between a half and full marks
	Behind []taskGap // the champion scored more
	Slow   []runRow  // runs that ended at a limit of time
	Costly []runCost // the dearest runs
	Lost   int       // tasks behind the champion, all of them
}

// MoreBehind is how many of Lost are not in Behind.
func (n *nextStep) MoreBehind() int { return n.Lost - len(n.Behind) }

// firstLook is the task to look at first, and why.
type firstLook struct{ Task, Why string }

// First is where there is most to gain for least; nil: its runs alone say something.
func (n *nextStep) First() *firstLook {
	for _, r := range n.Slow {
		if len(r.Tasks) == 1 {
			return &firstLook{r.Task, "it ran out of time there"}
		}
	}
	if len(n.Behind) > 0 {
		g := n.Behind[0]
		return &firstLook{g.Task, fmt.Sprintf("the champion scored %s there, and it %s", showScore(*g.Champion), showScore(g.Value))}
	}
	if len(n.Hair) > 0 {
		return &firstLook{n.Hair[0].Task, "it is nearly solved, at " + showScore(n.Hair[0].Value)}
	}
	return nil
}

// taskGap is a task with what it scored, and what the champion did.
type taskGap struct {
	Task     string
	Value    float64
	Champion *float64
	Room     float64 // to full marks, or to the champion
}

type runCost struct {
	runRow
	Micros agon.Micros
	Share  float64 // of the submission's cost
}

// deskPlace is one arena in which the desk's owner plays as a validator.
type deskPlace struct {
	Arena, Title string
	Stat         store.ValidatorStat
	Versions     string // of the others, where they differ
	Permit       bool   // it may set weights
	WeightsAt    uint64 // the block at which it last did; 0: never
}

// Told says that a finding gives the reason of an exclusion already.
func (e deskEntry) Told() bool {
	return slices.ContainsFunc(e.Findings, func(f agon.Finding) bool { return !f.Warning && f.Message == e.ExcludedReason })
}

func (s *server) desk(q *request) error {
	if q.caller.Hotkey == "" {
		return &agon.Error{Code: "not_signed_in", Status: 401, Message: "A desk belongs to a key.", Mend: "Sign in first: agon web login --wallet.hotkey NAME"}
	}
	ctx := q.Context()
	data := struct {
		base
		Entries []deskEntry
		More    bool
		Today   int // entered in the last day
		Quotas  []quota
		Places  []deskPlace
		Word    *client.ValidatorStanding
		Bar     float64
	}{base: q.base("My desk", "")}
	arenas, err := s.cfg.Platform.Arenas(ctx)
	if err != nil {
		return err
	}
	byID := map[string]client.Arena{}
	for _, a := range arenas {
		byID[a.ID] = a
	}
	page, err := s.cfg.Platform.Submissions(ctx, q.caller, "", q.caller.Hotkey, "", deskSubmissions)
	if err != nil {
		return err
	}
	data.More = page.Next != ""
	told := map[string]bool{}
	for _, sub := range page.Items {
		e := deskEntry{Submission: sub, Reward: rewardOf(byID[sub.Arena].Seats, sub.ID), Appealable: mayAppeal(sub, byID[sub.Arena])}
		if e.Ousted, err = s.ousted(ctx, q, &sub, byID[sub.Arena]); err != nil {
			return err
		}
		if s.cfg.Now().Sub(sub.CreatedAt) < 24*time.Hour {
			data.Today++
		}
		if sub.Score != nil && !told[sub.Arena] {
			told[sub.Arena] = true
			if e.Next, err = s.nextStep(ctx, q, sub, byID[sub.Arena]); err != nil {
				return err
			}
		}
		data.Entries = append(data.Entries, e)
	}
	data.Quotas = quotas(arenas, page.Items, s.cfg.Now())
	data.Feed = "/miners/" + q.caller.Hotkey + "/feed.atom"
	for _, a := range arenas {
		list, err := s.cfg.Platform.Validators(ctx, a.ID)
		if err != nil {
			return err
		}
		if p := placeOf(list, q.caller.Hotkey); p != nil {
			p.Arena, p.Title = a.ID, a.Title
			p.weights(ctx, s.ledgerOf(a.Arena), a.Netuid, q.caller.Hotkey)
			data.Places = append(data.Places, *p)
		}
	}
	if len(data.Places) > 0 {
		all, err := s.cfg.Platform.ValidatorStandings(ctx)
		if err != nil {
			return err
		}
		data.Bar = all.Bar
		for i, v := range all.Validators {
			if v.Hotkey == q.caller.Hotkey {
				data.Word = &all.Validators[i]
			}
		}
	}
	return s.render(q, http.StatusOK, "desk", data)
}

// quota is how often a key may still enter an arena. Other keys of the same
// coldkey count, too: their entries are not known here.
type quota struct {
	Arena, Title string
	Used, Of     int       // in the last day; Of 0: no bound
	Next         time.Time // when an entry falls out of the day, or a pause ends; zero: now
}

// quotas are those of the arenas that take submissions and bound them.
func quotas(arenas []client.Arena, own []client.Submission, now time.Time) (out []quota) {
	for _, a := range arenas {
		if a.State != agon.ArenaOpen || a.SubmissionsPerColdkey == 0 && a.CooldownSeconds == 0 {
			continue
		}
		q := quota{Arena: a.ID, Title: a.Title, Of: a.SubmissionsPerColdkey}
		var last, first time.Time
		for _, sub := range own {
			if sub.Arena != a.ID || sub.Credit != nil && sub.Credit.Quota {
				continue
			}
			if sub.CreatedAt.After(last) {
				last = sub.CreatedAt
			}
			if now.Sub(sub.CreatedAt) < 24*time.Hour {
				if q.Used++; first.IsZero() || sub.CreatedAt.Before(first) {
					first = sub.CreatedAt
				}
			}
		}
		if q.Of > 0 && q.Used >= q.Of {
			q.Next = first.Add(24 * time.Hour)
		}
		if pause := last.Add(time.Duration(a.CooldownSeconds) * time.Second); !last.IsZero() && pause.After(now) && pause.After(q.Next) {
			q.Next = pause
		}
		out = append(out, q)
	}
	return out
}

// ousted says that a submission took a seat, sits no more, and who leads now.
func (s *server) ousted(ctx context.Context, q *request, sub *client.Submission, a client.Arena) (string, error) {
	if sub.Decision == nil || sub.Decision.Outcome != agon.TookSeat || rewardOf(a.Seats, sub.ID) != "" {
		return "", nil
	}
	if a.Champion == nil {
		return "It sits no more: nobody does.", nil
	}
	now, err := s.cfg.Platform.Submission(ctx, q.caller, a.Champion.Submission)
	if err != nil {
		return "", err
	}
	out := "It sits no more: " + now.Name + " leads now."
	if now.Decision != nil {
		out += " " + brief(now.Decision.Sentence)
	}
	return out, nil
}

// nextStep reads where a submission could gain, from its values and its runs.
func (s *server) nextStep(ctx context.Context, q *request, sub client.Submission, a client.Arena) (*nextStep, error) {
	ids := []string{sub.ID}
	champion := ""
	if a.Champion != nil && a.Champion.Submission != sub.ID {
		champion = a.Champion.Submission
		ids = append(ids, champion)
	}
	values, err := s.cfg.Platform.Values(ctx, ids)
	if err != nil {
		return nil, err
	}
	runs, err := s.cfg.Platform.Runs(ctx, q.caller, "", sub.ID, "", "", deskRuns)
	if err != nil {
		return nil, err
	}
	return nextOf(a.Arena, &sub, values[sub.ID], values[champion], runs.Items), nil
}

// nextOf reads it from values by task and from runs; nil: there is nothing to say.
// Where a score is of some of the tasks only, nothing is gained on the others.
func nextOf(a agon.Arena, sub *client.Submission, own, champion map[string]float64, runs []client.Run) *nextStep {
	if of := platform.Counted(a, sub.Score, sub.Total, own); of != nil {
		own = of
	}
	n := gaps(own, champion)
	if a.Contest != nil { // its values are ranks of a metric: none is nearly full marks
		n.Hair = nil
	}
	n.Slow, n.Costly = dear(runs)
	if len(n.Hair)+len(n.Behind)+len(n.Slow)+len(n.Costly) == 0 {
		return nil
	}
	return n
}

// gaps are the tasks on which there is most to gain for least.
func gaps(own, champion map[string]float64) *nextStep {
	n := &nextStep{}
	for task, v := range own {
		g := taskGap{Task: task, Value: v}
		if c, ok := champion[task]; ok {
			g.Champion = &c
		}
		if v >= 0.5 && v < 1 {
			g.Room = 1 - v
			n.Hair = append(n.Hair, g)
		}
		if g.Champion != nil && *g.Champion > v {
			g.Room = *g.Champion - v
			n.Behind = append(n.Behind, g)
		}
	}
	n.Lost = len(n.Behind)
	slices.SortFunc(n.Hair, func(x, y taskGap) int { return cmp.Or(cmp.Compare(x.Room, y.Room), cmp.Compare(x.Task, y.Task)) })
	slices.SortFunc(n.Behind, func(x, y taskGap) int { return cmp.Or(cmp.Compare(y.Room, x.Room), cmp.Compare(x.Task, y.Task)) })
	n.Hair, n.Behind = n.Hair[:min(len(n.Hair), deskTasks)], n.Behind[:min(len(n.Behind), deskTasks)]
	return n
}

// dear finds the runs that ended at a limit of time, and those that took most of the money.
func dear(runs []client.Run) (slow []runRow, costly []runCost) {
	var sum agon.Micros
	for _, r := range runs {
		row, c := rowOf(r), runCost{}
		for _, a := range r.List {
			c.Micros += a.CostMicros
		}
		sum += c.Micros
		if ranOutOfTime(r) && len(slow) < deskTasks {
			slow = append(slow, row)
		}
		if c.Micros > 0 {
			c.runRow = row
			costly = append(costly, c)
		}
	}
	slices.SortStableFunc(costly, func(x, y runCost) int { return cmp.Compare(y.Micros, x.Micros) })
	costly = costly[:min(len(costly), 3)]
	for i := range costly {
		costly[i].Share = float64(costly[i].Micros) / float64(sum)
	}
	return slow, costly
}

// ranOutOfTime tells by the words of the engine, which a run's reason begins with.
func ranOutOfTime(r client.Run) bool {
	return r.Fault == agon.FaultAgent && strings.Contains(r.Reason, "timeout")
}

// placeOf is what a key does among an arena's validators; nil: nothing.
func placeOf(list []store.ValidatorStat, hotkey string) *deskPlace {
	i := slices.IndexFunc(list, func(v store.ValidatorStat) bool { return v.Validator == hotkey })
	if i < 0 {
		return nil
	}
	p := &deskPlace{Stat: list[i]}
	others := map[string]int{}
	for _, v := range list {
		if v.Validator != hotkey && v.Version != "" && v.Version != p.Stat.Version {
			others[v.Version]++
		}
	}
	var names []string
	for v, n := range others {
		names = append(names, v+" ("+strconv.Itoa(n)+")")
	}
	slices.Sort(names)
	p.Versions = strings.Join(names, ", ")
	return p
}

// weights reads from a subnet when key last set weights there. A ledger that does not
// answer leaves the place without.
func (p *deskPlace) weights(ctx context.Context, l Ledger, netuid uint16, key string) {
	g, err := l.Metagraph(ctx, netuid)
	if err != nil {
		return
	}
	for _, n := range g.Neurons {
		if n.Hotkey == key {
			if p.Permit = n.Validator; n.LastUpdate > n.Registered {
				p.WeightsAt = n.LastUpdate
			}
		}
	}
}
