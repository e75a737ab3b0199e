// Package signing says which bytes each form of signed request covers: one pure
// function per form, for clients that sign and for servers that check. It holds
// no keys and checks no signature; package dialect does.
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

// Epistula is version 2 of that form: body bytes as sent, the headers' text
// for the rest; signedFor is the receiver's address or "". Method and path are not covered.
func Epistula(body []byte, uuid, timestamp, signedFor string) []byte {
	return []byte(BodyHash(body) + "." + uuid + "." + timestamp + "." + signedFor)
}

// Colon is the form of ORO's headers, over their raw text. Nothing of the
// request is covered unless the nonce carries Bind.
func Colon(hotkey, timestamp, nonce string) []byte {
	return []byte(hotkey + ":" + timestamp + ":" + nonce)
}

// Bind is our addition to a form that signs a free nonce but not the request: a
// nonce that ends in "." and this text is bound to method, path, query and body.
// target is path and query as on the request line.
func Bind(method, target string, body []byte) string {
	return BodyHash([]byte("agon-bind-v1\n" + strings.ToUpper(method) + "\n" + target + "\n" + BodyHash(body)))
}

// Caster is the form of Caster and Harnyx. target is the path and, when there is
// one, "?" and the query; an empty one stands for "/".
func Caster(method, target string, body []byte) []byte {
	if target == "" {
		target = "/"
	}
	return []byte(strings.ToUpper(method) + "\n" + target + "\n" + BodyHash(body))
}

// CasterStatus is what a validator signs to prove its status answer; status and
// running are those of the answer, requestTS the request's header X-Harnyx-Status-Ts.
func CasterStatus(requestTS, hotkey, status string, running bool) []byte {
	word := "False" // as Python prints it
	if running {
		word = "True"
	}
	return []byte(strings.Join([]string{
		"validator-status-v1", "path=/validator/status", "request_ts=" + requestTS,
		"hotkey=" + hotkey, "status=" + status, "running=" + word,
	}, "\n"))
}

// BitSota is BT-AUTH-V1. path begins with "/" and has no query, query is raw,
// timestamp the header's text, bodyHash the hash of the canonical body
// (CanonicalJSON) or EmptyBody.
func BitSota(method, path, query, timestamp, bodyHash string) []byte {
	return []byte(strings.Join([]string{"BT-AUTH-V1", strings.ToUpper(method), path, query, timestamp, bodyHash}, "\n"))
}

// BitSotaRecipient is what an update of the recipient of rewards signs.
func BitSotaRecipient(timestamp, coldkey string) []byte {
	return []byte("recipient_coldkey:update:" + timestamp + ":" + coldkey)
}

// BitSotaPool is what requests to the pool sign. The relay's sign the timestamp alone.
func BitSotaPool(timestamp string) []byte { return []byte("auth:" + timestamp) }

// TrajectoryRL is the message of one purpose ("trajectoryrl-heartbeat"), with
// what else that purpose names: the epoch of a score, epoch and scenario of progress.
func TrajectoryRL(purpose, hotkey, timestamp string, more ...string) []byte {
	return []byte(strings.Join(append([]string{purpose, hotkey, timestamp}, more...), ":"))
}

// RidgesFileInfo is what an upload signs.
func RidgesFileInfo(hotkey, sha256hex, version string) []byte {
	return []byte(hotkey + ":" + sha256hex + ":" + version)
}

// RidgesPrepare is what /upload/prepare signs.
func RidgesPrepare(hotkey string) []byte { return []byte("ridges-upload-prepare:v2:" + hotkey) }

// RidgesHello is what a validator of the first era signs on its web socket.
func RidgesHello(hotkey, commit, timestamp string) []byte {
	return []byte("validator-auth:" + hotkey + ":" + commit + ":" + timestamp)
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
