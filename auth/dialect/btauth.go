package dialect

import (
	"context"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

// Times of btauth/1: the SDK's defaults.
const (
	btMaxAge = 10 * time.Second
	btSkew   = 2 * time.Second
)

// Headers of btauth/1.
const (
	btVersion   = "X-Bittensor-Version"
	btHotkey    = "X-Bittensor-Hotkey"
	btReceiver  = "X-Bittensor-Receiver"
	btNonce     = "X-Bittensor-Nonce"
	btCrypto    = "X-Bittensor-Crypto"
	btSignature = "X-Bittensor-Signature"
)

// BTAuth is btauth/1, with which the Bittensor SDK replaced dendrite and axon in
// version 11. The signature covers method, path, query, body, time, sender and receiver.
type BTAuth struct {
	// Self is our own address: a request that was signed for another receiver, or
	// for none, is refused.
	Self string
}

// Name implements Dialect.
func (b BTAuth) Name() string { return "btauth/1" }

// Speaks implements Dialect.
func (b BTAuth) Speaks(r *Request) bool {
	return r.Any(btVersion, btHotkey, btReceiver, btNonce, btCrypto, btSignature)
}

// btClaim is what the headers of a request say.
type btClaim struct {
	hotkey, nonce string
	at            time.Time
	scheme        auth.Scheme
	sig           []byte
}

// CheckHeaders reads what can be checked before the body is there: form, receiver
// and time. It tells who claims to have signed.
func (b BTAuth) CheckHeaders(h http.Header, now time.Time) (hotkey string, refused *Refusal) {
	c, refused := b.claim(&Request{Header: h}, now)
	return c.hotkey, refused
}

func (b BTAuth) claim(r *Request, now time.Time) (c btClaim, refused *Refusal) {
	no := func(text string, err error) (btClaim, *Refusal) {
		return btClaim{}, Plain(http.StatusUnauthorized, text, err)
	}
	if version, _ := r.Get(btVersion); version != "1" {
		return no("missing or unsupported "+btVersion+" (expected '1')", nil)
	}
	var ok bool
	if c.hotkey, ok = r.Get(btHotkey); !ok || c.hotkey == "" {
		return no("missing "+btHotkey, nil)
	}
	if c.nonce, ok = r.Get(btNonce); !ok {
		return no("missing "+btNonce, nil)
	}
	// One spelling a number: what is signed is the number, and what is remembered is it too.
	nonce, err := strconv.ParseInt(c.nonce, 10, 64)
	if err != nil || nonce < 0 || strconv.FormatInt(nonce, 10) != c.nonce {
		return no(btNonce+" is not a decimal integer", err)
	}
	c.at, c.scheme = time.Unix(0, nonce), auth.Sr25519
	if name, ok := r.Get(btCrypto); ok {
		switch name {
		case auth.Sr25519.String():
		case auth.Ed25519.String():
			c.scheme = auth.Ed25519
		default:
			return no("unsupported "+btCrypto, nil)
		}
	}
	signature, ok := r.Get(btSignature)
	if !ok {
		return no("missing "+btSignature, nil)
	}
	if c.sig, err = Unhex(signature, auth.SignatureSize); err != nil {
		return no(btSignature+" is not hex", err)
	}
	switch receiver, ok := r.Get(btReceiver); {
	case !ok:
		return no("missing "+btReceiver+": this server requires receiver-bound requests", nil)
	case receiver != b.Self:
		return no("request was signed for a different receiving hotkey", nil)
	}
	switch age := now.Sub(c.at); {
	case age > btMaxAge:
		return no("nonce is older than the 10s freshness window", nil)
	case -age > btSkew:
		return no("nonce is more than 2s in the future", nil)
	}
	return c, nil
}

// Check implements Dialect, in the SDK's order: form, receiver, time, signature, replay.
func (b BTAuth) Check(ctx context.Context, v *Verifier, r *Request, need Need) (Identity, *Refusal) {
	c, refused := b.claim(r, v.Now())
	if refused != nil {
		return Identity{}, refused
	}
	no := func(text string, err error) (Identity, *Refusal) {
		return Identity{}, Plain(http.StatusUnauthorized, text, err)
	}
	pub, err := auth.ParseSS58(c.hotkey)
	if err != nil {
		return no("invalid hotkey address or signature encoding", err)
	}
	msg := signing.BTAuth(c.scheme.String(), r.Method, r.Target(), r.Body, c.nonce, c.hotkey, b.Self)
	if err := auth.VerifyPublic(c.scheme, pub, msg, c.sig); err != nil {
		return no("signature does not verify against the claimed hotkey", err)
	}
	fresh, err := v.Once(ctx, b.Name(), c.hotkey, c.nonce, c.at.Add(btMaxAge+btSkew+time.Second))
	if err != nil {
		return Identity{}, PlainBroken(err)
	}
	if !fresh {
		return no("this nonce was already accepted from this hotkey", nil)
	}
	member, standing, err := v.Standing(ctx, c.hotkey, need)
	if refusal := PlainStanding(standing, err); refusal != nil {
		return Identity{}, refusal
	}
	return Identity{Hotkey: c.hotkey, Dialect: b.Name(), At: c.at, Bound: true, Member: member}, nil
}

// BTSigner signs requests: a key, or an agent that holds one.
type BTSigner interface {
	SS58() string
	Sign(msg []byte) ([]byte, error)
}

// SignBTAuth makes the headers of a request. target is path and query as they
// are sent; receiver is the address of the server's hotkey, "" for whoever takes
// that. Each try of a request is signed anew: its time is its nonce.
func SignBTAuth(key BTSigner, method, target string, body []byte, receiver string, now time.Time) (http.Header, error) {
	scheme, to, nonce := auth.Sr25519, receiver, strconv.FormatInt(now.UnixNano(), 10)
	if s, ok := key.(interface{ Scheme() auth.Scheme }); ok {
		scheme = s.Scheme()
	}
	if to == "" {
		to = "-"
	}
	sig, err := key.Sign(signing.BTAuth(scheme.String(), method, target, body, nonce, key.SS58(), to))
	if err != nil {
		return nil, err
	}
	h := http.Header{}
	h.Set(btVersion, "1")
	h.Set(btHotkey, key.SS58())
	h.Set(btNonce, nonce)
	h.Set(btSignature, "0x"+hex.EncodeToString(sig))
	if receiver != "" {
		h.Set(btReceiver, receiver)
	}
	if scheme != auth.Sr25519 {
		h.Set(btCrypto, scheme.String())
	}
	return h, nil
}
