package auth

import (
	"encoding/hex"
	"errors"
	"strings"

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
