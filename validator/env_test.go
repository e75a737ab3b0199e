package validator

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// Batches are bounded in number and in bytes; one event always goes.
func TestUnsent(t *testing.T) {
	r := &recorder{run: "r", attempt: 1, now: time.Now}
	big := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 900)) + `"`)
	for range 5 {
		r.Record("note", "", big)
	}
	var sizes []int
	for {
		evs, more := r.unsent(3, 3000)
		sizes = append(sizes, len(evs))
		r.ack(len(evs))
		if !more {
			break
		}
	}
	if len(sizes) != 3 || sizes[0] != 2 || sizes[1] != 2 || sizes[2] != 1 {
		t.Errorf("batches %v", sizes)
	}
	r.Record("note", "", big)
	if evs, more := r.unsent(3, 1); len(evs) != 1 || more {
		t.Errorf("a large event is stuck: %d %v", len(evs), more)
	}
	r.ack(1)
	if evs, more := r.unsent(3, 1); len(evs) != 0 || more {
		t.Errorf("nothing is left, got %d %v", len(evs), more)
	}
}

// A provider that failed and then served again is not to blame for what came after.
func TestRecoveredProviderIsNotToBlame(t *testing.T) {
	rec := agon.Record{Outcome: "raised"}
	o := Observed{AgentStarted: true, Gateway: gateway.Evidence{ProviderErrors: 1, CanaryFailed: true, LastError: "server"}}
	if f, _ := AssignFault(o, rec, nil, nil, false); f != agon.FaultProvider {
		t.Errorf("down to the end: %s", f)
	}
	o.Gateway.Recovered = true
	if f, _ := AssignFault(o, rec, nil, nil, false); f != agon.FaultAgent {
		t.Errorf("served again: %s", f)
	}
}
