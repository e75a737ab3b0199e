package platform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/gateway"
)

// paying is an arena where an entry costs 1,000 micro-dollars, and its challenger
// pays for the pairs, at most 20,000.
type paying struct {
	*fixture
	books *gateway.Books
}

const entryFee, pairsMost = 1000, 20_000

func payingArena(t *testing.T, change ...func(*agon.Arena)) *paying {
	t.Helper()
	k, _, err := gateway.OpenKey(t.TempDir())
	must(t, err)
	b, err := gateway.NewBooks(bg, gateway.BooksConfig{Key: k})
	must(t, err)
	own := lone()
	own[incentive.NumMaxUSD], own[incentive.NumMaxPairs] = pairsMost/1e6, 64
	f := pairedArena(t, 1, own)
	f.arena.Policy.Gateway, f.arena.Policy.GatewayKey = "https://gateway.example", b.Signer()
	f.arena.Charges = agon.Charges{EntryFee: entryFee, PairsPaidBy: agon.PaidByChallenger}
	for _, c := range change {
		c(&f.arena)
	}
	must(t, f.EnsureArena(bg, f.arena))
	return &paying{f, b}
}

func (f *paying) fund(coldkey string, m agon.Micros, payment string) {
	f.t.Helper()
	_, err := f.Fund(bg, Caller{Hotkey: "operator", Operator: true}, coldkey, m, payment, "by transfer")
	must(f.t, err)
}

func (f *paying) balance(coldkey string) agon.Micros {
	f.t.Helper()
	p, err := f.Purse(bg, Caller{Operator: true}, coldkey)
	must(f.t, err)
	sum := agon.Micros(0)
	for _, x := range p.Postings {
		sum += x.Micros
	}
	if sum != p.Balance || p.Balance < 0 {
		f.t.Fatalf("a purse of %d whose postings sum to %d", p.Balance, sum)
	}
	return p.Balance
}

// play plays all that val1 gets: one call of 5 micro-dollars each.
func (f *paying) play(value func(l *client.Lease) float64) {
	f.t.Helper()
	for l := f.claim(val1); l != nil; l = f.claim(val1) {
		r := scored(l, value(l))
		r.Receipts, r.Statement = called(f.t, f.books, l.Run.Run, l.Attempt, 1)
		r.Cost = r.Statement.Cost
		f.result(val1, l, r)
	}
}

func (f *paying) shown(id string) *client.Submission {
	f.t.Helper()
	s, err := f.Submission(bg, Caller{}, id)
	must(f.t, err)
	return s
}

// An entry takes its fee and what its pairs may cost; decided, it has cost the fee
// and the counted plays of both sides, however often it is settled.
func TestChallengerPays(t *testing.T) {
	f := payingArena(t)
	one, two := f.ledger.coldkey[miner1], f.ledger.coldkey[miner2]
	enter := func(miner, content string) (*client.Submission, error) {
		return f.Submit(bg, Caller{Hotkey: miner}, "demo", request(content))
	}
	_, err := enter(miner1, "a")
	if e := wantCode(t, err, 402, "purse"); !strings.Contains(e.Message, "$0.021") {
		t.Error(e.Message)
	}
	f.fund(one, 2*(entryFee+pairsMost)-1, "t1") // for one entry, and not for a second
	a, err := enter(miner1, "a")
	must(t, err)
	if got := f.balance(one); got != entryFee+pairsMost-1 {
		t.Errorf("held: %d left", got)
	}
	if p := f.shown(a.ID).Paid; p == nil || p.Fee != entryFee || p.Held != pairsMost {
		t.Errorf("shown as %+v", p)
	}
	if again, err := enter(miner1, "a"); err != nil || again.ID != a.ID || f.balance(one) != entryFee+pairsMost-1 {
		t.Errorf("the same bytes again: %v, %d left", err, f.balance(one))
	}
	_, err = enter(miner1, "b") // one balance pays once
	wantCode(t, err, 402, "purse")
	f.play(func(*client.Lease) float64 { return 1 })
	var cost agon.Micros
	f.read(func(tx *store.Tx) (err error) {
		cost, err = tx.PairsCost(a.ID)
		return err
	})
	if f.decision(a.ID).Outcome != agon.TookSeat || cost == 0 {
		t.Fatalf("%+v, cost %d", f.decision(a.ID), cost)
	}
	left := 2*(entryFee+pairsMost) - 1 - entryFee - cost
	if got := f.balance(one); got != left {
		t.Errorf("decided: %d left, want %d", got, left)
	}
	f.fund(two, entryFee+pairsMost, "t2")
	b, err := enter(miner2, "b")
	must(t, err)
	f.play(func(l *client.Lease) float64 { return map[bool]float64{true: 1, false: 0.5}[l.Submission.ID == a.ID] })
	f.read(func(tx *store.Tx) (err error) {
		cost, err = tx.PairsCost(b.ID)
		return err
	})
	n := f.decision(b.ID).Numbers["pairs"]
	if want := agon.Micros(2 * 5 * n); cost != want || f.balance(two) != pairsMost-cost || f.balance(one) != left {
		t.Errorf("%v pairs cost %d, want %d; purses %d and %d", n, cost, want, f.balance(two), f.balance(one))
	}
	for range 3 {
		must(t, f.cfg.Store.Write(bg, func(tx *store.Tx) error { return f.settlePurse(tx, b.ID) }))
	}
	if f.balance(two) != pairsMost-cost {
		t.Errorf("settled again: %d", f.balance(two))
	}
	if s := f.fairness(f.arena); !strings.Contains(s, "challenger pays") || !strings.Contains(s, "at most $0.02 an entry") || !strings.Contains(s, "$0.001 from the purse") {
		t.Error(s)
	}
	checkInvariants(t, f.cfg.Store)
}

// lose has every lease end by a fault of ours.
func (f *paying) lose() {
	for l := f.claim(val1); l != nil; l = f.claim(val1) {
		f.result(val1, l, client.Result{Token: l.Token, Outcome: "lost", Fault: agon.FaultProvider, Reason: "down", Cost: 7, Driver: agon.Driver{Name: "runc"}})
	}
}

// A fault of ours gives everything back, once, and shows it; playing again takes it
// again, and is refused where the money has gone elsewhere meanwhile.
func TestFaultGivesMoneyBackOnce(t *testing.T) {
	f := payingArena(t)
	one := f.ledger.coldkey[miner1]
	const all = entryFee + pairsMost
	f.fund(one, all, "t1")
	s := f.submit(miner1, "a")
	if f.balance(one) != 0 {
		t.Fatal("nothing was held")
	}
	f.lose()
	if v := f.shown(s.ID); f.balance(one) != all || v.Credit == nil || v.Credit.Back != all || v.Paid.Held != 0 {
		t.Fatalf("%d, credit %+v, paid %+v", f.balance(one), v.Credit, v.Paid)
	}
	// Sent again it is played again, for the same money.
	if v := f.submit(miner1, "a"); v.State != agon.SubmissionPlaying || f.balance(one) != 0 {
		t.Fatalf("%s with %d left", v.State, f.balance(one))
	}
	f.lose()
	if f.balance(one) != all {
		t.Fatalf("given back the second time: %d", f.balance(one))
	}
	// The money is spent on another entry: both cannot have it.
	other := f.submit(miner1, "b")
	_, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("a"))
	wantCode(t, err, 402, "purse")
	_, err = f.Retry(bg, Caller{Hotkey: "operator", Operator: true}, s.ID, "the provider is back")
	wantCode(t, err, 402, "purse")
	if v := f.shown(s.ID); v.State != agon.SubmissionExcluded {
		t.Errorf("%s after a refusal", v.State)
	}
	// An appeal of what was given back already gives nothing.
	_, err = f.Appeal(bg, Caller{Hotkey: miner1}, s.ID, "again")
	must(t, err)
	f.clock.add(100 * time.Hour)
	must(t, f.periods(bg))
	if f.balance(one) != 0 {
		t.Errorf("a second refund by appeal: %d", f.balance(one))
	}
	must(t, f.Ban(bg, Caller{Hotkey: "operator", Operator: true}, other.ID, "why not"))
	if got := f.balance(one); got != pairsMost {
		t.Errorf("a ban gives back what was not played for, not the fee: %d", got)
	}
}

// A granted appeal gives the money back, but not to who took the seat: silence of
// the operator must not make a seat free.
func TestAppealGivesMoneyBack(t *testing.T) {
	f := payingArena(t)
	one, two := f.ledger.coldkey[miner1], f.ledger.coldkey[miner2]
	f.fund(one, entryFee+pairsMost, "t1")
	f.fund(two, entryFee+pairsMost, "t2")
	a := f.submit(miner1, "a")
	f.play(func(*client.Lease) float64 { return 1 })
	b := f.submit(miner2, "b")
	f.play(func(l *client.Lease) float64 { return map[bool]float64{true: 1, false: 0.2}[l.Submission.ID == a.ID] })
	before := f.balance(one)
	if f.balance(two) >= entryFee+pairsMost || f.decision(a.ID).Outcome != agon.TookSeat {
		t.Fatal("nothing was charged")
	}
	for m, id := range map[string]string{miner1: a.ID, miner2: b.ID} {
		_, err := f.Appeal(bg, Caller{Hotkey: m}, id, "the model was down")
		must(t, err)
	}
	f.clock.add(73 * time.Hour)
	must(t, f.periods(bg))
	must(t, f.periods(bg))
	if v := f.shown(b.ID); f.balance(two) != entryFee+pairsMost || v.Credit == nil || v.Credit.Back == 0 {
		t.Errorf("granted: %d, %+v", f.balance(two), v.Credit)
	}
	if v := f.shown(a.ID); f.balance(one) != before || v.Credit != nil && v.Credit.Back != 0 {
		t.Errorf("who sits got %d back: %+v", f.balance(one)-before, v.Credit)
	}
}

// A payment counts once, only the operator books, and nobody reads a stranger's purse.
func TestFund(t *testing.T) {
	f := payingArena(t)
	one := f.ledger.coldkey[miner1]
	op := Caller{Hotkey: "operator", Operator: true}
	f.fund(one, 500, "0xab-1")
	for name, c := range map[string]struct {
		by      Caller
		m       agon.Micros
		payment string
		status  int
		code    string
	}{
		"a miner":       {Caller{Hotkey: miner1}, 1, "p", 403, "not_operator"},
		"twice":         {op, 500, "0xab-1", 409, "paid"},
		"twice, spaced": {op, 500, " 0xab-1 ", 409, "paid"},
		"unnamed":       {op, 500, "  ", 422, "bad_payment"},
		"nothing":       {op, 0, "p", 422, "bad_micros"},
		"too much":      {op, agon.MostMoney + 1, "p", 422, "bad_micros"},
		"more out":      {op, -501, "p", 409, "purse"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Fund(bg, c.by, one, c.m, c.payment, "why")
			wantCode(t, err, c.status, c.code)
		})
	}
	f.fund(one, -500, "out")
	if f.balance(one) != 0 {
		t.Errorf("%d left", f.balance(one))
	}
	if p, err := f.Purse(bg, Caller{Hotkey: miner1}, "mine"); err != nil || p.Coldkey != one || len(p.Postings) != 2 {
		t.Errorf("one's own: %+v %v", p, err)
	}
	for _, c := range []Caller{{Hotkey: miner2}, {}, {Hotkey: val1}} {
		_, err := f.Purse(bg, c, one)
		wantCode(t, err, 403, "not_coldkey")
	}
}

// What no challenger could be charged for is refused when the arena opens.
func TestChargesThatNobodyKeeps(t *testing.T) {
	f := payingArena(t)
	for name, change := range map[string]func(*agon.Arena){
		"no gateway":   func(a *agon.Arena) { a.Policy.Gateway = "" },
		"no cap":       func(a *agon.Arena) { a.IncentiveNumbers = lone() },
		"no pairs":     func(a *agon.Arena) { a.Incentive, a.IncentiveNumbers = incentive.WinnerTakesAllRule, nil },
		"negative fee": func(a *agon.Arena) { a.EntryFee = -1 },
		"a word":       func(a *agon.Arena) { a.PairsPaidBy = "the miner" },
		// 16 pairs of two sides with a budget of a dollar each are $32.
		"a champion could spend it": func(a *agon.Arena) { a.Policy.Budget.Micros = 1_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			a := f.arena
			change(&a)
			if err := f.EnsureArena(bg, a); err == nil || !strings.Contains(fmt.Sprint(err), "pairs_paid_by") && !strings.Contains(fmt.Sprint(err), "entry_fee") {
				t.Errorf("taken: %v", err)
			}
		})
	}
}

// A burnt fee pays for one submission; a fault of ours gives it back, and then what
// it paid for is not played again for nothing.
func TestBurntFeeBack(t *testing.T) {
	f := pairedArena(t, 1, lone())
	burn := func(ref string) func(*store.Tx, store.Entry) error {
		return func(tx *store.Tx, e store.Entry) error {
			return BurnFee(tx, e.ID, agon.Fee{Ref: ref, Amount: 1000, Unit: "alpha_rao"})
		}
	}
	enter := func(content, ref string) (*client.Submission, error) {
		return f.Enter(bg, Caller{Hotkey: miner1}, "demo", request(content), burn(ref))
	}
	s, err := enter("a", "burn-1")
	must(t, err)
	_, err = enter("b", "burn-1")
	wantCode(t, err, 409, "paid")
	none, err := f.FeesBack(bg, "demo", miner1)
	if err != nil || len(none) != 0 {
		t.Errorf("while it plays: %v %v", none, err)
	}
	for l := f.claim(val1); l != nil; l = f.claim(val1) {
		f.result(val1, l, failedBy(l, agon.FaultProvider))
	}
	v, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if v.Credit == nil || len(v.Credit.Fees) != 1 || v.Credit.Fees[0].Ref != "burn-1" || v.Credit.Fees[0].Back {
		t.Fatalf("%+v", v.Credit)
	}
	for range 2 {
		back, err := f.FeesBack(bg, "demo", miner1)
		if err != nil || len(back) != 1 || back[0].Amount != 1000 {
			t.Fatalf("%v %v", back, err)
		}
	}
	if other, err := f.FeesBack(bg, "demo", miner2); err != nil || len(other) != 0 {
		t.Errorf("another's: %v %v", other, err)
	}
	_, err = f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("a"))
	wantCode(t, err, 409, "given_back")
}

// What was banned is not played again because its miner sends it again.
func TestBannedIsNotRevived(t *testing.T) {
	f := payingArena(t)
	one := f.ledger.coldkey[miner1]
	f.fund(one, entryFee+pairsMost, "t1")
	s := f.submit(miner1, "a")
	f.lose()
	must(t, f.Ban(bg, Caller{Hotkey: "operator", Operator: true}, s.ID, "it copied hidden tests"))
	if v := f.submit(miner1, "a"); v.State != agon.SubmissionExcluded || v.Credit != nil && v.Credit.Quota {
		t.Errorf("%s, credit %+v", v.State, v.Credit)
	}
}
