package kind

import (
	"context"
	"encoding/json"
)

// Keeper is what the engine's Env offers besides, to kinds whose plays can go on after
// their validator stopped them. What is kept stays on the validator's machine, for the
// same run: no other validator goes on from it, since a result must not rest on bytes
// that another one has handed over.
type Keeper interface {
	// Kept is what the last attempt of this run left here; ok is false where none did, and
	// where what it left is damaged or belongs to another submission, task or seed.
	Kept(ctx context.Context) (k Kept, ok bool, err error)
	// Keep leaves k for the next attempt of this run, in the place of what was kept before.
	// A play that is stopped calls it before it returns. It is durable on return.
	Keep(k Kept) error
	// Anew drops what is kept and ends the attempt as the validator's fault, so that the
	// run is played from its beginning. Its error ends the play.
	Anew(why string) error
}

// Kept is what a stopped attempt leaves.
type Kept struct {
	// Doc is the kind's own: how far the play was. At most MaxKeptDoc bytes.
	Doc json.RawMessage
	// State is the contestant's: nothing reads it but the code that wrote it, in a box. At most
	// MaxKeptState bytes.
	State []byte
}

// Bounds of what is kept, in bytes.
const (
	MaxKeptDoc   = 1 << 20
	MaxKeptState = 256 << 20
)
