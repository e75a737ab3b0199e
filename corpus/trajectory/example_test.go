package trajectory_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus/trajectory"
)

// The events of an attempt, as `GET /v1/runs/ID/events` has them, become the
// conversations that its agent had with models.
func ExampleConversations() {
	event := func(seq int64, typ, data string) agon.Event {
		return agon.Event{Run: "r1", Attempt: 1, Seq: seq, At: time.Unix(seq, 0).UTC(), Type: typ, Data: json.RawMessage(data)}
	}
	list, _, err := trajectory.Conversations([]agon.Event{
		event(1, agon.EventModel, `{
			"receipt": {"id": "c1", "payer": "run", "model": "m", "cost_micros": 20},
			"request": {"text": "{\"messages\": [{\"role\": \"user\", \"content\": \"Which club?\"}]}"},
			"message": {"content": "The putter."}}`),
		event(2, agon.EventModel, `{
			"receipt": {"id": "c2", "payer": "run", "model": "m", "cost_micros": 30},
			"request": {"text": "{\"messages\": [{\"role\": \"user\", \"content\": \"Which club?\"}, {\"role\": \"assistant\", \"content\": \"The putter.\"}, {\"role\": \"user\", \"content\": \"Sure?\"}]}"},
			"message": {"content": "Yes."}}`),
	}, 1, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range list {
		fmt.Println(c.Model, c.Receipts)
		for _, s := range c.Said {
			fmt.Printf("%s: %s (by a model: %v)\n", s.Role, s.Content, s.ByModel)
		}
	}
	// Output:
	// m [c1 c2]
	// user: Which club? (by a model: false)
	// assistant: The putter. (by a model: true)
	// user: Sure? (by a model: false)
	// assistant: Yes. (by a model: true)
}
