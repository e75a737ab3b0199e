package client

import "github.com/agon-arena/agon"

// BoardRow is one line of a leaderboard.
type BoardRow struct {
	ID         string               `json:"id"`
	Name       string               `json:"name"`
	Miner      string               `json:"miner"`
	Score      *float64             `json:"score"`
	Solved     *int                 `json:"solved"`
	Total      *int                 `json:"total"`
	CostMicros agon.Micros          `json:"cost_micros"`
	State      agon.SubmissionState `json:"state"`
	Scripted   bool                 `json:"scripted"`

	Low  *float64 `json:"low,omitempty" doc:"the 95 % interval of the score over the set; absent where there is none, and behind the first 100"`
	High *float64 `json:"high,omitempty"`
	Tier int      `json:"tier,omitempty" doc:"from 1: those of one tier cannot be told apart (tier_test of the board); absent where it is not worked out, and behind the first 100"`
	Zero string   `json:"zero,omitempty" doc:"why the score is 0: how the runs ended"`

	Qualified      *bool  `json:"qualified,omitempty" doc:"whether every task is solved; absent until it is decided"`
	ExcludedReason string `json:"excluded_reason,omitempty" doc:"why it is not played: a copy, refused, incomplete"`
}

// BoardDecision is a decision as the board shows it.
type BoardDecision struct {
	Challenger string             `json:"challenger"`
	Incumbent  string             `json:"incumbent,omitempty"`
	Bar        *float64           `json:"bar"`
	Score      float64            `json:"score"`
	Outcome    string             `json:"outcome"`
	Rule       string             `json:"rule"`
	Numbers    map[string]float64 `json:"numbers,omitempty"`
	Sentence   string             `json:"sentence,omitempty" doc:"the decision in words"`
}
