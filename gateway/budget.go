package gateway

import (
	"fmt"
	"math"

	"github.com/agon-arena/agon"
)

// Amount is what a call may cost or did cost. All parts are ≥ 0.
type Amount struct {
	Micros agon.Micros `json:"micros"`
	Calls  int64       `json:"calls"`
	Tokens int64       `json:"tokens"`
}

// ErrBudget is returned by Reserve when an account cannot carry a call.
type ErrBudget struct {
	What string // money, calls, tokens or time: the first that is short
	Left Amount // what is neither spent nor held
}

func (e *ErrBudget) Error() string {
	return fmt.Sprintf("reserve %s: %d micro-dollars, %d calls and %d tokens are left", e.What, e.Left.Micros, e.Left.Calls, e.Left.Tokens)
}

// Account is one budget: pure arithmetic, no clock, no lock, no I/O. Its
// invariant is spent + held ≤ limit in money, calls and tokens, at every
// moment, whatever is asked of it.
type Account struct {
	limit Amount
	spent Amount
	held  Amount            // sum of open
	open  map[string]Amount // reservations by call
	over  Amount            // used beyond reservations: the platform's loss, never the account's
}

// NewAccount opens an account. A limit of 0 tokens means no limit of tokens;
// 0 money and 0 calls mean none.
func NewAccount(b agon.Budget) (*Account, error) {
	if b.Micros < 0 || b.Calls < 0 || b.Tokens < 0 || b.TimeMS < 0 {
		return nil, fmt.Errorf("open account: budget %+v is negative", b)
	}
	if b.Tokens == 0 {
		b.Tokens = math.MaxInt64
	}
	return &Account{limit: Amount{b.Micros, b.Calls, b.Tokens}, open: map[string]Amount{}}, nil
}

// Left is what is neither spent nor held.
func (a *Account) Left() Amount {
	return Amount{
		Micros: a.limit.Micros - a.spent.Micros - a.held.Micros,
		Calls:  a.limit.Calls - a.spent.Calls - a.held.Calls,
		Tokens: a.limit.Tokens - a.spent.Tokens - a.held.Tokens,
	}
}

// Spent is what was settled, Over what providers used beyond reservations.
func (a *Account) Spent() Amount { return a.spent }

// Over is what calls used beyond their reservations.
func (a *Account) Over() Amount { return a.over }

// Open is the number of reservations that have not been settled.
func (a *Account) Open() int { return len(a.open) }

// Reserve holds want for the call id, or returns *ErrBudget and holds nothing.
func (a *Account) Reserve(id string, want Amount) error {
	if want.Micros < 0 || want.Calls < 0 || want.Tokens < 0 {
		return fmt.Errorf("reserve for %s: amount %+v is negative", id, want)
	}
	if _, ok := a.open[id]; ok {
		return fmt.Errorf("reserve for %s: it is open already", id)
	}
	// Subtractions of values between 0 and the limit cannot overflow; a sum could.
	left := a.Left()
	switch {
	case want.Calls > left.Calls:
		return &ErrBudget{What: "calls", Left: left}
	case want.Micros > left.Micros:
		return &ErrBudget{What: "money", Left: left}
	case want.Tokens > left.Tokens:
		return &ErrBudget{What: "tokens", Left: left}
	}
	a.open[id] = want
	a.held = Amount{a.held.Micros + want.Micros, a.held.Calls + want.Calls, a.held.Tokens + want.Tokens}
	return nil
}

// Settle ends the reservation of id and books what was used, clamped to
// between 0 and the reservation. It returns what was booked. The zero Amount
// releases the reservation.
func (a *Account) Settle(id string, used Amount) (Amount, error) {
	r, ok := a.open[id]
	if !ok {
		return Amount{}, fmt.Errorf("settle %s: it is not open", id)
	}
	delete(a.open, id)
	a.held = Amount{a.held.Micros - r.Micros, a.held.Calls - r.Calls, a.held.Tokens - r.Tokens}
	b := Amount{
		Micros: min(max(used.Micros, 0), r.Micros),
		Calls:  min(max(used.Calls, 0), r.Calls),
		Tokens: min(max(used.Tokens, 0), r.Tokens),
	}
	a.spent = Amount{a.spent.Micros + b.Micros, a.spent.Calls + b.Calls, a.spent.Tokens + b.Tokens}
	a.over.Micros = agon.Micros(addCapped(int64(a.over.Micros), max(0, int64(used.Micros)-int64(b.Micros))))
	a.over.Tokens = addCapped(a.over.Tokens, max(0, used.Tokens-b.Tokens))
	return b, nil
}

// addCapped adds two values ≥ 0 and stops at the largest.
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// UpperBound is the most that so many runs with this budget can cost in
// micro-dollars: what a keyed run prints before it starts. Each attempt of a
// run has the budget anew and counts as one; judges are paid by the platform.
// The gateway's own probes of a failing provider, and what a provider bills
// beyond the limits that it was given, come on top.
func UpperBound(b agon.Budget, runs int) agon.Micros {
	if b.Micros <= 0 || runs <= 0 {
		return 0
	}
	if int64(b.Micros) > math.MaxInt64/int64(runs) {
		return math.MaxInt64
	}
	return b.Micros * agon.Micros(runs)
}
