package agon

// What becomes of near-copies of public work.
const (
	// NearCopiesCharge counts them as one with what they copy: their attempts add up.
	NearCopiesCharge = "charge"
	// NearCopiesExclude keeps them out of the contest.
	NearCopiesExclude = "exclude"
	// NearCopiesShare gives half of what they earn to the miner of what they copy.
	NearCopiesShare = "share"
)

// IsNearCopies reports whether an arena may say so (Arena.NearCopies).
func IsNearCopies(s string) bool {
	return s == "" || s == NearCopiesCharge || s == NearCopiesExclude || s == NearCopiesShare
}
