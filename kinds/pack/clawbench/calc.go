package clawbench

import (
	"encoding/json"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

type checkIn struct {
	Episode struct {
		Response string `json:"response"`
		Calls    []struct {
			Tool     string          `json:"tool"`
			Args     json.RawMessage `json:"args,omitempty"`
			Response json.RawMessage `json:"response,omitempty"`
		} `json:"tool_calls_raw"`
		ByType *json.RawMessage `json:"tool_calls_by_type"` // follow from the calls
		Total  *json.RawMessage `json:"tool_calls_total"`
	} `json:"episode"`
	Check Check `json:"check"`
}

type checkOut struct {
	Passed bool    `json:"passed"`
	Points float64 `json:"points"`
	Score  float64 `json:"score"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func("trajectoryrl.clawbench_check", "{episode, check} -> {passed, points, score}: a mechanical check of an episode", func(in checkIn) (checkOut, error) {
			e := Episode{Response: in.Episode.Response}
			for _, c := range in.Episode.Calls {
				call := Call{Tool: c.Tool}
				for raw, to := range map[*json.RawMessage]*packfile.Value{&c.Args: &call.Args, &c.Response: &call.Response} {
					if len(*raw) == 0 {
						continue
					}
					v, err := packfile.ParseLimit(*raw)
					if err != nil {
						return checkOut{}, err
					}
					*to = v
				}
				e.Calls = append(e.Calls, call)
			}
			r := Grade([]Check{in.Check}, e)
			return checkOut{r.Checks[0].Passed, r.Points, r.Score}, nil
		}),
		calc.Func("trajectoryrl.clawbench_gate", "{checks: [[category, passed]…]} -> {gate}", func(in struct {
			Checks []CategoryResult `json:"checks"`
		},
		) (out struct {
			Gate bool `json:"gate"`
		}, err error,
		) {
			out.Gate = Gate(in.Checks)
			return out, nil
		}),
	}
}
