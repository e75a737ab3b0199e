package agon

import "fmt"

// Error is the one coded error that crosses a package edge to a user. The API
// maps it to problem+json, the CLI to an exit code.
type Error struct {
	Code    string // stable, e.g. "not_found", "too_large", "duplicate"
	Status  int    // HTTP status
	Field   string // what the user gave, if one thing is wrong
	Limit   string // the bound that was passed, with unit
	Message string // what is wrong
	Mend    string // what to do about it
	Fault   Fault
	Err     error // cause, for logs only
	// Findings lists every reason where there are several.
	Findings []Finding
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }
