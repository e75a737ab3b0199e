package timelock

import (
	"encoding/binary"
	"fmt"

	"github.com/agon-arena/agon/ledger/scale"
)

// Payload is what a validator encrypts of its weights. UIDs and Values have
// the same length. The chain drops a payload whose hotkey is not the signer's.
type Payload struct {
	Hotkey     [32]byte
	UIDs       []uint16
	Values     []uint16
	VersionKey uint64
}

// Encode gives the payload's SCALE bytes.
func (p *Payload) Encode() ([]byte, error) {
	if len(p.UIDs) != len(p.Values) {
		return nil, fmt.Errorf("encode weights: %d uids, %d values", len(p.UIDs), len(p.Values))
	}
	b := scale.AppendBlob(nil, p.Hotkey[:])
	for _, list := range [][]uint16{p.UIDs, p.Values} {
		b = scale.AppendCompact(b, uint64(len(list)))
		for _, v := range list {
			b = binary.LittleEndian.AppendUint16(b, v)
		}
	}
	return binary.LittleEndian.AppendUint64(b, p.VersionKey), nil
}

// DecodePayload reads a payload. legacy says that it is of the old form, which
// has no hotkey.
func DecodePayload(b []byte) (p *Payload, legacy bool, err error) {
	if p, err = decodePayload(b, false); err == nil {
		return p, false, nil
	}
	if old, oerr := decodePayload(b, true); oerr == nil {
		return old, true, nil
	}
	return nil, false, err
}

func decodePayload(b []byte, legacy bool) (*Payload, error) {
	r := scale.NewReader(b)
	p := &Payload{}
	if !legacy {
		hotkey := r.Blob()
		if r.Err() == nil && len(hotkey) != 32 {
			return nil, fmt.Errorf("read weights: hotkey of %d bytes", len(hotkey))
		}
		copy(p.Hotkey[:], hotkey)
	}
	for _, list := range []*[]uint16{&p.UIDs, &p.Values} {
		*list = make([]uint16, r.Length(2))
		for i := range *list {
			(*list)[i] = r.U16()
		}
	}
	p.VersionKey = r.U64()
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("read weights: %w", err)
	}
	if len(p.UIDs) != len(p.Values) {
		return nil, fmt.Errorf("read weights: %d uids, %d values", len(p.UIDs), len(p.Values))
	}
	return p, nil
}
