package timelock

import (
	"encoding/hex"
	"errors"
	"strings"

	"github.com/agon-arena/agon/calc"
)

type decryptIn struct {
	CiphertextHex string `json:"ciphertext_hex"`
	SignatureHex  string `json:"signature_hex"`
}

type decryptOut struct {
	PlaintextHex string `json:"plaintext_hex"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{calc.Func("chain.timelock_decrypt", "{ciphertext_hex, signature_hex} -> {plaintext_hex}: a drand timelock of version 4, opened with its round's signature", calcDecrypt)}
}

func calcDecrypt(in decryptIn) (decryptOut, error) {
	c, err := hex.DecodeString(strings.TrimPrefix(in.CiphertextHex, "0x"))
	if err != nil {
		return decryptOut{}, errors.New("ciphertext_hex is not hex")
	}
	s, err := hex.DecodeString(strings.TrimPrefix(in.SignatureHex, "0x"))
	if err != nil {
		return decryptOut{}, errors.New("signature_hex is not hex")
	}
	plain, err := Decrypt(c, s)
	if err != nil {
		return decryptOut{}, err
	}
	return decryptOut{hex.EncodeToString(plain)}, nil
}
