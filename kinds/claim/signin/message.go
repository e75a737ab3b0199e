package signin

import (
	"strings"

	"github.com/agon-arena/agon/auth/signing"
)

// Message is what the header of Caster and Harnyx signs: method, target and the
// hash of the body. target is the path and, when there is one, "?" and the
// query; an empty one stands for "/".
func Message(method, target string, body []byte) []byte {
	if target == "" {
		target = "/"
	}
	return []byte(strings.ToUpper(method) + "\n" + target + "\n" + signing.BodyHash(body))
}

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
