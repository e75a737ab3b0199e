// Package signing holds what several forms of signed request need to say which
// bytes they cover: hashes of bodies and JSON as other programs print it. It
// holds no keys and checks no signature; package dialect does.
package signing

import (
	"crypto/sha256"
	"crypto/sha3"
	"encoding/hex"
	"strings"
)

// EmptyBody is the SHA-256 of no bytes, in hex.
const EmptyBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// BodyHash is the SHA-256 of body in lower-case hex.
func BodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Native is the form of the Bittensor SDK. receiver is the receiver's own
// address, whatever the headers say.
func Native(nonce, sender, receiver, uuid, bodyHash string) []byte {
	return []byte(nonce + "." + sender + "." + receiver + "." + uuid + "." + bodyHash)
}

// NativeBodyHash hashes the required fields as the SDK does; values are their
// texts as Python prints them (PythonText), in the order of the class. With no
// fields the body is not covered at all.
func NativeBodyHash(values ...string) string {
	all := sha3.New256()
	for _, v := range values {
		sum := sha3.Sum256([]byte(v))
		all.Write([]byte(hex.EncodeToString(sum[:])))
	}
	return hex.EncodeToString(all.Sum(nil))
}

// BTAuth is the form btauth/1 of the Bittensor SDK since version 11. target is
// path and query as on the request line; nonce is the time in nanoseconds;
// receiver is "-" for none.
func BTAuth(scheme, method, target string, body []byte, nonce, sender, receiver string) []byte {
	return []byte(strings.Join([]string{"btauth/1", scheme, strings.ToUpper(method), target, BodyHash(body), nonce, sender, receiver}, "\n"))
}
