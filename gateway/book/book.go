// Package book holds the words of the gateway's books: what a gateway writes
// and a store keeps. It does no I/O.
package book

import (
	"time"

	"github.com/agon-arena/agon"
)

// Op is a kind of entry in the gateway's books.
type Op string

// The entries of an account, in the order of its life.
const (
	Open    Op = "open"    // Amount is the limit
	Reserve Op = "reserve" // Amount is held for Call
	Settle  Op = "settle"  // Call ends; Amount was booked, Receipt proves it
	Close   Op = "close"   // the last session of the account has ended
	Seal    Op = "seal"    // the attempt is closed: no account of it opens again
)

// Entry is one line of the gateway's books. A store applies entries in
// order; applying one twice is the caller's mistake.
type Entry struct {
	Op      Op
	Run     string
	Attempt int
	Account string
	Call    string
	Amount  agon.Budget
	At      time.Time
	Receipt *agon.Receipt // of a settled call; nil where it was released unused
}

// Account is an account as a store holds it.
type Account struct {
	Name     string
	Limit    agon.Budget
	Spent    agon.Budget
	OpenedAt time.Time
	Closed   bool
	Holds    map[string]agon.Budget // by call: reserved and not settled
}

// Run is what a store holds of one attempt: its accounts and the last
// receipt of its chain.
type Run struct {
	Run      string
	Attempt  int
	Accounts []Account
	Last     *agon.Receipt
	Sealed   bool // its statement is signed
}
