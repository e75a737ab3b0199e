package signin

import (
	"strings"

	"github.com/agon-arena/agon/auth/signing"
)

// Colon is the form of ORO's headers, over their raw text. Nothing of the
// request is covered unless the nonce carries Bind.
func Colon(hotkey, timestamp, nonce string) []byte {
	return []byte(hotkey + ":" + timestamp + ":" + nonce)
}

// Bind is our addition to a form that signs a free nonce but not the request: a
// nonce that ends in "." and this text is bound to method, path, query and body.
// target is path and query as on the request line.
func Bind(method, target string, body []byte) string {
	return signing.BodyHash([]byte("agon-bind-v1\n" + strings.ToUpper(method) + "\n" + target + "\n" + signing.BodyHash(body)))
}
