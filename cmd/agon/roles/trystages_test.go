package roles

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
)

// stages plans one task at a time, as kinds do that stop at the first failure,
// and asks for the first one again at the end.
type stages struct{ kind.Kind }

func (stages) Plan(v agon.View) (agon.Plan, error) {
	i := len(v.Runs) % len(v.Arena.Tasks)
	return agon.Plan{Runs: []agon.RunSpec{{Tasks: v.Arena.Tasks[i : i+1]}}}, nil
}

// A plan in stages is tried to its end, and no task twice.
func TestTryRunsInStages(t *testing.T) {
	refs := []agon.TaskRef{{Key: "a"}, {Key: "b"}}
	var over []agon.Run
	for _, want := range []string{"a", "b", ""} {
		got, err := tryRuns(stages{}, agon.Arena{ID: "x"}, agon.Submission{}, refs, over)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if len(got) != 0 {
				t.Fatalf("after all: %+v", got)
			}
			return
		}
		if len(got) != 1 || got[0].Tasks[0].Key != want || got[0].Run != "try-"+string(rune('1'+len(over))) {
			t.Fatalf("want %s, got %+v", want, got)
		}
		over = append(over, agon.Run{RunSpec: got[0], State: agon.RunScored})
	}
}
