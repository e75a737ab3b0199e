package play

import (
	"strings"

	"github.com/agon-arena/agon/internal/plain"
)

// NoteReplay is the text of the note that says what a replay came to.
const NoteReplay = "replay"

// Replay is the data of that note: the patch, and the metric beside its rival's.
type Replay struct {
	Text      string  `json:"text"` // NoteReplay
	Metric    string  `json:"metric"`
	Direction string  `json:"direction"` // agon.Minimize or agon.Maximize
	Baseline  float64 `json:"baseline"`  // of the unpatched base
	Status    string  `json:"status"`    // as of Observed
	Reason    string  `json:"reason,omitempty"`
	Notes     string  `json:"notes,omitempty"`
	// Observed is the metric of this replay, Claimed that of the miner; nil: there is none.
	Observed *float64           `json:"observed,omitempty"`
	Claimed  *float64           `json:"claimed,omitempty"`
	Others   map[string]float64 `json:"others,omitempty"` // further numbers of the benchmark, by name
	Duel     []DuelPair         `json:"duel,omitempty"`
	// Rival is the submission that was replayed beside it; empty: none, or the base.
	Rival   string   `json:"rival,omitempty"`
	Patch   string   `json:"patch,omitempty"`
	Cut     bool     `json:"cut,omitempty"` // the patch is longer
	Changed []string `json:"changed,omitempty"`
}

// Bounds of a note.
const (
	maxNotePatch = 64 << 10
	maxNotePaths = 200
)

// note says what the replay came to. The patch is the miner's own text.
func (p *player) note(obs Observed) Replay {
	n := Replay{
		Text: NoteReplay, Metric: p.t.MetricName, Direction: p.t.MetricDirection, Baseline: p.t.Baseline, Status: obs.Status,
		Reason: plain.Short(obs.Reason, 100), Notes: plain.Short(obs.Notes, 400), Claimed: obs.Claimed, Duel: obs.Duel,
		Patch: strings.ToValidUTF8(string(p.patch[:min(len(p.patch), maxNotePatch)]), "\ufffd"), Cut: len(p.patch) > maxNotePatch,
	}
	for name, x := range obs.Metrics {
		if name == p.t.MetricName {
			n.Observed = &x
			continue
		}
		if n.Others == nil {
			n.Others = map[string]float64{}
		}
		n.Others[name] = x
	}
	for _, path := range obs.Changed[:min(len(obs.Changed), maxNotePaths)] {
		n.Changed = append(n.Changed, plain.Short(path, 300))
	}
	if p.run.Rival != nil {
		n.Rival = p.run.Rival.Submission
	}
	return n
}
