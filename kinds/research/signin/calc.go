package signin

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/calc"
)

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func("bitsota.canonical", "{json (text)} -> {canonical, sha256}: the body as BT-AUTH-V1 hashes it", calcCanonical),
		calc.Func("bitsota.signing_bytes", "{method, path, query, timestamp, body (text or null)} -> {hex}: what BT-AUTH-V1 signs", calcBitSota),
	}
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
	return hexOut{hex.EncodeToString(Message(in.Method, in.Path, in.Query, string(in.Timestamp), hash))}, nil
}
