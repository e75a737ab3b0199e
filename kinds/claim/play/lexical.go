package play

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/agon-arena/agon/gateway"
)

// LexicalJudge stands in for a model where there is none: a justification is
// supported when it, or a citation, holds enough of the reference's telling
// words, numbers first of all. It is crude, deterministic and cannot be talked
// into anything; demos and tests use it.
type LexicalJudge struct{}

// lexicalShare is how much of the reference's words must be there, in percent.
const lexicalShare = 40

// Version implements SupportJudge.
func (LexicalJudge) Version() string { return "lexical-1" }

// Policy implements SupportJudge: no session is ever opened.
func (LexicalJudge) Policy() gateway.Policy { return gateway.Policy{} }

// Support implements SupportJudge.
func (LexicalJudge) Support(_ context.Context, _ func() (gateway.Session, error), in SupportInput) (SupportVerdict, error) {
	said := terms(in.Justification + " " + strings.Join(in.Citations, " "))
	known := terms(in.Claim)
	need, have := 0, 0
	for w := range terms(in.ReferenceJustification) {
		if known[w] {
			continue // repeating the claim supports nothing
		}
		need++
		if said[w] {
			have++
		}
	}
	ok := need > 0 && have*100 >= need*lexicalShare
	return SupportVerdict{OK: ok, Rationale: fmt.Sprintf("%d of %d telling words of the reference, want %d%%", have, need, lexicalShare)}, nil
}

var stopWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields("the and for with that this was were are has have had not its from into than then but they their there which when who whom only also all any one two") {
		m[w] = true
	}
	return m
}()

// terms are the words of a text that tell something: of three letters or more, and all numbers.
func terms(s string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		w = strings.TrimSuffix(w, "s")
		if stopWords[w] || len(w) < 3 && !strings.ContainsFunc(w, unicode.IsDigit) {
			continue
		}
		out[w] = true
	}
	return out
}
