// Package samples carries the sample agents in the binary.
package samples

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// FS holds the samples by kind and name: coding/repair/agent.py. A script.json
// beside an agent is what a scripted model answers it; it is never entered.
//
//go:embed all:coding all:claim all:research all:pack all:shopping
var FS embed.FS

//go:embed templates
var templateFS embed.FS

// Files beside a sample that are never entered: a script of a model, and what
// must come of the sample.
const (
	scriptFile = "script.json"
	expectFile = "expect.json"
)

// Files returns what a sample of a kind enters, by path.
func Files(kind, name string) (map[string][]byte, error) {
	dir := path.Join(kind, name)
	out := map[string][]byte{}
	err := fs.WalkDir(FS, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == path.Join(dir, scriptFile) || p == path.Join(dir, expectFile) {
			return err
		}
		b, err := FS.ReadFile(p)
		out[p[len(dir)+1:]] = b
		return err
	})
	if err != nil || len(out) == 0 || !strings.HasPrefix(dir, kind+"/") {
		return nil, fmt.Errorf("no sample %q of the kind %s", name, kind)
	}
	return out, nil
}

// Agents lists the sample agents of the coding kind, by name.
var Agents = []string{"nop", "repair", "llm"}

// Source returns the text of a coding sample's agent.py.
func Source(name string) ([]byte, error) { return agentFile("coding", name) }

// Script returns the script (JSON) on which the sample llm runs without a key.
func Script() []byte { return mustRead("coding/llm/script.json") }

// ClaimAgents lists the sample scripts of the claim kind, by name. The last
// one asks a model; without a key that is ClaimScript, so it takes no place.
var ClaimAgents = []string{"constant", "lexical", "search-llm"}

// ClaimSource returns the text of a claim sample's agent.py.
func ClaimSource(name string) ([]byte, error) { return agentFile("claim", name) }

// ClaimScript returns the script (JSON) on which search-llm runs without a key.
func ClaimScript() []byte { return mustRead("claim/search-llm/script.json") }

func agentFile(kind, name string) ([]byte, error) {
	files, err := Files(kind, name)
	if err != nil {
		return nil, err
	}
	return files["agent.py"], nil
}

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

// PackScript returns the script (JSON) on which the sample packs play without a key.
func PackScript() []byte { return mustRead("pack/optimised/script.json") }

// ShoppingScript returns the script (JSON) on which the shopping sample react runs without a key.
func ShoppingScript() []byte { return mustRead("shopping/react/script.json") }
