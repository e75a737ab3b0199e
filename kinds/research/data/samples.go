package data

import (
	"encoding/json"
	"fmt"
	"io/fs"
)

// Expect is what must come of a sample of a task.
type Expect struct {
	Status string `json:"status"` // accepted or rejected
	Reason string `json:"reason"` // code of a rejection
	Better bool   `json:"better"` // its number beats the base's
	// Beats names the record before it: another sample, which it takes the seat from.
	Beats string `json:"beats"`
}

// Sample is an entry of a task: an honest improvement or a cheat.
type Sample struct {
	Task, Name string
	Patch      []byte
	Claim      []byte // claim.json
	Expect     Expect
}

// Samples returns the samples of a shipped task, by name.
func Samples(task string) ([]Sample, error) {
	entries, err := fs.ReadDir(FS, "samples/"+task)
	if err != nil {
		return nil, fmt.Errorf("no samples of research task %q", task)
	}
	var out []Sample
	for _, e := range entries {
		dir := "samples/" + task + "/" + e.Name() + "/"
		s := Sample{Task: task, Name: e.Name()}
		var expect []byte
		for name, into := range map[string]*[]byte{"patch.diff": &s.Patch, "claim.json": &s.Claim, "expect.json": &expect} {
			if *into, err = FS.ReadFile(dir + name); err != nil {
				return nil, fmt.Errorf("read sample %s: %w", e.Name(), err)
			}
		}
		if err := json.Unmarshal(expect, &s.Expect); err != nil {
			return nil, fmt.Errorf("read what sample %s expects: %w", e.Name(), err)
		}
		out = append(out, s)
	}
	return out, nil
}
