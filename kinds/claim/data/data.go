// Package data carries the files of the claim arena in the binary: sample
// agents, the template of a first agent, and task sets.
//
// Embedding keeps neither modes nor links; package task restores both (see task.Load).
package data

import (
	"embed"
	"io/fs"
)

// FS holds samples/NAME (a sample agent; script.json is what a scripted model
// answers it and is never entered), template (what `agon agent new` writes)
// and tasks/SET/TASK.
//
//go:embed all:samples all:template all:tasks
var FS embed.FS

//go:embed all:query
var queryTree embed.FS

// Query holds the same of arenas of queries.
var Query = func() fs.FS {
	sub, err := fs.Sub(queryTree, "query")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return sub
}()
