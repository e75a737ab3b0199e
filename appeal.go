package agon

import "time"

// Appeal is a miner's objection to how a submission was played.
type Appeal struct {
	Submission string    `json:"submission"`
	Arena      string    `json:"arena"`
	Miner      string    `json:"miner"`
	Reason     string    `json:"reason"`
	State      string    `json:"state"` // open, granted, denied
	At         time.Time `json:"at"`
	// Deadline is until when the operator answers; an appeal without an answer is granted then.
	Deadline   time.Time `json:"deadline"`
	AnsweredAt time.Time `json:"answered_at,omitzero"`
	Answer     string    `json:"answer,omitempty"`
	// Compared is what playing again by others came to.
	Compared Comparison `json:"compared"`
	// Alone: at most one validator serves the arena now, and what is played again waits
	// for a second.
	Alone bool `json:"alone,omitempty"`
}

// States of an appeal.
const (
	AppealOpen    = "open"
	AppealGranted = "granted"
	AppealDenied  = "denied"
)

// Comparison sets the counted plays of a submission beside those of its appeal.
type Comparison struct {
	Tasks    int     `json:"tasks"`    // that were played again
	Played   int     `json:"played"`   // of them, that have ended with a score
	Same     int     `json:"same"`     // with the same score
	Requests int     `json:"requests"` // where the receipts show the same requests to models and tools
	Before   float64 `json:"before"`   // mean score of the played ones as counted
	After    float64 `json:"after"`    // and as played again
}

// Credit is what a fault of ours, or a granted appeal, gives back.
type Credit struct {
	Quota   bool   `json:"quota"`   // the entry does not count against the coldkey's daily number
	Attempt bool   `json:"attempt"` // nor as an attempt that is charged with alpha
	Micros  Micros `json:"micros"`  // money of attempts that we lost, which nobody is charged with
	// Back is money of the coldkey that went back to its purse: the fee, and what its pairs cost.
	Back Micros `json:"back_micros,omitempty"`
	// Fees are fees burnt on a ledger, each given back as one free entry of that way in.
	Fees []Fee  `json:"fees,omitempty"`
	Why  string `json:"why"`
}

// Fee is what was burnt on a ledger for a submission, or an entry given for free
// that it used up.
type Fee struct {
	Ref    string `json:"ref"`              // of the payment; one payment pays for one submission
	Amount int64  `json:"amount,omitempty"` // in Unit; 0: an entry that was free
	Unit   string `json:"unit,omitempty"`   // such as alpha_rao
	Back   bool   `json:"back,omitempty"`   // the free entry has been made out
}
