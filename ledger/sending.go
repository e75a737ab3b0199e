package ledger

import "context"

// Sending is an extrinsic that is about to be sent to a chain.
type Sending struct {
	Hash  string
	Nonce uint64 // of the signer; a chain takes each once
	Dies  uint64 // the first block that can hold it no more
}

type sendingKey struct{}

// OnSending makes calls under the context say what they are about to send, each
// time before it leaves. An error of f keeps it back, and is that of the call.
func OnSending(ctx context.Context, f func(Sending) error) context.Context {
	return context.WithValue(ctx, sendingKey{}, f)
}

// Announce is for ledgers that send extrinsics: it asks what OnSending was given.
func Announce(ctx context.Context, s Sending) error {
	if f, ok := ctx.Value(sendingKey{}).(func(Sending) error); ok {
		return f(s)
	}
	return nil
}

// Sequence is where the calls of an address stand.
type Sequence struct {
	// Next is the nonce of the next call, after those that cannot be retracted.
	Next uint64
	// Pending says that calls wait in a pool or in blocks that may be retracted.
	Pending bool
	// Final is the newest block that cannot be retracted.
	Final uint64
}

// Sequencer is a ledger that numbers the calls of an address, and on which a
// call may be on its way after its answer was lost. errors.ErrUnsupported says
// that this one is not.
type Sequencer interface {
	Sequence(ctx context.Context, address string) (Sequence, error)
}
