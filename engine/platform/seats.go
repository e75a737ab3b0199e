package platform

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/ledger"
)

// Seats have no state of their own: who sits follows from who took a seat, in
// that order, by the arena's rule (incentive.Rule). The row of the first seat
// is kept beside the decisions for those who ask only for the champion.

// rule returns the incentive rule of an arena.
func (p *Platform) rule(a agon.Arena) (incentive.Rule, error) {
	r, ok := p.cfg.Incentives[a.Incentive]
	if !ok || r.Decide == nil {
		return r, fmt.Errorf("arena %s: unknown incentive %q", a.ID, a.Incentive)
	}
	return r, nil
}

// seats returns who sits in an arena, by place.
func (p *Platform) seats(tx *store.Tx, a agon.Arena) (incentive.Rule, []incentive.Entry, error) {
	return p.seatsAt(tx, a, -1)
}

// seatsAt is seats with the scores of the set of a period, or of the latest set
// (below 0), where the arena has a supply.
func (p *Platform) seatsAt(tx *store.Tx, a agon.Arena, period int64) (incentive.Rule, []incentive.Entry, error) {
	rule, err := p.rule(a)
	if err != nil {
		return rule, nil, err
	}
	// Of one seat the last to take it sits: an old arena has thousands who did.
	read := tx.Seated
	if rule.OneSeat() && a.Supply == nil {
		read = tx.LastSeated
	}
	list, err := read(a.ID)
	if err != nil {
		return rule, nil, err
	}
	entered, modelled := make([]incentive.Entry, len(list)), false
	for i, s := range list {
		entered[i] = entryOf(s.Entry)
		entered[i].At = s.At
		modelled = modelled || !s.Scripted
		if rule.Plays && rule.Seats != nil {
			if entered[i].Plays, err = plays(tx, a, s.ID); err != nil {
				return rule, nil, err
			}
		}
	}
	if modelled { // a rehearsal is over with the first real seat
		entered = slices.DeleteFunc(entered, func(e incentive.Entry) bool { return e.Scripted })
	}
	if a.Supply != nil {
		if entered, err = p.retitle(tx, a, entered, period, rule.Plays && rule.Seats != nil); err != nil {
			return rule, nil, err
		}
	}
	return rule, rule.Sit(a.IncentiveNumbers, entered), nil
}

// rehearsed says whether those who sit do so in a rehearsal: a script answered them.
func rehearsed(seats []incentive.Entry) bool { return len(seats) > 0 && seats[0].Scripted }

// rivals are the seats that an entry challenges: one that a model answered need
// not beat a rehearsal's. barred says that it can take no seat, as a script
// answered it and this is not a rehearsal, or is one no more.
func rivals(a agon.Arena, e store.Entry, seats []incentive.Entry) (list []incentive.Entry, barred bool) {
	if !e.Scripted && rehearsed(seats) {
		return nil, false
	}
	return seats, e.Scripted && (!a.Rehearsal || len(seats) > 0 && !rehearsed(seats))
}

// entryOf is a scored submission in a rule's words.
func entryOf(e store.Entry) incentive.Entry {
	out := incentive.Entry{Submission: e.ID, Miner: e.Miner, Coldkey: e.Coldkey, Scripted: e.Scripted, Cost: e.CostMicros}
	if e.Score != nil {
		out.Score = *e.Score
	}
	if e.Solved != nil && e.Total != nil {
		out.Solved, out.Total = *e.Solved, *e.Total
	}
	return out
}

// plays lists every score of a submission, by run, then task.
func plays(tx *store.Tx, a agon.Arena, submission string) (out []incentive.Play, err error) {
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return nil, err
	}
	return playsOf(tx, a, runs)
}

func playsOf(tx *store.Tx, a agon.Arena, runs []store.Run) (out []incentive.Play, err error) {
	if runs, _, err = agreed(tx, a, runs); err != nil {
		return nil, err
	}
	for _, r := range runs {
		if !counts(a, r) {
			continue
		}
		for _, s := range score.Given(r.Scores) {
			out = append(out, incentive.Play{Task: s.Task, Replica: r.Replica, Seed: r.Seed, Value: s.Value, Solved: s.Solved, Metrics: s.Metrics})
		}
	}
	return out, nil
}

// decide lets a scored submission challenge who sits and stores why it took a
// seat or not. It reports false where others must judge its results again first.
func (p *Platform) decide(tx *store.Tx, a agon.Arena, e store.Entry) (done bool, err error) {
	period := int64(-1)
	if e.Beacon != nil {
		period = e.Beacon.Period
	}
	rule, seats, err := p.seatsAt(tx, a, period)
	if err != nil {
		return false, err
	}
	seats, barred := rivals(a, e, seats)
	c := incentive.Challenge{Arena: a, Numbers: rule.Of(a.IncentiveNumbers), Challenger: entryOf(e), Seats: seats, At: p.now()}
	c.Challenger.At = c.At
	if rule.Plays {
		c.Seats = slices.Clone(seats)
		if c.Challenger.Plays, err = plays(tx, a, e.ID); err != nil {
			return false, err
		}
		for i := range c.Seats {
			if c.Seats[i].Plays, err = plays(tx, a, c.Seats[i].Submission); err != nil {
				return false, err
			}
		}
		if a.Supply != nil {
			if c.Seats, err = p.retitle(tx, a, c.Seats, period, true); err != nil {
				return false, err
			}
		}
	}
	v := rule.Decide(c)
	d := agon.Decision{
		Arena: a.ID, Challenger: e.ID, Incumbent: v.Incumbent, Score: c.Challenger.Score, Bar: finite(v.Bar),
		Outcome: agon.KeptSeat, Rule: cmp.Or(v.Rule, a.Incentive), Numbers: v.Numbers, At: c.At,
	}
	// JSON has no such numbers, and a rule's slip must not stop an arena.
	maps.DeleteFunc(d.Numbers, func(_ string, x float64) bool { return finite(&x) == nil })
	if d.Incumbent == "" && len(seats) > 0 {
		d.Incumbent = seats[0].Submission
	}
	ungauged, err := p.ungauged(tx, a, e.ID)
	if err != nil {
		return false, err
	}
	switch {
	case barred:
		d.Rule = incentive.ScriptedRule
	case worthless(e) != "":
		d.Rule = worthless(e)
	case ungauged != nil:
		d.Rule, d.Numbers = incentive.GateRule, ungauged
	case v.Takes && !(c.Challenger.Score > 0):
		d.Rule = incentive.ZeroRule // under no rule
		if waits, err := p.faultsMatter(tx, a, e, rule, c); waits || err != nil {
			return false, err
		}
	case v.Takes:
		d.Outcome = agon.TookSeat
		if waits, err := p.faultsMatter(tx, a, e, rule, c); waits || err != nil {
			return false, err // what it sits with is the bar for others
		}
		r, err := p.reviewed(tx, a, e.ID, true)
		if err != nil {
			return false, err
		}
		if waits := p.judgedSeat(a, r, &d); waits {
			return false, nil
		}
		if waits, err := p.vettedSeat(tx, a, &e, &d); waits || err != nil {
			return false, err
		}
	default:
		if waits, err := p.faultsMatter(tx, a, e, rule, c); waits || err != nil {
			return false, err
		}
	}
	return true, p.book(tx, a, e, d)
}

// judgedSeat looks how far what would move a seat has been judged again. It
// reports true where that is under way.
func (p *Platform) judgedSeat(a agon.Arena, r review, d *agon.Decision) (waits bool) {
	if r.wait {
		return true
	}
	d.Numbers = r.mark(d.Numbers)
	if r.unattested > 0 && !a.UnjudgedSeats {
		d.Outcome, d.Rule = agon.KeptSeat, incentive.UnattestedRule
		d.Numbers["unattested"] = float64(r.unattested)
	}
	return false
}

func seatOf(arena string, e incentive.Entry) agon.Seat {
	return agon.Seat{Arena: arena, Submission: e.Submission, Miner: e.Miner, Score: e.Score, Since: e.At}
}

func finite(f *float64) *float64 {
	if f == nil || math.IsNaN(*f) || math.IsInf(*f, 0) {
		return nil
	}
	return f
}

// places are the seats of an arena with what each earns now.
func (p *Platform) places(tx *store.Tx, a agon.Arena) ([]client.Place, float64, error) {
	rule, seats, err := p.seats(tx, a)
	if err != nil {
		return nil, 0, err
	}
	shares, burned, err := rule.Split(a.IncentiveNumbers, seats, p.now())
	if err != nil {
		return nil, 0, fmt.Errorf("arena %s: incentive %s: %w", a.ID, a.Incentive, err)
	}
	out := make([]client.Place, len(seats))
	for i, e := range seats {
		if e.Scripted {
			burned, shares[i] = burned+shares[i], 0
		}
		out[i] = client.Place{Place: i + 1, Share: shares[i], Seat: seatOf(a.ID, e)}
		parent, err := sharedWith(tx, a, e.Submission)
		if err != nil {
			return nil, 0, err
		}
		if parent != nil {
			out[i].Share /= 2
			out[i].Parent = &client.Parent{Submission: parent.ID, Miner: parent.Miner, Name: parent.Name, Share: out[i].Share}
		}
	}
	return out, burned, nil
}

// pays says in a sentence who earns what.
func (p *Platform) pays(tx *store.Tx, a agon.Arena, places []client.Place, burned float64) (string, error) {
	rule, seats, err := p.seats(tx, a)
	if err != nil {
		return "", err
	}
	paid := make([]incentive.Paid, len(places))
	for i, x := range places {
		e, err := tx.Entry(x.Submission)
		if err != nil {
			return "", err
		}
		paid[i] = incentive.Paid{Name: e.Name, Share: x.Share}
	}
	for _, x := range places {
		if x.Parent != nil {
			paid = append(paid, incentive.Paid{Name: x.Parent.Name + ", whose work it nearly is,", Share: x.Parent.Share})
		}
	}
	why := ""
	if len(places) == 0 {
		if why, err = nobody(tx, a.ID); err != nil {
			return "", err
		}
	} else if rehearsed(seats) {
		why = "this is a rehearsal: no model is set here, and the stand-in script answered those that sit"
	} else if rule.Unpaid != nil {
		why = rule.Unpaid(rule.Of(a.IncentiveNumbers), seats)
	}
	return incentive.Pays(paid, burned, why), nil
}

// Target is what weights the arena's rule wants now: to each seat its share,
// and to the owner of the subnet what nobody earned or whose hotkey has left
// the ledger. It is empty where something must be burned and there is no owner:
// a share that no one has earned is never spread over the others.
func (p *Platform) Target(ctx context.Context, arena string) (*client.Target, error) {
	var a agon.Arena
	var rule incentive.Rule
	var seats []incentive.Entry
	var places []client.Place
	var burned float64
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.Arena(arena); err != nil {
			return noArena(tx, err, arena)
		}
		if rule, seats, err = p.seats(tx, a); err != nil || rule.Weights != nil && !rehearsed(seats) {
			return err
		}
		places, burned, err = p.places(tx, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	if t, err := p.fixedTarget(ctx, a); t != nil || err != nil {
		return t, err
	}
	if rule.Weights != nil && !rehearsed(seats) {
		return p.exactTarget(ctx, a, rule, seats)
	}
	target := &client.Target{Netuid: a.Netuid, UIDs: []uint16{}, Values: []uint16{}}
	uids := map[string]uint16{}
	if len(places) > 0 {
		g, err := p.ledgerOf(a).Metagraph(ctx, a.Netuid)
		if err != nil {
			return nil, ledgerError(err)
		}
		for _, n := range g.Neurons {
			uids[n.Hotkey] = n.UID
		}
	}
	weights := make([]float64, ledger.MaxUID+1)
	earns := func(miner string, share float64) {
		if uid, ok := uids[miner]; ok {
			weights[uid] += share
		} else {
			burned += share
		}
	}
	for _, x := range places {
		earns(x.Miner, x.Share)
		if x.Parent != nil {
			earns(x.Parent.Miner, x.Parent.Share)
		}
	}
	if burned > 0 {
		owner, ok, err := p.ownerUID(ctx, a)
		if err != nil {
			return nil, ledgerError(err)
		}
		if !ok {
			return target, nil
		}
		weights[owner] += burned
	}
	if target.UIDs, target.Values, err = ledger.NormalizeWeights(weights); err != nil {
		return nil, fmt.Errorf("weights of arena %s: %w", a.ID, err)
	}
	return target, nil
}

// fixedTarget is the vector that an operator gives an arena; nil where it gives
// none, or nobody of it is on the subnet.
func (p *Platform) fixedTarget(ctx context.Context, a agon.Arena) (*client.Target, error) {
	c := p.cfg.Coordinators[a.Kind]
	if c == nil {
		return nil, nil
	}
	list, err := c.FixedWeights(ctx, a)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	g, err := p.ledgerOf(a).Metagraph(ctx, a.Netuid)
	if err != nil {
		return nil, ledgerError(err)
	}
	uids, there := map[string]uint16{}, map[uint16]bool{}
	for _, n := range g.Neurons {
		uids[n.Hotkey], there[n.UID] = n.UID, true
	}
	weights := make([]float64, ledger.MaxUID+1)
	sum := 0.0
	for _, x := range list {
		uid, ok := x.UID, there[x.UID]
		if x.Hotkey != "" {
			uid, ok = uids[x.Hotkey]
		}
		if ok {
			weights[uid] += x.Weight
			sum += x.Weight
		}
	}
	if sum == 0 {
		return nil, nil
	}
	for i := range weights {
		weights[i] /= sum
	}
	t := &client.Target{Netuid: a.Netuid}
	if t.UIDs, t.Values, err = ledger.NormalizeWeights(weights); err != nil {
		return nil, fmt.Errorf("weights of arena %s: %w", a.ID, err)
	}
	return t, nil
}

// exactTarget is the vector of a rule that gives it whole.
func (p *Platform) exactTarget(ctx context.Context, a agon.Arena, rule incentive.Rule, seats []incentive.Entry) (*client.Target, error) {
	g, err := p.ledgerOf(a).Metagraph(ctx, a.Netuid)
	if err != nil {
		return nil, ledgerError(err)
	}
	var hotkeys []string
	for _, n := range g.Neurons {
		for len(hotkeys) <= int(n.UID) {
			hotkeys = append(hotkeys, "")
		}
		hotkeys[n.UID] = n.Hotkey
	}
	weights, err := rule.Weights(rule.Of(a.IncentiveNumbers), seats, hotkeys)
	if err != nil {
		return nil, fmt.Errorf("weights of arena %s: %w", a.ID, err)
	}
	target := &client.Target{Netuid: a.Netuid, UIDs: []uint16{}, Values: []uint16{}}
	for uid, w := range weights {
		if w > 0 {
			target.UIDs, target.Values = append(target.UIDs, uint16(uid)), append(target.Values, w)
		}
	}
	return target, nil
}

// nobody says why no seat of an arena is taken; "" while there may come somebody.
func nobody(tx *store.Tx, arena string) (string, error) {
	list, err := tx.Entries(store.EntryFilter{Arena: arena, Limit: 200})
	if err != nil {
		return "", err
	}
	played, scripted := 0, 0
	for _, e := range list {
		switch e.State {
		case agon.SubmissionQueued, agon.SubmissionPlaying:
			return "", nil
		case agon.SubmissionScored:
			played++
			if e.Scripted {
				scripted++
			}
		}
	}
	switch {
	case len(list) == 0:
		return "", nil
	case played > 0 && played == scripted:
		return "every entry that was played asked the stand-in script, which never takes a seat", nil
	}
	return "no entry has taken the seat", nil
}
