package gateway

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
)

// chainOf is a chain of receipts signed by key, and the statement that closes it.
// Costs are by call; the last receipt is the platform's, the others are the run's.
func chainOf(t *testing.T, key *auth.Key, run string, attempt int, reserved agon.Micros, costs ...agon.Micros) ([]agon.Receipt, *agon.Statement) {
	t.Helper()
	s := &agon.Statement{Run: run, Attempt: attempt, Calls: int64(len(costs)), Signer: key.SS58()}
	var list []agon.Receipt
	for i, c := range costs {
		r := agon.Receipt{ID: fmt.Sprint(i), N: int64(i) + 1, Prev: s.Head, Run: run, Attempt: attempt, Reserved: reserved, Cost: c, Payer: payerRun, Signer: key.SS58(), Start: time.Unix(1, 0).UTC(), End: time.Unix(2, 0).UTC()}
		if i == len(costs)-1 {
			r.Payer = payerPlatform
		}
		s.Head = ReceiptHash(r)
		if err := signReceipt(key, &r, s.Head); err != nil {
			t.Fatal(err)
		}
		s.Cost += c
		list = append(list, r)
	}
	return list, signed(t, key, s)
}

// signed is a statement with its signature.
func signed(t *testing.T, key *auth.Key, s *agon.Statement) *agon.Statement {
	t.Helper()
	sig, err := key.Sign(statementText(s))
	if err != nil {
		t.Fatal(err)
	}
	s.Sig = hex.EncodeToString(sig)
	return s
}

// A chain sums what was spent, by payer, and no call may cost less than nothing or
// more than was reserved for it.
func TestVerifyChainSums(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	list, _ := chainOf(t, key, "r", 1, 9, 7, 5, 2)
	c := VerifyChain(list, []string{key.SS58()})
	if len(c.Problems) > 0 || c.Cost != 14 || c.Run != 12 || c.Receipts != 3 || c.Dangling != 0 || !slices.Equal(c.Signers, []string{key.SS58()}) {
		t.Errorf("%+v", c)
	}
	for cost, want := range map[agon.Micros]int{-1: 1, 0: 0, 9: 0, 10: 1} {
		list, _ := chainOf(t, key, "r", 1, 9, cost)
		if c := VerifyChain(list, nil); len(c.Problems) != want || want == 1 && c.Problems[0].Code != "cost" {
			t.Errorf("a cost of %d with 9 reserved: %+v", cost, c.Problems)
		}
	}
	twice := []agon.Receipt{list[0], list[0], list[1], list[2]}
	if c := VerifyChain(twice, nil); len(c.Problems) == 0 || c.Problems[0].Code != "gap" {
		t.Errorf("a receipt that stands twice: %+v", c.Problems)
	}
}

// A statement holds for one attempt, one gateway, and the receipts as they were:
// whatever is missing, added, changed or of another is said.
func TestSealedStatement(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	list, s := chainOf(t, key, "r", 2, 9, 7, 5, 2)
	_, quiet := chainOf(t, key, "r", 2, 9) // no call was made
	forged := func(change func(s *agon.Statement)) *agon.Statement {
		x := *s
		change(&x)
		return signed(t, key, &x)
	}
	foreign, _ := chainOf(t, other, "r", 2, 9, 7, 5, 2)
	elsewhere, _ := chainOf(t, key, "q", 2, 9, 7, 5, 2)
	dear, dearer := chainOf(t, key, "r", 2, 9, 10, 5, 10) // two calls over what was reserved
	changed := slices.Clone(list)
	changed[1].Cost = 4
	for name, c := range map[string]struct {
		s       *agon.Statement
		run     string
		attempt int
		list    []agon.Receipt
		trusted []string
		want    string // part of the error; empty: it holds
	}{
		"as it is":                 {s, "r", 2, list, []string{key.SS58()}, ""},
		"any gateway":              {s, "r", 2, list, nil, ""},
		"one of two gateways":      {s, "r", 2, list, []string{other.SS58(), key.SS58()}, ""},
		"none":                     {nil, "r", 2, list, nil, "is missing"},
		"another run":              {s, "q", 2, list, nil, "another run or attempt"},
		"another attempt":          {s, "r", 1, list, nil, "another run or attempt"},
		"quiet":                    {quiet, "r", 2, nil, nil, ""},
		"quiet, another run":       {quiet, "q", 2, nil, nil, "another run or attempt"},
		"quiet, another attempt":   {quiet, "r", 1, nil, nil, "another run or attempt"},
		"another gateway":          {s, "r", 2, list, []string{other.SS58()}, "not a gateway of this arena"},
		"one receipt less":         {s, "r", 2, list[:2], nil, "3 calls, 2 receipts"},
		"one receipt more":         {forged(func(s *agon.Statement) { s.Calls = 2 }), "r", 2, list, nil, "2 calls, 3 receipts"},
		"a receipt changed":        {s, "r", 2, changed, nil, "receipt 2"},
		"receipts of another run":  {s, "r", 2, elsewhere, nil, "belong to another run"},
		"receipts of another key":  {s, "r", 2, foreign, nil, "receipt 1"},
		"one cost over the bound":  {forged(func(s *agon.Statement) { s.Calls, s.Head, s.Cost = 1, ReceiptHash(dear[0]), 10 }), "r", 2, dear[:1], nil, "not within the reservation"},
		"two costs over the bound": {dearer, "r", 2, dear, nil, "not within the reservation"},
		"another end":              {forged(func(s *agon.Statement) { s.Head = agon.Sum([]byte("x")) }), "r", 2, list, nil, "do not end where"},
		"less money":               {forged(func(s *agon.Statement) { s.Cost-- }), "r", 2, list, nil, "sum to 14 micro-dollars, the gateway's statement to 13"},
		"more money":               {forged(func(s *agon.Statement) { s.Cost++ }), "r", 2, list, nil, "sum to 14 micro-dollars, the gateway's statement to 15"},
		"an unsigned statement":    {&agon.Statement{Run: "r", Attempt: 2, Calls: 3, Head: s.Head, Cost: 14, Signer: key.SS58()}, "r", 2, list, nil, "128 hex digits"},
		"a statement turned round": {&agon.Statement{Run: "r", Attempt: 2, Calls: 3, Head: s.Head, Cost: 15, Signer: key.SS58(), Sig: s.Sig}, "r", 2, list, nil, "the statement"},
	} {
		err := CheckStatement(c.s, c.run, c.attempt, c.list, c.trusted)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
