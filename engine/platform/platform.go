// Package platform holds the use cases of the server: admit, queue, lease,
// settle, decide. It owns the state machines; it knows no HTTP.
package platform

// Caller is who asks, after the signature was checked.
type Caller struct {
	Hotkey   string // SS58; empty for anonymous reads
	Operator bool
	// Wire names the foreign protocol through which a validator speaks; empty:
	// agon's own, whose validators send evidence and statements.
	Wire string
}
