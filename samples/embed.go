// Package samples carries the sample agents in the binary.
package samples

import (
	"embed"
	"fmt"
)

//go:embed coding/nop/agent.py coding/repair/agent.py coding/llm/agent.py coding/llm/script.json coding/template/agent.py
var files embed.FS

// Agents lists the sample agents of the coding kind, by name.
var Agents = []string{"nop", "repair", "llm"}

// Source returns the text of a sample's agent.py.
func Source(name string) ([]byte, error) {
	b, err := files.ReadFile("coding/" + name + "/agent.py")
	if err != nil {
		return nil, fmt.Errorf("no sample agent %q", name)
	}
	return b, nil
}

// Script returns the script (JSON) on which the sample llm runs without a key.
func Script() []byte { return mustRead("coding/llm/script.json") }

// Template returns the commented agent that `agon agent new coding` writes.
func Template() []byte { return mustRead("coding/template/agent.py") }

// mustRead reads a file that the compiler has put in.
func mustRead(name string) []byte {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return b
}
