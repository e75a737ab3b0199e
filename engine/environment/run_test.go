package environment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func turn(node, messages string, prompt, completion []int64, logprobs ...float64) Turn {
	return Turn{Node: node, Prompt: prompt, Completion: completion, Logprobs: logprobs, Request: json.RawMessage(`{"messages":[` + messages + `]}`), Response: json.RawMessage(`{"role":"assistant","content":"x"}`)}
}

// Calls that go on from each other are one sequence, whose mask is 1 on just what the
// model said; a call of its own, or with another history, begins another.
func TestSamplesOfARun(t *testing.T) {
	const a, b = `{"role":"user","content":"a"}`, `{"role":"user","content":"b"}`
	const said = `{"role":"assistant","content":"told otherwise"}`
	r := Run{Trace: Trace{Turns: []Turn{
		turn("0", a, []int64{1, 2}, []int64{3, 4}, -.1, -.2),
		turn("1", a+","+said+","+b, []int64{1, 2, 3, 4, 5}, []int64{6}, -.3),
		turn("2", b, []int64{9}, []int64{8}, -.4),
		turn("3", a+","+said+","+b+","+said+","+a, []int64{1, 2, 3, 7, 7}, []int64{6}, -.5), // the same talk, told anew
		turn("4", b, nil, []int64{8}, -.4),
		turn("5", b, []int64{9}, nil),
		turn("6", b, []int64{9}, []int64{8, 8}, -.4),
	}}}
	r.Complete()
	want := []Sample{
		{[]string{"0", "1"}, []int64{1, 2, 3, 4, 5, 6}, []int{0, 0, 1, 1, 0, 1}, []float64{0, 0, -.1, -.2, 0, -.3}},
		{[]string{"2"}, []int64{9, 8}, []int{0, 1}, []float64{0, -.4}},
		{[]string{"3"}, []int64{1, 2, 3, 7, 7, 6}, []int{0, 0, 0, 0, 0, 1}, []float64{0, 0, 0, 0, 0, -.5}},
	}
	if !reflect.DeepEqual(r.Samples, want) {
		t.Errorf("%+v", r.Samples)
	}
	if got := fmt.Sprint(r.Missing); got != "[{4 prompt_token_ids} {5 completion_token_ids} {6 per_token_logps}]" {
		t.Error(got)
	}
	var parents []string
	for _, x := range r.Trace.Turns {
		parents = append(parents, x.Meta.Parent)
		if len(x.Mask) != len(x.Prompt)+len(x.Completion) || len(x.Logprobs) != len(x.Completion) {
			t.Errorf("turn %s: %+v", x.Node, x)
		}
	}
	if got := strings.Join(parents, ","); got != ",0,,1,,," {
		t.Error(got)
	}
}

// However long an agent talks, what is told of its texts is bounded, and its tokens stay.
func TestLongRuns(t *testing.T) {
	r := Run{}
	long := `{"role":"user","content":"` + strings.Repeat("x", 1<<20) + `"}`
	for i := range 20 {
		r.Trace.Turns = append(r.Trace.Turns, turn(fmt.Sprint(i), long, []int64{1}, []int64{2}, -1))
	}
	r.Complete()
	texts, cut := 0, 0
	for _, x := range r.Trace.Turns {
		texts += len(x.Request) + len(x.Response)
		if x.Meta.Cut {
			cut++
		}
	}
	if texts > MaxTexts || cut != 5 || len(r.Samples) != 20 || len(r.Missing) != 0 {
		t.Errorf("%d bytes, %d cut, %d samples, %v", texts, cut, len(r.Samples), r.Missing)
	}
}
