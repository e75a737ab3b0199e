package ledger

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/auth"
)

// Hash is 32 bytes; in JSON 64 hex digits.
type Hash [32]byte

// String is the hex form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) != 64 {
		return fmt.Errorf("read hash: %d characters, want 64 hex digits", len(b))
	}
	if _, err := hex.Decode(h[:], b); err != nil {
		return fmt.Errorf("read hash: %w", err)
	}
	return nil
}

// CommitHash is what a validator commits of its weights: blake2b-256 over the
// SCALE form of hotkey, netuid, uids, values, salt and version key
// (spec/chain.md 3.3, v2). Salt keeps others from guessing.
func CommitHash(hotkey string, netuid uint16, w Weights, salt []uint16) (Hash, error) {
	public, err := auth.ParseSS58(hotkey)
	if err != nil {
		return Hash{}, fmt.Errorf("hash weights of a hotkey: %w", err)
	}
	b := append([]byte(nil), public[:]...)
	b = binary.LittleEndian.AppendUint16(b, netuid)
	for _, v := range [][]uint16{w.UIDs, w.Values, salt} {
		if len(v) >= 1<<30 {
			return Hash{}, fmt.Errorf("hash weights: %d numbers", len(v))
		}
		b = appendCompact(b, uint32(len(v)))
		for _, x := range v {
			b = binary.LittleEndian.AppendUint16(b, x)
		}
	}
	return blake2b.Sum256(binary.LittleEndian.AppendUint64(b, w.VersionKey)), nil
}

// appendCompact appends SCALE's compact form of n < 2^30.
func appendCompact(b []byte, n uint32) []byte {
	switch {
	case n < 1<<6:
		return append(b, byte(n<<2))
	case n < 1<<14:
		return binary.LittleEndian.AppendUint16(b, uint16(n<<2|1))
	}
	return binary.LittleEndian.AppendUint32(b, n<<2|2)
}
