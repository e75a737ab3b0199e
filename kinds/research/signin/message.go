package signin

import (
	"strings"
)

// Message is what BT-AUTH-V1 signs. path begins with "/" and has no query, query is raw,
// timestamp the header's text, bodyHash the hash of the canonical body
// (signing.CanonicalJSON) or signing.EmptyBody.
func Message(method, path, query, timestamp, bodyHash string) []byte {
	return []byte(strings.Join([]string{"BT-AUTH-V1", strings.ToUpper(method), path, query, timestamp, bodyHash}, "\n"))
}

// RecipientMessage is what an update of the recipient of rewards signs.
func RecipientMessage(timestamp, coldkey string) []byte {
	return []byte("recipient_coldkey:update:" + timestamp + ":" + coldkey)
}

// PoolMessage is what requests to the pool sign. The relay's sign the timestamp alone.
func PoolMessage(timestamp string) []byte { return []byte("auth:" + timestamp) }
