package signin

import (
	"strings"
)

// Message is the text of one purpose ("trajectoryrl-heartbeat"), with
// what else that purpose names: the epoch of a score, epoch and scenario of progress.
func Message(purpose, hotkey, timestamp string, more ...string) []byte {
	return []byte(strings.Join(append([]string{purpose, hotkey, timestamp}, more...), ":"))
}
