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
