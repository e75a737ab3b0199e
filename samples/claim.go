package samples

import (
	"embed"
	"fmt"
)

//go:embed claim/constant/agent.py claim/lexical/agent.py claim/search-llm/agent.py claim/search-llm/script.json
var claimFS embed.FS

// ClaimAgents lists the sample scripts of the claim kind, by name. The last
// one asks a model; without a key that is ClaimScript, so it takes no place.
var ClaimAgents = []string{"constant", "lexical", "search-llm"}

// ClaimSource returns the text of a claim sample's agent.py.
func ClaimSource(name string) ([]byte, error) {
	b, err := claimFS.ReadFile("claim/" + name + "/agent.py")
	if err != nil {
		return nil, fmt.Errorf("no sample script %q", name)
	}
	return b, nil
}

// ClaimScript returns the script (JSON) on which search-llm runs without a key.
func ClaimScript() []byte {
	b, err := claimFS.ReadFile("claim/search-llm/script.json")
	if err != nil {
		panic(err) // the compiler has put it in
	}
	return b
}
