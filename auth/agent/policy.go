package agent

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/auth"
)

// Forms of messages that a policy may allow by name. A call is allowed by the
// numbers of its pallet and itself, such as 7.0 (set_weights of Bittensor's chain).
const (
	AllowAgon   = auth.SchemeAgonV1 // requests as agon signs them
	AllowBTAuth = "btauth/1"        // requests as SDK 11 signs them
	AllowText   = "text"            // any printable text: every dialect, receipts; no extrinsic is text
)

// Policy is what an agent signs. The zero value allows everything.
type Policy struct {
	forms   []string
	calls   map[[2]byte]bool
	limits  map[[2]byte]uint64 // rao that a call moves at most
	perDay  uint64             // rao of TAO that calls of a key move within 24 hours; 0 = any
	genesis [][32]byte
}

// ParsePolicy reads what is allowed: names of forms and calls, a call also with what it
// moves at most, as 5.3=2.5 (TAO, or alpha where it moves that). genesis lists the
// chains on which calls may be made; none = on all. Nothing allowed is everything.
func ParsePolicy(allow, genesis []string) (p Policy, err error) {
	for _, word := range allow {
		if slices.Contains([]string{AllowAgon, AllowBTAuth, AllowText}, word) {
			p.forms = append(p.forms, word)
			continue
		}
		word, limit, limited := strings.Cut(word, "=")
		pallet, call, ok := strings.Cut(word, ".")
		a, errA := strconv.ParseUint(pallet, 10, 8)
		b, errB := strconv.ParseUint(call, 10, 8)
		if !ok || errA != nil || errB != nil {
			return p, fmt.Errorf("%q: want %s, %s, %s, or a call's numbers such as 7.0, or 5.3=2.5 for at most 2.5 TAO", word, AllowAgon, AllowBTAuth, AllowText)
		}
		if p.calls == nil {
			p.calls = map[[2]byte]bool{}
		}
		at := [2]byte{byte(a), byte(b)}
		p.calls[at] = true
		if !limited {
			continue
		}
		if _, ok := amounts[at]; !ok {
			return p, fmt.Errorf("%s: agon does not know where that call has an amount", word)
		}
		rao, err := parseTAO(limit)
		if err != nil {
			return p, err
		}
		if p.limits == nil {
			p.limits = map[[2]byte]uint64{}
		}
		p.limits[at] = rao
	}
	for _, word := range genesis {
		b, err := hex.DecodeString(strings.TrimPrefix(word, "0x"))
		if err != nil || len(b) != 32 {
			return p, fmt.Errorf("%q: want 64 hex digits of a genesis", word)
		}
		p.genesis = append(p.genesis, [32]byte(b))
	}
	if len(genesis) > 0 && len(p.calls) == 0 {
		return p, errors.New("a genesis says where calls may be made, and no call is allowed")
	}
	return p, nil
}

// PerDay bounds what the calls of a key move within 24 hours, in TAO; calls whose amount agon cannot read are not counted.
func (p *Policy) PerDay(tao string) (err error) {
	p.perDay, err = parseTAO(tao)
	if err == nil && p.perDay == 0 {
		err = errors.New("a day's limit of 0 allows nothing")
	}
	return err
}

// Calls says whether only calls are allowed, each by its numbers, on named chains:
// what a coldkey's agent has to have.
func (p Policy) Calls() bool { return len(p.forms) == 0 && len(p.calls) > 0 && len(p.genesis) > 0 }

// Bounds says whether the policy lists what is signed.
func (p Policy) Bounds() bool { return !p.open() }

func (p Policy) open() bool { return len(p.forms) == 0 && len(p.calls) == 0 }

// text says whether a message is allowed by its form; "" = yes, else why not.
func (p Policy) text(msg []byte) string {
	switch {
	case p.open():
		return ""
	case !printable(msg):
		return "it has other than text in it: an extrinsic is signed whole (op extrinsic)"
	case slices.Contains(p.forms, AllowText):
		return ""
	}
	for _, form := range p.forms {
		if bytes.HasPrefix(msg, []byte(form+"\n")) {
			return ""
		}
	}
	return "its form is not allowed"
}

// printable text has no control characters but line breaks and tabs, and is not empty.
func printable(msg []byte) bool {
	if len(msg) == 0 || !utf8.Valid(msg) {
		return false
	}
	return !bytes.ContainsFunc(msg, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f })
}

// call says whether an extrinsic's payload is allowed; "" = yes, else why not. The
// payload is call, extra and additional, whole. It ends with the hashes of the
// genesis and of a block, and with a zero where the chain checks its metadata.
func (p Policy) call(payload []byte) string {
	const hashes = 64
	switch {
	case p.open():
		return ""
	case len(payload) < 2+8+hashes:
		return "it is too short for an extrinsic"
	case !p.calls[[2]byte(payload)]:
		return fmt.Sprintf("call %d.%d is not allowed", payload[0], payload[1])
	case len(p.genesis) == 0:
		return ""
	}
	for _, end := range []int{len(payload) - 1, len(payload)} {
		if end < len(payload) && payload[end] != 0 {
			continue
		}
		if slices.Contains(p.genesis, [32]byte(payload[end-hashes:end-32])) {
			return ""
		}
	}
	return "it is for another chain"
}

// signed is what of an extrinsic's payload is signed: itself, or its hash where it is long.
func signed(payload []byte) []byte {
	if len(payload) <= 256 {
		return payload
	}
	sum := blake2b.Sum256(payload)
	return sum[:]
}

// SignExtrinsic asks the agent to sign an extrinsic's payload, which it gets whole,
// so that it can see what it signs. An agent of before is asked for the bytes alone.
func (c *Client) SignExtrinsic(payload []byte) ([]byte, error) {
	if len(payload) > MaxMessage {
		return nil, &Error{CodeTooLarge, fmt.Sprintf("payload of %d bytes: at most %d", len(payload), MaxMessage)}
	}
	sig, err := c.sign("extrinsic", payload, signed(payload))
	if refused := (*Error)(nil); errors.As(err, &refused) && refused.Code == CodeBadRequest {
		return c.Sign(signed(payload))
	}
	return sig, err
}
