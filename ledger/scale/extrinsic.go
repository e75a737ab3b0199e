package scale

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/crypto/blake2b"
)

// ErrExtension is wrapped where a transaction extension is not known and
// carries bytes: whoever signed it would not know what.
var ErrExtension = errors.New("unknown transaction extension carries bytes")

// Chain is what a signature binds an extrinsic to.
type Chain struct {
	Genesis              [32]byte
	SpecVersion, Version uint32 // of the runtime and of its transactions
}

// Extrinsic is a signed extrinsic of version 4.
type Extrinsic struct {
	Signer    [32]byte
	Scheme    string // Sr25519 or Ed25519
	Signature []byte
	Era       []byte // one byte for immortal, else two
	Nonce     uint64
	Tip       uint64
	Extra     []byte // what all extensions put into the extrinsic
	Call      []byte
}

// Extra encodes what the extensions put into the extrinsic.
func (m *Metadata) Extra(era []byte, nonce, tip uint64) (b []byte, err error) {
	for _, e := range m.Extensions {
		switch e.Name {
		case "CheckMortality", "CheckEra":
			b = append(b, era...)
		case "CheckNonce":
			b = AppendCompact(b, nonce)
		case "ChargeTransactionPayment":
			b = AppendCompact(b, tip)
		case "CheckMetadataHash":
			b = append(b, 0) // disabled
		default:
			if !e.Type.ZeroSized() {
				return nil, fmt.Errorf("%w: %s adds %s", ErrExtension, e.Name, e.Type)
			}
		}
	}
	return b, nil
}

// Additional encodes what is signed besides. birth is the hash of the block
// in which a mortal era begins; of an immortal one the genesis.
func (m *Metadata) Additional(c Chain, birth [32]byte) (b []byte, err error) {
	for _, e := range m.Extensions {
		switch e.Name {
		case "CheckSpecVersion":
			b = binary.LittleEndian.AppendUint32(b, c.SpecVersion)
		case "CheckTxVersion":
			b = binary.LittleEndian.AppendUint32(b, c.Version)
		case "CheckGenesis":
			b = append(b, c.Genesis[:]...)
		case "CheckMortality", "CheckEra":
			b = append(b, birth[:]...)
		case "CheckMetadataHash":
			b = append(b, 0) // none
		default:
			if !e.Additional.ZeroSized() {
				return nil, fmt.Errorf("%w: %s signs %s", ErrExtension, e.Name, e.Additional)
			}
		}
	}
	return b, nil
}

// Payload is what is signed: the three parts, or their hash where they are
// longer than 256 bytes.
func Payload(call, extra, additional []byte) []byte {
	b := make([]byte, 0, len(call)+len(extra)+len(additional))
	b = append(append(append(b, call...), extra...), additional...)
	if len(b) > 256 {
		sum := blake2b.Sum256(b)
		return sum[:]
	}
	return b
}

// Encode gives the bytes of an extrinsic with its length in front.
func (x *Extrinsic) Encode() []byte {
	scheme := byte(1)
	if x.Scheme == "Ed25519" {
		scheme = 0
	}
	b := append([]byte{0x84, 0}, x.Signer[:]...)
	b = append(append(b, scheme), x.Signature...)
	b = append(append(b, x.Extra...), x.Call...)
	return AppendBlob(nil, b)
}

// Hash names an extrinsic: blake2b-256 of all its bytes.
func Hash(b []byte) [32]byte { return blake2b.Sum256(b) }

// ParseExtrinsic reads a signed extrinsic of version 4.
func (m *Metadata) ParseExtrinsic(b []byte) (*Extrinsic, error) {
	r := NewReader(b)
	inner := NewReader(r.Blob())
	if err := r.End(); err != nil {
		return nil, err
	}
	if v := inner.U8(); inner.err == nil && v != 0x84 {
		return nil, fmt.Errorf("read extrinsic: version byte %#x: want 0x84, signed and of version 4", v)
	}
	if k := inner.U8(); inner.err == nil && k != 0 {
		return nil, fmt.Errorf("read extrinsic: address of form %d: want 0, an account", k)
	}
	x := &Extrinsic{}
	copy(x.Signer[:], inner.Bytes(32))
	switch k := inner.U8(); {
	case inner.err != nil:
	case k == 0:
		x.Scheme = "Ed25519"
	case k == 1:
		x.Scheme = "Sr25519"
	default:
		return nil, fmt.Errorf("read extrinsic: signature of form %d: want 0 or 1", k)
	}
	x.Signature = inner.Bytes(64)
	from := inner.at
	for _, e := range m.Extensions {
		switch e.Name {
		case "CheckMortality", "CheckEra":
			if x.Era = inner.Bytes(1); inner.err == nil && x.Era[0] != 0 {
				inner.at--
				x.Era = inner.Bytes(2)
			}
		case "CheckNonce":
			x.Nonce = inner.Compact()
		case "ChargeTransactionPayment":
			x.Tip = inner.Compact()
		default:
			inner.Skip(e.Type)
		}
	}
	if inner.err != nil {
		return nil, inner.err
	}
	x.Extra = inner.b[from:inner.at:inner.at]
	x.Call = inner.b[inner.at:]
	if len(x.Call) == 0 {
		return nil, fmt.Errorf("read extrinsic: %w: no call", ErrShort)
	}
	return x, nil
}
