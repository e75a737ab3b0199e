package agon

import "time"

// Charges is what an arena takes from the purse of a coldkey that enters: money
// that the operator holds for it, in micro-dollars.
type Charges struct {
	// EntryFee is what every entry costs; 0: nothing.
	EntryFee Micros `json:"entry_fee_micros,omitempty"`
	// PairsPaidBy says who pays for the pairs of an entry: PaidByGateway (also where it
	// is empty) or PaidByChallenger.
	PairsPaidBy string `json:"pairs_paid_by,omitempty"`
}

// Who pays for pairs.
const (
	// PaidByGateway: who runs the gateway pays, as for every other play.
	PaidByGateway = "gateway"
	// PaidByChallenger: the purse of the challenger's coldkey pays. The entry holds the
	// rule's max_usd. What the pairs did not cost is given back.
	PaidByChallenger = "challenger"
)

// IsPairsPaidBy reports whether s is a value of Charges.PairsPaidBy.
func IsPairsPaidBy(s string) bool { return s == "" || s == PaidByGateway || s == PaidByChallenger }

// MostMoney bounds one payment into a purse, and a fee: a million dollars.
const MostMoney Micros = 1_000_000_000_000

// Posting is one movement of a purse.
type Posting struct {
	N          int64  `json:"n"`
	What       string `json:"what"`   // PostPayment, PostFee, PostHold, PostBack
	Micros     Micros `json:"micros"` // what the balance changes by
	Submission string `json:"submission,omitempty"`
	// Payment names what was paid with outside, once: the hash of a transfer, an invoice.
	Payment string    `json:"payment,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
}

// What moves a purse.
const (
	PostPayment = "payment" // in, or out again, by the operator
	PostFee     = "fee"     // of an entry
	PostHold    = "hold"    // for the pairs of an entry, the most that they may cost
	PostBack    = "back"    // what they did not cost, or what a fault of ours gives back
)

// Purse is the money that the operator holds for a coldkey.
type Purse struct {
	Coldkey  string    `json:"coldkey"`
	Balance  Micros    `json:"balance_micros"`
	Postings []Posting `json:"postings"` // newest first, at most 200
}

// Paid is what a submission has cost its coldkey so far.
type Paid struct {
	Fee Micros `json:"fee_micros"`
	// Held is what is kept for its pairs, or, when it is decided, what they cost.
	Held Micros `json:"held_micros"`
	// Back is what a fault of ours, or a granted appeal, has given back.
	Back Micros `json:"back_micros,omitempty"`
}
