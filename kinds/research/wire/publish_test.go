package wire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/wire"
)

// Who may publish a task beside the operator is an arena's word.
func TestPublishers(t *testing.T) {
	var conf *coordinator.Config
	f := open(t, func(c *coordinator.Config, _ *wire.Config) { conf = c })
	author, stranger := f.miner("author"), f.miner("stranger")
	conf.Template.Publishers = []string{f.key("author").SS58()}
	if err := f.c.Open(*conf); err != nil {
		t.Fatal(err)
	}
	named := func(slug string) map[string]any { return toy(func(m map[string]any) { m["slug"] = slug }) }
	if status, body := f.post(author, "/api/v1/tasks", named("before-any")); status != 403 {
		t.Fatalf("no arena names anybody yet: %d %s", status, body)
	}
	first := f.task()
	if status, body := f.post(stranger, "/api/v1/tasks", named("by-a-stranger")); status != 403 || !strings.Contains(body, "not_a_publisher") {
		t.Errorf("a stranger: %d %s", status, body)
	}
	status, body := f.post(author, "/api/v1/tasks", named("by-the-author"))
	if status != 200 || !strings.Contains(body, `"slug":"by-the-author"`) {
		t.Fatalf("the author: %d %s", status, body)
	}
	if status, body := f.post(author, "/api/v1/tasks", named("by-the-author")); status != 409 {
		t.Errorf("a slug that is taken: %d %s", status, body)
	}
	tree := toy(func(m map[string]any) {
		m["slug"], m["tree"] = "of-a-tree", "sha256:"+strings.Repeat("0", 64)
	})
	if status, body := f.post(author, "/api/v1/tasks", tree); status != 422 || !strings.Contains(body, "bad_tree") {
		t.Errorf("a tree that may be another's: %d %s", status, body)
	}
	if status, body := f.post(author, "/api/v1/tasks/"+first.ID+"/close", nil); status != 401 {
		t.Errorf("a publisher closes another's task: %d %s", status, body)
	}
	n := 0
	for status = 200; status == 200 && n < 30; n++ {
		status, body = f.post(author, "/api/v1/tasks", named(fmt.Sprintf("one-more-%d", n)))
	}
	if status != 429 || n > 20 || n < 10 {
		t.Errorf("%d more tasks in a day, the last: %d %s", n, status, body)
	}
	f.clock.Add(25 * time.Hour)
	if status, body := f.post(author, "/api/v1/tasks", named("next-day")); status != 200 {
		t.Errorf("the next day: %d %s", status, body)
	}
}
