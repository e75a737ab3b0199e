package consensus

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/calc"
)

// vote is [validator, stake, {miner: cost}, {miner: bool}].
type vote struct{ Submission }

// UnmarshalJSON implements json.Unmarshaler.
func (v *vote) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil || len(parts) != 4 {
		return errors.New("votes: want [validator, stake, costs, qualified] each")
	}
	for i, to := range []any{&v.Hotkey, &v.Stake, &v.Payload.Costs, &v.Payload.Qualified} {
		if err := json.Unmarshal(parts[i], to); err != nil {
			return fmt.Errorf("votes: %w", err)
		}
	}
	return nil
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func("trajectoryrl.consensus_payload", "{payload} -> {serialized, hash}: the bytes of a payload and their name", func(in struct {
			Payload json.RawMessage `json:"payload"`
		},
		) (out struct {
			Serialized string `json:"serialized"`
			Hash       string `json:"hash"`
		}, err error,
		) {
			p, err := Parse(in.Payload)
			if err != nil {
				return out, err
			}
			out.Serialized, out.Hash = string(p.Canonical()), string(p.Hash())
			return out, nil
		}),
		calc.Func("trajectoryrl.consensus_cost_v1", "{votes: [[validator, stake, {miner: cost}, {miner: bool}]…]} -> {cost, qualified} by miner", func(in struct {
			Votes []vote `json:"votes"`
		},
		) (out struct {
			Cost      map[string]float64 `json:"cost"`
			Qualified map[string]bool    `json:"qualified"`
		}, err error,
		) {
			list := make([]Submission, len(in.Votes))
			for i, v := range in.Votes {
				list[i] = v.Submission
			}
			out.Cost, out.Qualified = map[string]float64{}, map[string]bool{}
			for k, r := range Aggregate(list, 0, false) {
				out.Cost[k], out.Qualified[k] = r.Cost, r.Qualified
			}
			return out, nil
		}),
	}
}
