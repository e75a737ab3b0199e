package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
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
	if a := f.arena("by-the-author"); len(a.Publishers) > 0 {
		t.Errorf("the publisher's own task says who publishes, so that the operator cannot take it back: %v", a.Publishers)
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

// arena reads an arena with its hidden task, as a server does when it starts.
func (f *fixture) arena(id string) (a agon.Arena) {
	f.t.Helper()
	err := f.conf.Store.Read(f.t.Context(), func(tx *store.Tx) (err error) {
		a, err = tx.Arena(id)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// Two servers over one store, and one that was started again, count a publisher's tries together.
func TestPublishersOfTwoServers(t *testing.T) {
	var conf *coordinator.Config
	f := open(t, func(c *coordinator.Config, _ *wire.Config) { conf = c })
	author := f.key("author").SS58()
	conf.Template.Publishers = []string{author}
	if err := f.c.Open(*conf); err != nil {
		t.Fatal(err)
	}
	f.task()
	again := func() *coordinator.Coordinator {
		t.Helper()
		c, err := coordinator.New(*conf)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.OpenTask(t.Context(), f.arena("toy")); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var wg sync.WaitGroup
	var counted, refused atomic.Int32
	try := func(c *coordinator.Coordinator) {
		_, err := c.CreateBy(context.WithoutCancel(t.Context()), author, coordinator.NewTask{}) // a task that says nothing is a try, too
		var r *coordinator.Refusal
		switch {
		case !errors.As(err, &r):
			t.Errorf("no refusal: %v", err)
		case r.Code == "too_many_tasks":
			refused.Add(1)
		case r.Code == "invalid_task":
			counted.Add(1)
		default:
			t.Error(err)
		}
	}
	for _, c := range []*coordinator.Coordinator{f.c, again()} {
		for range 15 {
			wg.Go(func() { try(c) })
		}
	}
	wg.Wait()
	if counted.Load() != 20 || refused.Load() != 10 {
		t.Errorf("%d tries counted and %d refused, want 20 and 10", counted.Load(), refused.Load())
	}
	if try(again()); refused.Load() != 11 {
		t.Error("a server that was started again has forgotten the tries")
	}
	f.clock.Add(24 * time.Hour)
	if try(again()); counted.Load() != 21 {
		t.Error("tries of yesterday count today")
	}
}
