package agent

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"
)

// raoPerTAO is how many rao a TAO has.
const raoPerTAO = 1_000_000_000

// amountAt says where in a call's arguments its amount is: so many bytes after the
// call's two numbers, eight bytes or a compact number. These are the calls of
// Bittensor's chain that move money, by their numbers at runtimes 365 to 424.
type amountAt struct {
	offset  int
	compact bool
	alpha   bool // the amount is alpha: it counts for its own limit, not for a day's
}

var amounts = map[[2]byte]amountAt{
	{5, 0}: {offset: 33, compact: true}, {5, 3}: {offset: 33, compact: true}, // transfers: a kind, an account
	{7, 2}: {offset: 34}, {7, 88}: {offset: 34}, {7, 132}: {offset: 34}, {7, 134}: {offset: 34}, // add_stake, add_stake_limit, add_stake_burn, register_limit
	{7, 3}: {offset: 34, alpha: true}, {7, 89}: {offset: 34, alpha: true}, // remove_stake, remove_stake_limit
	{7, 101}: {offset: 32, alpha: true}, {7, 102}: {offset: 32, alpha: true}, // recycle_alpha, burn_alpha
}

// read is the amount in a payload; ok is false where it is too short for one, or
// its account is of a form that has another length.
func (x amountAt) read(payload []byte) (rao uint64, ok bool) {
	b := payload[2:]
	if len(b) < x.offset+8 || x.compact && b[0] != 0 {
		return 0, false
	}
	b = b[x.offset:]
	if !x.compact {
		return binary.LittleEndian.Uint64(b), true
	}
	switch b[0] & 3 {
	case 0:
		return uint64(b[0] >> 2), true
	case 1:
		return uint64(binary.LittleEndian.Uint16(b) >> 2), true
	case 2:
		return uint64(binary.LittleEndian.Uint32(b) >> 2), true
	}
	n := int(b[0]>>2) + 4
	if n > 8 || len(b) < 1+n {
		return 0, false
	}
	var wide [8]byte
	copy(wide[:], b[1:1+n])
	return binary.LittleEndian.Uint64(wide[:]), true
}

// parseTAO reads an amount with up to nine decimals.
func parseTAO(s string) (uint64, error) {
	whole, rest, _ := strings.Cut(s, ".")
	bad := fmt.Errorf("%q: want TAO with up to nine decimals, such as 2.5", s)
	if whole == "" || len(whole) > 8 || len(rest) > 9 {
		return 0, bad
	}
	var rao uint64
	for _, c := range whole + rest + strings.Repeat("0", 9-len(rest)) {
		if c < '0' || c > '9' {
			return 0, bad
		}
		rao = 10*rao + uint64(c-'0')
	}
	return rao, nil
}

// inTAO is an amount as people write it.
func inTAO(rao uint64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%09d", rao/raoPerTAO, rao%raoPerTAO), "0"), ".")
}

// over says why a call's amount is over its limit; "" = it is not. The amount is in TAO's rao; 0 for a call without one.
func (p Policy) over(payload []byte) (rao uint64, why string) {
	call := [2]byte(payload)
	x, known := amounts[call]
	limit, limited := p.limits[call]
	if !known {
		return 0, ""
	}
	if !limited && p.perDay == 0 {
		return 0, ""
	}
	rao, ok := x.read(payload)
	switch {
	case !ok:
		return 0, fmt.Sprintf("the amount of call %d.%d cannot be read", call[0], call[1])
	case limited && rao > limit:
		return 0, fmt.Sprintf("call %d.%d moves %s: at most %s", call[0], call[1], inTAO(rao), inTAO(limit))
	case x.alpha:
		return 0, ""
	}
	return rao, ""
}

// spending is what keys have moved within a day.
type spending struct {
	mu   sync.Mutex
	list []spent // oldest first; guarded by mu
}

type spent struct {
	at  time.Time
	by  string // the client; "": the agent's own policy
	key string
	rao uint64
}

// scope is a policy and whom it bounds: a client, or with "" everybody.
type scope struct {
	by     string
	policy *Policy
}

// spend counts an amount under each policy that bounds a day, or says that it would
// be more than a day's under one of them: then it counts under none. What is signed
// counts, whether or not a chain ever takes it.
func (s *spending) spend(key string, rao uint64, under []scope, now time.Time) (why string) {
	if rao == 0 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.list) > 0 && now.Sub(s.list[0].at) >= 24*time.Hour {
		s.list = s.list[1:]
	}
	for _, u := range under {
		perDay := u.policy.perDay
		if perDay == 0 {
			continue
		}
		var sum uint64
		for _, x := range s.list {
			if x.key == key && x.by == u.by {
				sum += x.rao
			}
		}
		if rao > perDay || sum > perDay-rao {
			return fmt.Sprintf("%s TAO are asked for, %s were signed for within a day: at most %s", inTAO(rao), inTAO(sum), inTAO(perDay))
		}
	}
	for _, u := range under {
		if u.policy.perDay > 0 {
			s.list = append(s.list, spent{now, u.by, key, rao})
		}
	}
	return ""
}
