package auth

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/calc"
)

type addressIn struct {
	URI      string `json:"uri,omitempty"`
	Mnemonic string `json:"mnemonic,omitempty"`
}

type addressOut struct {
	SS58      string `json:"ss58"`
	PublicHex string `json:"public_hex"`
}

type verifyIn struct {
	SS58         string `json:"ss58"`
	MessageHex   string `json:"message_hex"`
	SignatureHex string `json:"signature_hex"`
}

type verifyOut struct {
	OK bool `json:"ok"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func("chain.address", "{uri|mnemonic} -> {ss58, public_hex}: sr25519 address of a secret", calcAddress),
		calc.Func("chain.verify", "{ss58, message_hex, signature_hex} -> {ok}: sr25519, plain or <Bytes> form", calcVerify),
		calc.Func("bitsota.canonical", "{json (text)} -> {canonical, sha256}: the body as BT-AUTH-V1 hashes it", calcCanonical),
		calc.Func("bitsota.signing_bytes", "{method, path, query, timestamp, body (text or null)} -> {hex}: what BT-AUTH-V1 signs", calcBitSota),
		calc.Func("caster.signing_bytes", "{method, path_qs, body (text)} -> {hex}: what Caster's header signs", calcCaster),
	}
}

func calcAddress(in addressIn) (addressOut, error) {
	var key *Key
	var err error
	switch {
	case (in.URI == "") == (in.Mnemonic == ""):
		return addressOut{}, errors.New("give either uri or mnemonic")
	case in.URI != "":
		key, err = KeyFromURI(in.URI)
	default:
		key, err = KeyFromMnemonic(Sr25519, in.Mnemonic, "")
	}
	if err != nil {
		return addressOut{}, err
	}
	return addressOut{SS58: key.SS58(), PublicHex: key.PublicHex()}, nil
}

// calcVerify answers false for a signature that cannot hold, well-formed or
// not; only an address or hex that cannot be read is an error.
func calcVerify(in verifyIn) (verifyOut, error) {
	pub, _, err := DecodeSS58(in.SS58)
	if err != nil {
		return verifyOut{}, err
	}
	msg, err := hex.DecodeString(strings.TrimPrefix(in.MessageHex, "0x"))
	if err != nil {
		return verifyOut{}, errors.New("message_hex is not hex")
	}
	sig, err := hex.DecodeString(strings.TrimPrefix(in.SignatureHex, "0x"))
	if err != nil {
		return verifyOut{}, errors.New("signature_hex is not hex")
	}
	return verifyOut{OK: VerifyPublic(Sr25519, pub, msg, sig) == nil}, nil
}

type canonicalIn struct {
	JSON string `json:"json"`
}

type canonicalOut struct {
	Canonical string `json:"canonical"`
	SHA256    string `json:"sha256"`
}

func calcCanonical(in canonicalIn) (canonicalOut, error) {
	b, err := signing.CanonicalJSON([]byte(in.JSON))
	if err != nil {
		return canonicalOut{}, err
	}
	return canonicalOut{Canonical: string(b), SHA256: signing.BodyHash(b)}, nil
}

type bitsotaIn struct {
	Method    string  `json:"method"`
	Path      string  `json:"path"`
	Query     string  `json:"query,omitempty"`
	Timestamp decText `json:"timestamp"`
	Body      *string `json:"body"` // null or "": none
}

type hexOut struct {
	Hex string `json:"hex"`
}

// decText is a decimal number that may be given as a number or as text.
type decText string

// UnmarshalJSON implements json.Unmarshaler.
func (d *decText) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "" || len(s) > 20 || strings.Trim(s, "0123456789") != "" {
		return errors.New("timestamp is not decimal Unix seconds")
	}
	*d = decText(s)
	return nil
}

func calcBitSota(in bitsotaIn) (hexOut, error) {
	hash := signing.EmptyBody
	if in.Body != nil && *in.Body != "" {
		b, err := signing.CanonicalJSON([]byte(*in.Body))
		if err != nil {
			return hexOut{}, err
		}
		hash = signing.BodyHash(b)
	}
	return hexOut{hex.EncodeToString(signing.BitSota(in.Method, in.Path, in.Query, string(in.Timestamp), hash))}, nil
}

type casterIn struct {
	Method string `json:"method"`
	PathQS string `json:"path_qs"`
	Body   string `json:"body,omitempty"`
}

func calcCaster(in casterIn) (hexOut, error) {
	return hexOut{hex.EncodeToString(signing.Caster(in.Method, in.PathQS, []byte(in.Body)))}, nil
}
