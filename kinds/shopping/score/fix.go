package score

import (
	"strings"
)

// Fix is a set of faults of ORO's scorer that are mended.
type Fix uint32

// The faults, each by name. The comment says what ORO's scorer does.
const (
	FixMalformedStep   Fix = 1 << iota // a malformed step costs a right answer its score
	FixNumericIDs                      // numeric product_ids count as no answer
	FixWipedAnswer                     // a later call without usable product_ids wipes the answer
	FixEncoder                         // without an encoder title constraints vanish
	FixLookup                          // a failed lookup counts as a product that does not exist
	FixThreshold                       // a total that equals the threshold uses a voucher that wants it exceeded
	FixNullCap                         // a percentage voucher without a cap ends without a score
	FixResultTags                      // tags inside a tool's result spoil the agent's format
	FixBoolTime                        // true is a time
	FixUnknownCategory                 // an unknown category is scored as Product
	FixJudgeFailure                    // a failed judge counts as quality 0
	fixEnd
)

// The two modes.
const (
	Compat Fix = 0
	Strict     = fixEnd - 1
)

var fixNames = [...]string{
	"malformed-step", "numeric-ids", "wiped-answer", "missing-encoder", "failed-lookup", "threshold-equality", "null-cap",
	"result-tags", "boolean-time", "unknown-category", "judge-failure",
}

func (f Fix) has(one Fix) bool { return f&one != 0 }

// String names the mode, or the fixes.
func (f Fix) String() string {
	switch f {
	case Compat:
		return "compat"
	case Strict:
		return "strict"
	}
	var names []string
	for i, name := range fixNames {
		if f.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// ParseFix reads what String writes.
func ParseFix(s string) (Fix, bool) {
	switch s {
	case "compat":
		return Compat, true
	case "strict":
		return Strict, true
	}
	var f Fix
	for name := range strings.SplitSeq(s, ",") {
		known := false
		for i, n := range fixNames {
			if n == name {
				f |= 1 << i
				known = true
			}
		}
		if !known {
			return 0, false
		}
	}
	return f, true
}
