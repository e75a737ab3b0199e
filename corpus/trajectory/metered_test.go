package trajectory

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// A metered call that a model asked for stands once, at the model's step; one
// that the agent's code made stands as a step without a model.
func TestMeteredCallsStandOnce(t *testing.T) {
	event := func(seq int64, typ string, v any) agon.Event {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return agon.Event{Run: "r", Attempt: 1, Seq: seq, At: time.Unix(seq, 0), Type: typ, Data: b}
	}
	var call gateway.ModelCall
	if err := json.Unmarshal([]byte(`{"receipt":{"id":"m1","model":"m","outcome":"ok","payer":"run"},
		"request":{"text":"{\"messages\":[{\"role\":\"user\",\"content\":\"find it\"}]}"},
		"message":{"content":"","tool_calls":[{"id":"c1","name":"search_web","arguments":"{\"query\":\"it\"}"}]}}`), &call); err != nil {
		t.Fatal(err)
	}
	tool := func(id, emitted string) gateway.ToolCallEvent {
		var e gateway.ToolCallEvent
		if err := json.Unmarshal([]byte(`{"arguments":{"query":"it"},"response":{"text":"found"}}`), &e); err != nil {
			t.Fatal(err)
		}
		e.Receipt = agon.Receipt{ID: id, Model: "search_web", Emitted: emitted, Cost: 5}
		return e
	}
	d, err := ATIF([]agon.Event{
		event(1, agon.EventModel, call), event(2, agon.EventTool, tool("t1", "m1")), event(3, agon.EventTool, tool("t2", "")),
	}, 1, Meta{Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var byModel, byCode int
	for _, s := range d.Steps {
		if s.Source != "agent" {
			continue
		}
		if s.LLMCalls != nil && *s.LLMCalls == 0 {
			byCode += len(s.ToolCalls)
			continue
		}
		byModel += len(s.ToolCalls)
		if len(s.ToolCalls) == 1 && (s.ToolCalls[0].Extra["receipt"] != "t1" || s.Observation == nil || s.Observation.Results[0].Content != "found") {
			t.Errorf("the model's call: %+v %+v", s.ToolCalls[0], s.Observation)
		}
	}
	if byModel != 1 || byCode != 1 || d.Final.Cost != 0.00001 {
		t.Errorf("%d by the model, %d by code, cost %v", byModel, byCode, d.Final.Cost)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(b); err != nil {
		t.Error(err)
	}
}
