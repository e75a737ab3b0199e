package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"

	"golang.org/x/crypto/blake2b"
)

// SS58Prefix is the network prefix of every address that agon writes.
const SS58Prefix uint16 = 42

// maxSS58 bounds an address before it is read. A 32-byte key with a two-byte
// prefix and checksum needs at most 50 characters.
const maxSS58 = 64

const base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// EncodeSS58 writes the address of pub with prefix 42.
func EncodeSS58(pub [32]byte) string { return encodeSS58(pub, SS58Prefix) }

func encodeSS58(pub [32]byte, prefix uint16) string {
	var raw []byte
	if prefix < 64 {
		raw = append(raw, byte(prefix))
	} else {
		// Two bytes: the low six of the upper byte carry bits 2..7, the rest is spread as the registry says.
		raw = append(raw, byte(prefix&0xfc>>2)|0x40, byte(prefix>>8)|byte(prefix&3<<6))
	}
	raw = append(raw, pub[:]...)
	sum := ss58Checksum(raw)
	return encodeBase58(append(raw, sum[0], sum[1]))
}

// DecodeSS58 reads an address of any network and returns its key and prefix.
// Only the canonical form of a 32-byte key with a right checksum is accepted.
func DecodeSS58(s string) (pub [32]byte, prefix uint16, err error) {
	if s == "" {
		return pub, 0, errors.New("address is empty")
	}
	if len(s) > maxSS58 {
		return pub, 0, fmt.Errorf("address of %d characters: at most %d", len(s), maxSS58)
	}
	raw, err := decodeBase58(s)
	if err != nil {
		return pub, 0, fmt.Errorf("decode address: %w", err)
	}
	head := 1
	switch {
	case len(raw) < 2:
		return pub, 0, fmt.Errorf("address of %d bytes: too short", len(raw))
	case raw[0] < 64:
		prefix = uint16(raw[0])
	case raw[0] < 128:
		head = 2
		prefix = uint16(raw[0]&0x3f)<<2 | uint16(raw[1]>>6) | uint16(raw[1]&0x3f)<<8
		if prefix < 64 {
			return pub, 0, fmt.Errorf("address prefix %d in the long form", prefix)
		}
	default:
		return pub, 0, fmt.Errorf("address prefix byte %d is reserved", raw[0])
	}
	if len(raw) != head+32+2 {
		return pub, 0, fmt.Errorf("address of %d bytes: want %d", len(raw), head+32+2)
	}
	body := raw[:head+32]
	sum := ss58Checksum(body)
	if subtle.ConstantTimeCompare(sum[:2], raw[head+32:]) != 1 {
		return pub, 0, errors.New("address checksum is wrong")
	}
	copy(pub[:], body[head:])
	return pub, prefix, nil
}

// ParseSS58 reads an address of our network (prefix 42). Another network's
// form of the same key is refused: one key must have one name.
func ParseSS58(s string) ([32]byte, error) {
	pub, prefix, err := DecodeSS58(s)
	if err != nil {
		return pub, err
	}
	if prefix != SS58Prefix {
		return pub, fmt.Errorf("address prefix %d: want %d", prefix, SS58Prefix)
	}
	return pub, nil
}

func ss58Checksum(body []byte) [64]byte {
	return blake2b.Sum512(append([]byte("SS58PRE"), body...))
}

func encodeBase58(raw []byte) string {
	zeros := 0
	for zeros < len(raw) && raw[zeros] == 0 {
		zeros++
	}
	digits := make([]byte, 0, len(raw)*138/100+1) // little-endian, base 58
	for _, b := range raw[zeros:] {
		carry := int(b)
		for i := range digits {
			carry += int(digits[i]) << 8
			digits[i] = byte(carry % 58)
			carry /= 58
		}
		for ; carry > 0; carry /= 58 {
			digits = append(digits, byte(carry%58))
		}
	}
	out := make([]byte, 0, zeros+len(digits))
	for range zeros {
		out = append(out, base58Alphabet[0])
	}
	for i := len(digits) - 1; i >= 0; i-- {
		out = append(out, base58Alphabet[digits[i]])
	}
	return string(out)
}

func decodeBase58(s string) ([]byte, error) {
	zeros := 0
	for zeros < len(s) && s[zeros] == base58Alphabet[0] {
		zeros++
	}
	bytes := make([]byte, 0, len(s)) // little-endian, base 256
	for i := zeros; i < len(s); i++ {
		carry := base58Digit(s[i])
		if carry < 0 {
			return nil, fmt.Errorf("character %d is not base58", i)
		}
		for j := range bytes {
			carry += int(bytes[j]) * 58
			bytes[j] = byte(carry)
			carry >>= 8
		}
		for ; carry > 0; carry >>= 8 {
			bytes = append(bytes, byte(carry))
		}
	}
	out := make([]byte, zeros, zeros+len(bytes))
	for i := len(bytes) - 1; i >= 0; i-- {
		out = append(out, bytes[i])
	}
	return out, nil
}

func base58Digit(c byte) int {
	for i := range len(base58Alphabet) {
		if base58Alphabet[i] == c {
			return i
		}
	}
	return -1
}
