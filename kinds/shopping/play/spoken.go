package play

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// An episode's thinking is the agent's text: its code can write there what it likes. A
// judge sees of it what a model said, as the gateway recorded it, and what the agent's
// code did not put into the model's mouth.

// Limits of what is compared with the words of models.
const (
	maxQuoted    = 2000 // bytes of one step's thinking
	maxSpoken    = 60   // steps of one episode, half of them its last ones
	maxSentences = 40   // of one step
	minEchoed    = 30   // characters of a sentence that counts as repeated
	shingle      = 4    // words of a run
	minShingles  = 5    // of a sentence that counts as repeated for its runs of words
	maxRepeated  = 0.6  // share of them that the request held
)

// spoken are the steps of a case with the thinking that a model said: all of it where
// the gateway has it in one piece, else the sentences that it has.
func spoken(c judge.ReasoningCase) []judge.ReasoningStep {
	var said strings.Builder
	for _, x := range c.Calls.List {
		said.WriteString(" " + x.Said)
	}
	words, steps := oneBlank(said.String()), c.Steps
	if len(steps) > maxSpoken {
		steps = slices.Concat(steps[:maxSpoken/2], steps[len(steps)-maxSpoken/2:])
	}
	out := make([]judge.ReasoningStep, len(steps))
	for i, s := range steps {
		s.Thinking = clip(s.Thinking, maxQuoted)
		if whole := oneBlank(s.Thinking); !strings.Contains(words, whole) {
			kept := slices.DeleteFunc(sentences(whole), func(x string) bool { return !strings.Contains(words, x) })
			s.Thinking = strings.Join(kept, " ")
		}
		out[i] = s
	}
	return out
}

// sentences cuts a text, whose blanks are single, after each end of a sentence. What
// comes after the first maxSentences is left out.
func sentences(text string) (out []string) {
	from := 0
	for i := 0; i < len(text) && len(out) < maxSentences; i++ {
		if end := i + 1; strings.IndexByte(".!?;:", text[i]) >= 0 && (end == len(text) || text[end] == ' ') || end == len(text) {
			if s := strings.TrimSpace(text[from:end]); s != "" {
				out = append(out, s)
			}
			from = end
		}
	}
	return out
}

// ownWords is what a model said without the sentences that its request held, more or
// less: an agent's code can have any text repeated.
func ownWords(said string, request gateway.Body) string {
	said = strings.TrimSpace(said)
	asked := textsOf(request.Text)
	if asked == "" {
		return said
	}
	held := shingles(asked)
	var out []string
	dropped := false
	for _, line := range strings.Split(said, "\n") {
		kept := []string{}
		for _, s := range sentences(oneBlank(line)) {
			if repeats(untagged(s), asked, held) {
				dropped = true
				continue
			}
			kept = append(kept, s)
		}
		out = append(out, strings.Join(kept, " "))
	}
	if !dropped {
		return said
	}
	return strings.Join(out, "\n")
}

// repeats reports whether a sentence stands in a text as it is, or most of its runs of
// words do.
func repeats(sentence, text string, held map[string]bool) bool {
	bare := strings.TrimRight(sentence, ".!?;: ")
	if utf8.RuneCountInString(bare) < minEchoed {
		return false
	}
	if strings.Contains(text, bare) {
		return true
	}
	list := shingles(bare)
	n := 0
	for x := range list {
		if held[x] {
			n++
		}
	}
	return len(list) >= minShingles && float64(n) >= maxRepeated*float64(len(list))
}

// shingles are the runs of shingle words in a text.
func shingles(text string) map[string]bool {
	words := strings.Fields(strings.ToLower(text))
	out := map[string]bool{}
	for i := shingle; i <= len(words); i++ {
		out[strings.Join(words[i-shingle:i], " ")] = true
	}
	return out
}

// untagged is a sentence without the tags that agents put around thinking.
func untagged(s string) string {
	for _, tag := range []string{"<think>", "</think>", "<thinking>", "</thinking>"} {
		s = strings.ReplaceAll(s, tag, "")
	}
	return strings.TrimSpace(s)
}

// textsOf are the texts of a JSON document, with single blanks; of one that was cut those
// before the cut.
func textsOf(doc string) string {
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var b strings.Builder
	for {
		t, err := d.Token()
		if err != nil {
			return oneBlank(b.String())
		}
		if s, ok := t.(string); ok {
			b.WriteString(s + " ")
		}
	}
}
