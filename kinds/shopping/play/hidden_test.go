package play

import (
	"encoding/json"
	"strings"
	"testing"
)

// Scores are public. An agent that wants to carry a hidden question out of the
// race by them finds no text and no count of its own there.
func TestHiddenProblemsStayHidden(t *testing.T) {
	agent := prelude + `
def agent_main(p):
    c = ProxyClient(max_retries=1)
    for i in range(7): c.get("/search/find_product", {"q": "lamp", "page": 1})
    if "second" in p["query"]: raise ValueError(p["query"])
    return answer("100001", 5, p["query"])
`
	for _, both := range []bool{true, false} {
		w := newWorld(t, "")
		if both {
			w.task("the first secret wish", "100001")
		}
		w.task("the second secret wish", "100001")
		for i := range w.refs {
			w.refs[i].Hidden = true
		}
		a, _ := w.play(agent)
		if len(a.Scores) != len(w.refs) {
			t.Fatalf("%d scores, fault %q %s", len(a.Scores), a.Fault, a.Reason)
		}
		b, err := json.Marshal([]any{a.Scores, a.Detail, a.Reason, a.Outcome})
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range []string{"secret", "wish", "ValueError", "tool_calls", "seconds", "length"} {
			if strings.Contains(string(b), leak) {
				t.Errorf("%q stands in %s", leak, b)
			}
		}
		if both && (!a.Scores[0].Solved || a.Scores[0].Metrics["coefficient"] == 0) {
			t.Errorf("nothing is left: %s", b)
		}
	}
}
