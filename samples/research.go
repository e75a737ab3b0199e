package samples

import (
	"encoding/json"
	"fmt"
	"io/fs"
)

// ResearchExpect is what must come of a sample of a research task.
type ResearchExpect struct {
	Status string `json:"status"` // accepted or rejected
	Reason string `json:"reason"` // code of a rejection
	Better bool   `json:"better"` // its number beats the base's
}

// ResearchSample is an entry of a research task: an honest improvement or a cheat.
type ResearchSample struct {
	Task, Name string
	Patch      []byte
	Claim      []byte // claim.json
	Expect     ResearchExpect
}

// Research returns the samples of a shipped research task, by name.
func Research(task string) ([]ResearchSample, error) {
	entries, err := fs.ReadDir(FS, "research/"+task)
	if err != nil {
		return nil, fmt.Errorf("no samples of research task %q", task)
	}
	var out []ResearchSample
	for _, e := range entries {
		dir := "research/" + task + "/" + e.Name() + "/"
		s := ResearchSample{Task: task, Name: e.Name(), Patch: mustRead(dir + "patch.diff"), Claim: mustRead(dir + "claim.json")}
		if err := json.Unmarshal(mustRead(dir+"expect.json"), &s.Expect); err != nil {
			return nil, fmt.Errorf("read what sample %s expects: %w", e.Name(), err)
		}
		out = append(out, s)
	}
	return out, nil
}
