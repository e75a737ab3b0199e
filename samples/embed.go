// Package samples carries the sample agents in the binary.
package samples

import (
	"embed"
	"fmt"
	"io/fs"
)

// FS holds the samples by kind and name: coding/repair/agent.py.
//
//go:embed coding/nop/agent.py coding/repair/agent.py coding/llm/agent.py coding/llm/script.json
var FS embed.FS

//go:embed templates
var templateFS embed.FS

// Agents lists the sample agents of the coding kind, by name.
var Agents = []string{"nop", "repair", "llm"}

// Source returns the text of a sample's agent.py.
func Source(name string) ([]byte, error) {
	b, err := FS.ReadFile("coding/" + name + "/agent.py")
	if err != nil {
		return nil, fmt.Errorf("no sample agent %q", name)
	}
	return b, nil
}

// Script returns the script (JSON) on which the sample llm runs without a key.
func Script() []byte { return mustRead("coding/llm/script.json") }

// Templates holds what `agon agent new KIND` writes, one directory per kind.
func Templates() fs.FS {
	sub, err := fs.Sub(templateFS, "templates")
	if err != nil {
		panic(err) // the name is a constant
	}
	return sub
}

// mustRead reads a file that the compiler has put in.
func mustRead(name string) []byte {
	b, err := FS.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return b
}
