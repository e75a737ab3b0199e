package gateway

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
)

// signDomain keeps a signature over a receipt from being one over anything else.
const signDomain = "agon-receipt-v1\n"

// canonicalReceipt writes what a receipt's hash covers: every field but sig,
// as JSON with sorted keys and no white space, empty optional fields left out.
// The keys below are in order; TestCanonicalReceipt compares with a generic sort.
func canonicalReceipt(b []byte, r *agon.Receipt) []byte {
	first := true
	key := func(k string) {
		if first {
			b = append(b, '{')
			first = false
		} else {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, k...)
		b = append(b, '"', ':')
	}
	text := func(k, v string) { key(k); b = appendText(b, v) }
	opt := func(k, v string) {
		if v != "" {
			text(k, v)
		}
	}
	num := func(k string, v int64) { key(k); b = strconv.AppendInt(b, v, 10) }
	at := func(k string, v time.Time) {
		key(k)
		b = append(b, '"')
		b = v.AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	num("attempt", int64(r.Attempt))
	if r.Cached != 0 {
		num("cached_tokens", r.Cached)
	}
	num("completion_tokens", r.Completion)
	num("cost_micros", int64(r.Cost))
	opt("emitted", r.Emitted)
	at("end", r.End)
	if r.Estimated {
		key("estimated")
		b = append(b, "true"...)
	}
	text("id", r.ID)
	text("model", r.Model)
	if r.N != 0 {
		num("n", r.N)
	}
	text("outcome", r.Outcome)
	opt("payer", r.Payer)
	opt("prev", string(r.Prev))
	text("price_version", r.PriceVersion)
	num("prompt_tokens", r.Prompt)
	text("provider", r.Provider)
	text("request_hash", string(r.RequestHash))
	num("reserved_micros", int64(r.Reserved))
	text("response_hash", string(r.ResponseHash))
	text("route", r.Route)
	text("run", r.Run)
	text("session", r.Session)
	opt("signer", r.Signer)
	at("start", r.Start)
	num("status", int64(r.Status))
	opt("task", r.Task)
	return append(b, '}')
}

// appendText writes s as JSON. Names and ids are plain ASCII and take the short way.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			q, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// ReceiptHash is the hash that the next receipt of the chain names and that a
// signature covers: of the canonical JSON of everything but the signature.
func ReceiptHash(r agon.Receipt) agon.Digest {
	return agon.Sum(canonicalReceipt(make([]byte, 0, 1024), &r))
}

// signReceipt signs the chain up to r, whose hash is h.
func signReceipt(key *auth.Key, r *agon.Receipt, h agon.Digest) error {
	sig, err := key.Sign([]byte(signDomain + string(h)))
	if err != nil {
		return fmt.Errorf("sign receipt: %w", err)
	}
	r.Sig = hex.EncodeToString(sig)
	return nil
}

// Chain is what VerifyChain found.
type Chain struct {
	Receipts int           `json:"receipts"`
	Signers  []string      `json:"signers"` // addresses, sorted
	Head     agon.Digest   `json:"head,omitempty"`
	Cost     agon.Micros   `json:"cost_micros"` // of all payers
	Run      agon.Micros   `json:"run_micros"`  // billed to the run
	Dangling int           `json:"dangling"`    // receipts after the last signature: nobody attests them
	Problems []ChainBroken `json:"problems,omitempty"`
}

// ChainBroken is one thing that is wrong with a chain.
type ChainBroken struct {
	N  int64  `json:"n"`
	ID string `json:"id"`
	// Code is gap, prev, signature, signer, run, cost or unsigned.
	Code    string `json:"code"`
	Message string `json:"message"`
}

// VerifyChain checks the receipts of one attempt, in any order: numbers from 1
// without gaps, each naming the hash of the one before, every signature good
// and the last receipt under one. trusted lists the gateway keys to accept;
// empty accepts any, and the caller shows who signed.
func VerifyChain(list []agon.Receipt, trusted []string) Chain {
	return new(Checker).chain(list, trusted, false, true)
}

// Checker checks closing statements. The zero value is ready to use, by many at
// once; one that is kept checks signatures of the same gateways in half the time.
type Checker struct{ keys auth.Ready }

// chain is VerifyChain. Where a statement stands over the end of the chain
// (closed) its receipts need no signature; own says whether those that they have
// are looked at.
func (k *Checker) chain(list []agon.Receipt, trusted []string, closed, own bool) Chain {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b agon.Receipt) int {
		switch {
		case a.N < b.N:
			return -1
		case a.N > b.N:
			return 1
		}
		return 0
	})
	c := Chain{Receipts: len(list), Signers: []string{}}
	bad := func(r agon.Receipt, code, format string, args ...any) {
		c.Problems = append(c.Problems, ChainBroken{r.N, r.ID, code, fmt.Sprintf(format, args...)})
	}
	for i, r := range list {
		if r.N != int64(i)+1 {
			bad(r, "gap", "receipt %d stands where %d is due", r.N, i+1)
		}
		if r.Prev != c.Head {
			bad(r, "prev", "it does not name the hash of the receipt before it")
		}
		if r.Run != list[0].Run || r.Attempt != list[0].Attempt {
			bad(r, "run", "it belongs to another run or attempt")
		}
		if r.Cost < 0 || r.Cost > r.Reserved {
			bad(r, "cost", "cost %d is not within the reservation of %d", r.Cost, r.Reserved)
		}
		c.Head = ReceiptHash(r)
		c.Cost += r.Cost
		if r.Payer != payerPlatform {
			c.Run += r.Cost
		}
		c.Dangling++
		if r.Sig == "" {
			continue
		}
		if own {
			if err := k.signature(signDomain+string(c.Head), r.Signer, r.Sig); err != nil {
				bad(r, "signature", "%v", err)
				continue
			}
		}
		c.Dangling = 0
		if len(trusted) > 0 && !slices.Contains(trusted, r.Signer) {
			bad(r, "signer", "%s is not a gateway of this arena", r.Signer)
		}
		if !slices.Contains(c.Signers, r.Signer) {
			c.Signers = append(c.Signers, r.Signer)
		}
	}
	slices.Sort(c.Signers)
	if c.Dangling > 0 && !closed {
		bad(list[len(list)-1], "unsigned", "%d receipts at the end of the chain are under no signature", c.Dangling)
	}
	return c
}

// signature checks a gateway's signature over text.
func (k *Checker) signature(text, signer, sig string) error {
	b, err := hex.DecodeString(sig)
	if err != nil || len(b) != auth.SignatureSize {
		return errors.New("signature is not 128 hex digits")
	}
	if err := k.keys.Verify(signer, []byte(text), b); err != nil {
		return fmt.Errorf("signer %.60q: %w", signer, err)
	}
	return nil
}
