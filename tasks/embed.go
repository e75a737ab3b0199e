// Package tasks holds the task sets that come with agon. Their committed files
// are part of the binary; package task reads them.
//
// A set is a directory kind/name with one directory per task. Embedding keeps
// neither modes nor links; package task restores both (see task.Load).
package tasks

import "embed"

// FS holds the committed files of every set: "coding/small", "coding/released",
// "claim/demo", "shopping/demo"; "claim/documents" is what scripts of the latter may search.
//
//go:embed all:coding all:claim all:research all:pack all:shopping
var FS embed.FS
