package packfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// WindowBlocks is how long a window of evaluation is, in blocks of 12 s: a day.
const WindowBlocks = 7200

// Phases of a window.
const (
	PhaseEvaluation  = "evaluation"
	PhasePropagation = "propagation"
	PhaseAggregation = "aggregation"
)

// Window is where a block stands.
type Window struct {
	Number    int64  `json:"window"`
	Start     int64  `json:"start"`
	Offset    int64  `json:"offset"` // of the block in the window
	Phase     string `json:"phase"`
	Into      int64  `json:"into"`      // blocks of the phase that have passed
	Remaining int64  `json:"remaining"` // blocks of the phase that are left, this one included
}

// WindowRule cuts time. The zero value is the arena's: 7200 blocks, cut at 80
// and 90 per cent, from block 0.
type WindowRule struct {
	Anchor int64 // the first block of window 0; earlier blocks count as it
	Blocks int64 // of a window; at least 10
}

// At says where a block stands.
func (r WindowRule) At(block int64) Window {
	if r.Blocks <= 0 {
		r.Blocks = WindowBlocks
	}
	block = max(block, r.Anchor)
	w := Window{Number: (block - r.Anchor) / r.Blocks}
	w.Start = r.Anchor + w.Number*r.Blocks
	w.Offset = block - w.Start
	propagation, aggregation := r.Blocks*8/10, r.Blocks*9/10
	begin, end := int64(0), propagation
	w.Phase = PhaseEvaluation
	switch {
	case w.Offset >= aggregation:
		w.Phase, begin, end = PhaseAggregation, aggregation, r.Blocks
	case w.Offset >= propagation:
		w.Phase, begin, end = PhasePropagation, propagation, aggregation
	}
	w.Into, w.Remaining = w.Offset-begin, end-w.Offset
	return w
}

// Shows says whether payloads that were sealed may be shown: in the second half of
// propagation. In the first half they are sealed.
func (w Window) Shows() bool {
	return w.Phase == PhaseAggregation || w.Phase == PhasePropagation && w.Into >= (w.Into+w.Remaining)/2
}

// MaxCommitment bounds what goes on the ledger, in bytes.
const MaxCommitment = 128

// ConsensusPrefix begins a validator's pointer.
const ConsensusPrefix = "consensus:"

// Commitment is a miner's word on the ledger: this pack is mine, and lies there.
type Commitment struct {
	Hash string // 64 hex digits
	URL  string
}

var (
	hashForm = lazyregexp.New(`^[0-9a-f]{64}$`)
	urlForm  = lazyregexp.New(`^https?://\S+$`)
)

// ParseCommitment reads a commitment; ok is false where it is none.
func ParseCommitment(raw string) (c Commitment, ok bool) {
	if len(raw) > 4096 {
		return c, false
	}
	raw = strings.TrimFunc(raw, pySpace)
	if strings.HasPrefix(raw, ConsensusPrefix) {
		return c, false
	}
	hash, url, found := strings.Cut(raw, "|")
	c = Commitment{strings.TrimFunc(hash, pySpace), strings.TrimFunc(url, pySpace)}
	if !found || !hashForm().MatchString(c.Hash) || !urlForm().MatchString(c.URL) || strings.IndexFunc(c.URL, pySpace) >= 0 {
		return Commitment{}, false
	}
	return c, true
}

// Write spells a commitment for the ledger.
func (c Commitment) Write() (string, error) {
	switch s := c.Hash + "|" + c.URL; {
	case len(c.Hash) != 64:
		return "", fmt.Errorf("pack_hash must be 64 hex chars, got %d", len(c.Hash))
	case !hashForm().MatchString(c.Hash):
		return "", fmt.Errorf("pack_hash must be 64 hex chars, got %q", c.Hash)
	case !urlForm().MatchString(c.URL):
		return "", fmt.Errorf("pack_url must be an HTTP(S) URL, got: %s", cut(c.URL))
	case len(s) > MaxCommitment:
		//lint:ignore ST1005 the words that miners know
		return "", fmt.Errorf("Commitment too long: %d bytes (max %d). Use a shorter URL.", len(s), MaxCommitment) //nolint:staticcheck // the words that miners know
	default:
		return s, nil
	}
}

// Pointer is a validator's word on the ledger: my payload of that window lies there.
type Pointer struct {
	Protocol int64
	Window   int64
	Address  string
	Scoring  int64
}

// ParsePointer reads a pointer; ok is false where it is none.
func ParsePointer(raw string) (p Pointer, ok bool) {
	if len(raw) > 4096 {
		return p, false
	}
	rest, found := strings.CutPrefix(strings.TrimFunc(raw, pySpace), ConsensusPrefix)
	if !found {
		return p, false
	}
	parts := strings.SplitN(rest, "|", 4)
	if len(parts) < 3 {
		return p, false
	}
	var bad bool
	number := func(s string) int64 {
		n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimFunc(s, pySpace), "_", "x"), 10, 64)
		bad = bad || err != nil
		return n
	}
	p.Protocol, p.Window, p.Scoring = number(parts[0]), number(parts[1]), 1
	if len(parts) == 4 {
		p.Scoring = number(parts[2])
	}
	p.Address = strings.TrimFunc(parts[len(parts)-1], pySpace)
	if bad || p.Address == "" {
		return Pointer{}, false
	}
	return p, true
}

// SealPrefix begins what a validator says on the ledger before it shows a payload.
const SealPrefix = "sealed:"

// ParseSeal reads the promise of a payload, whose bytes Address names by their
// digest. It has the form of a pointer with four fields; ok is false where it is none.
func ParseSeal(raw string) (p Pointer, ok bool) {
	rest, found := strings.CutPrefix(strings.TrimFunc(raw, pySpace), SealPrefix)
	if !found || strings.Count(rest, "|") != 3 {
		return p, false
	}
	return ParsePointer(ConsensusPrefix + rest)
}

// Seal spells the promise of the payload that p's address names by its digest.
func (p Pointer) Seal() string {
	return fmt.Sprintf("%s%d|%d|%d|%s", SealPrefix, p.Protocol, p.Window, p.Scoring, p.Address)
}

// Write spells a pointer. Where it is too long for the ledger and the address
// has a content id, only that stays.
func (p Pointer) Write() (string, error) {
	write := func(address string) string {
		return fmt.Sprintf("%s%d|%d|%d|%s", ConsensusPrefix, p.Protocol, p.Window, p.Scoring, address)
	}
	s := write(p.Address)
	if cid, _ := DualAddress(p.Address); len(s) > MaxCommitment && cid != "" {
		s = write(cid)
	}
	if len(s) > MaxCommitment {
		return "", fmt.Errorf("pointer too long: %d bytes (max %d)", len(s), MaxCommitment)
	}
	return s, nil
}

// DualAddress splits an address into its content id and its URL, either of
// which may be empty.
func DualAddress(address string) (cid, url string) {
	a, b, two := strings.Cut(address, ";")
	if two {
		return a, b
	}
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return "", address
	}
	return address, ""
}
