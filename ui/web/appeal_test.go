package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// A miner appeals from the desk, the operator answers from the other, and nobody
// else does either. What the miner wrote stays text.
func TestAppealsAtTheDesks(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	sub := f.submit(miner, "<b>mine", "x = 1")
	mine, other, op := f.browser(miner), f.browser(rival), f.browser(boss)
	const form = `action="/desk/appeal"`
	if _, page := f.get(mine, "/desk"); strings.Contains(page, form) {
		t.Error("an appeal is offered before anything is decided")
	}
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 0.5, "")
	}
	if _, page := f.get(mine, "/desk"); !strings.Contains(page, form) {
		t.Fatalf("no appeal is offered: %s", page)
	}
	if _, page := f.get(op, "/operator"); strings.Contains(page, "/operator/appeal") || strings.Contains(page, "for an answer") {
		t.Error("the operator is shown appeals before there are any")
	}
	post := func(c *http.Client, path string, v url.Values) int {
		t.Helper()
		resp, err := c.PostForm(f.url+path, v)
		must(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	appeal := url.Values{"submission": {sub.ID}, "reason": {"<script>alert(1)</script>\x1b[2J\u202e the model was away"}}
	if got := post(other, "/desk/appeal", appeal); got != http.StatusForbidden {
		t.Errorf("another miner appeals: %d", got)
	}
	if got := post(f.browser(""), "/desk/appeal", appeal); got != http.StatusForbidden {
		t.Errorf("a stranger appeals: %d", got)
	}
	if got := post(mine, "/desk/appeal", url.Values{"submission": {sub.ID}}); got != 422 {
		t.Errorf("without a reason: %d", got)
	}
	if got := post(mine, "/desk/appeal", appeal); got != http.StatusOK {
		t.Fatalf("the appeal: %d", got)
	}
	if got := post(mine, "/desk/appeal", appeal); got != http.StatusConflict {
		t.Errorf("a second appeal: %d", got)
	}
	if _, page := f.get(mine, "/desk"); !strings.Contains(page, "Your appeal is open") || strings.Contains(page, form) {
		t.Errorf("the desk after it: %s", page)
	}
	_, page := f.get(op, "/operator")
	for _, want := range []string{"1 appeal waits for an answer; the first is granted without one in ", "&lt;b&gt;mine", "&lt;script&gt;alert(1)", "Nothing is played again yet: that waits for a second validator", `action="/operator/appeal"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the operator's desk: %s", want, page)
		}
	}
	if strings.Contains(page, "<script>alert") || strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("the miner's reason is more than text")
	}
	answer := url.Values{"submission": {sub.ID}, "reason": {"the replay scores the same"}, "answer": {"deny"}}
	if got := post(mine, "/operator/appeal", answer); got != http.StatusForbidden {
		t.Errorf("the miner answers: %d", got)
	}
	if got := post(op, "/operator/appeal", url.Values{"submission": {sub.ID}, "reason": {"x"}, "answer": {"perhaps"}}); got != 422 {
		t.Errorf("no answer: %d", got)
	}
	if got := post(op, "/operator/appeal", answer); got != http.StatusOK {
		t.Fatalf("the answer: %d", got)
	}
	if _, page = f.get(op, "/operator"); strings.Contains(page, "for an answer") || !strings.Contains(page, "appeal denied") {
		t.Errorf("after the answer: %s", page)
	}
	if _, page = f.get(mine, "/desk"); !strings.Contains(page, "Your appeal is denied: the replay scores the same") {
		t.Errorf("the miner is not told: %s", page)
	}
}
