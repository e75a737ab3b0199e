package judge

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon"
)

func TestItem(t *testing.T) {
	c := ItemCase{Question: "Who opened the bridge at Orm?", Wanted: "The railway company of Vell.", Answer: "The Vell railway company did."}
	for name, x := range map[string]struct {
		prompt Prompt
		reply  string
		want   bool
	}{
		"right":     {CorrectPrompt(), `{"reason": "as wanted", "is_correct": true}`, true},
		"wrong":     {CorrectPrompt(), `{"reason": "another one", "is_correct": false}`, false},
		"met":       {CriterionPrompt(), `{"justification": "it is said", "verdict": "MET"}`, true},
		"not met":   {CriterionPrompt(), `{"justification": "it is not", "verdict": "UNMET"}`, false},
		"with talk": {CorrectPrompt(), "<think>hm</think>```json\n{\"is_correct\": true, \"reason\": \"\"}\n```", true},
	} {
		j, rec := scriptedJudge(t, "version = 1\n[[rule]]\ncontent = '''"+x.reply+"'''\n", agon.Budget{})
		v, err := j.Item(t.Context(), x.prompt, c)
		if err != nil || v.Holds != x.want || v.Unreadable || rec.n() != 1 {
			t.Errorf("%s: %+v %v", name, v, err)
		}
	}
	// A judge that never answers in the form says nothing; one that does so elsewhere was made to by the answer.
	j, _ := scriptedJudge(t, "version = 1\n[[rule]]\ncontent = '{\"is_correct\": \"yes\"}'\n", agon.Budget{})
	if _, err := j.Item(t.Context(), CorrectPrompt(), c); !errors.Is(err, ErrNoVerdict) {
		t.Errorf("a judge without the form: %v", err)
	}
	j, _ = scriptedJudge(t, "version = 1\n[[rule]]\nlast_re = 'Orm'\ncontent = 'I like it'\n[[rule]]\ncontent = '{\"is_correct\": true, \"reason\": \"\"}'\n", agon.Budget{})
	if v, err := j.Item(t.Context(), CorrectPrompt(), c); err != nil || v.Holds || !v.Unreadable {
		t.Errorf("an answer that spoils the form: %+v %v", v, err)
	}
	for reply, p := range map[string]Prompt{`{"verdict": "MET"}`: CorrectPrompt(), `{"is_correct": true}`: CriterionPrompt(), `{"verdict": "met"}`: CriterionPrompt(), `[]`: CorrectPrompt()} {
		if v, err := ParseItem(p, []byte(reply)); err == nil {
			t.Errorf("%s to %s: %+v", reply, p.Name, v)
		}
	}
}

func TestItemLexically(t *testing.T) {
	for answer, want := range map[string]bool{
		"It was the railway company of Vell.": true, "A railway company.": false, "the bridge at Orm": false, "": false,
	} {
		if v := ItemLexically(ItemCase{Question: "Who opened the bridge at Orm?", Wanted: "The railway company of Vell", Answer: answer}); v.Holds != want {
			t.Errorf("%q: %+v", answer, v)
		}
	}
	if v := ItemLexically(ItemCase{Question: "Is it so?", Wanted: "No", Answer: " no "}); !v.Holds {
		t.Errorf("an answer of one short word: %+v", v)
	}
}
