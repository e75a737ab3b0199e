package judge

import (
	"fmt"
	"strings"
	"unicode"
)

// Where no model is configured words are compared in its place: crude, the same
// each time, and nothing can talk it into anything. Demos and tests use it; it
// seats nobody elsewhere.

// Versions of the comparison of words, as scorers name them.
const (
	LexicalSupport = "lexical-1"
	LexicalPairs   = "lexical-pairs-1"
	LexicalItems   = "lexical-items-1"
)

// lexicalShare is how much of the reference's words must be there, in percent.
const lexicalShare = 40

// Lexically says whether a justification, or a citation, holds enough of the
// reference's telling words, numbers first of all.
func Lexically(c SupportCase) SupportVerdict {
	said := terms(c.Answer.Justification + " " + strings.Join(c.Answer.Citations, " "))
	known := terms(c.Claim)
	need, have := 0, 0
	for w := range terms(c.Reference.Justification) {
		if known[w] {
			continue // repeating the claim supports nothing
		}
		need++
		if said[w] {
			have++
		}
	}
	ok := need > 0 && have*100 >= need*lexicalShare
	return SupportVerdict{SupportOK: ok, Rationale: fmt.Sprintf("%d of %d telling words of the reference, want %d%%", have, need, lexicalShare)}
}

// PairLexically lets an answer tie that holds enough of the reference's telling
// words, and prefers it in both orders if what it cites holds them too.
func PairLexically(c PairCase) PairVerdict {
	known := terms(c.Query)
	var cited strings.Builder
	for _, x := range c.Answer.Citations {
		if x != nil {
			cited.WriteString(x.Note + " ")
		}
	}
	need, said, shown := 0, 0, 0
	answer, evidence := terms(c.Answer.Text), terms(cited.String())
	for w := range terms(c.Reference.Text) {
		if known[w] {
			continue
		}
		need++
		if answer[w] {
			said++
		}
		if evidence[w] {
			shown++
		}
	}
	enough := func(n int) bool { return need > 0 && n*100 >= need*lexicalShare }
	v := PairVerdict{First: 1} // the order does nothing
	if enough(said) {
		v.Wins = 1
		if enough(shown) {
			v.Wins = 2
		}
	}
	v.Rationales[0] = fmt.Sprintf("%d of %d telling words of the reference, %d in what is cited, want %d%%", said, need, shown, lexicalShare)
	return v
}

// CalibrateLexical measures the comparison of words.
func CalibrateLexical(cases []Labelled) (*Calibration, error) {
	c := &Calibration{Prompt: SupportPrompt().ID(), Scorer: LexicalSupport, Demo: true}
	return c, tally(c, cases, nil, func(l Labelled) (Given, error) {
		v := Lexically(l.SupportCase)
		return Given{l.ID, l.Class, l.SupportOK, v.SupportOK, v.Rationale}, nil
	})
}

// CalibrateLexicalPairs is CalibrateLexical for comparisons.
func CalibrateLexicalPairs(cases []LabelledPair) (*Calibration, error) {
	c := &Calibration{Prompt: PairwisePrompt().ID(), Scorer: LexicalPairs, Demo: true}
	return c, c.pairs(cases, nil, func(p PairCase) (PairVerdict, error) { return PairLexically(p), nil })
}

// CalibrateLexicalItems is CalibrateLexical for answers to items of benchmarks.
func CalibrateLexicalItems(p Prompt, cases []LabelledItem) (*Calibration, error) {
	c := &Calibration{Prompt: p.ID(), Scorer: LexicalItems, Demo: true}
	return c, tally(c, cases, nil, func(l LabelledItem) (Given, error) {
		v := ItemLexically(l.ItemCase)
		return Given{l.ID, l.Class, l.Holds, v.Holds, v.Why}, nil
	})
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
