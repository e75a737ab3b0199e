package consensus

import (
	"reflect"
	"testing"
)

// Payloads with the figures of another are found; independent plays, and packs that
// nobody paid for, are not.
func TestAlike(t *testing.T) {
	say := func(hotkey string, costs map[string]float64) Submission {
		return Submission{Hotkey: hotkey, Payload: Payload{Costs: costs}}
	}
	first := map[string]float64{"m1": 0.0123, "m2": 0.0456, "m3": 0}
	got := alike([]Submission{
		say("v4", map[string]float64{"m1": 0.0123, "m2": 0.0456}), // a pack without a cost tells nothing
		say("v1", first), say("v2", map[string]float64{"m1": 0.0123, "m2": 0.0457}), say("v3", map[string]float64{"m1": 0.0123, "m2": 0.0456, "m9": 0.1}),
		say("v5", map[string]float64{"m1": 0.0123}), say("v6", map[string]float64{"m1": 0.0123}), say("v7", nil), say("v8", map[string]float64{}),
	})
	if want := []Alike{{[]string{"v1", "v4"}, 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("alike %v, want %v", got, want)
	}
}
