package signin

import "strings"

// StatusMessage is what a validator signs to prove its status answer; status and
// running are those of the answer, requestTS the request's header X-Harnyx-Status-Ts.
func StatusMessage(requestTS, hotkey, status string, running bool) []byte {
	word := "False" // as Python prints it
	if running {
		word = "True"
	}
	return []byte(strings.Join([]string{
		"validator-status-v1", "path=/validator/status", "request_ts=" + requestTS,
		"hotkey=" + hotkey, "status=" + status, "running=" + word,
	}, "\n"))
}
