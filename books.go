package agon

import "time"

// BookOp is a kind of entry in the gateway's books.
type BookOp string

// The entries of an account, in the order of its life.
const (
	BookOpen    BookOp = "open"    // Amount is the limit
	BookReserve BookOp = "reserve" // Amount is held for Call
	BookSettle  BookOp = "settle"  // Call ends; Amount was booked, Receipt proves it
	BookClose   BookOp = "close"   // the last session of the account has ended
	BookSeal    BookOp = "seal"    // the attempt is closed: no account of it opens again
)

// BookEntry is one line of the gateway's books. A store applies entries in
// order; applying one twice is the caller's mistake.
type BookEntry struct {
	Op      BookOp
	Run     string
	Attempt int
	Account string
	Call    string
	Amount  Budget
	At      time.Time
	Receipt *Receipt // of a settled call; nil where it was released unused
}

// BookAccount is an account as a store holds it.
type BookAccount struct {
	Name     string
	Limit    Budget
	Spent    Budget
	OpenedAt time.Time
	Closed   bool
	Holds    map[string]Budget // by call: reserved and not settled
}

// RunBooks is what a store holds of one attempt: its accounts and the last
// receipt of its chain.
type RunBooks struct {
	Run      string
	Attempt  int
	Accounts []BookAccount
	Last     *Receipt
	Sealed   bool // its statement is signed
}
