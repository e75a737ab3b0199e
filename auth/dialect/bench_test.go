package dialect_test

import (
	"context"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/auth/signing"
)

type alwaysFresh struct{}

func (alwaysFresh) Seen(context.Context, string, string, string, time.Time) (bool, error) {
	return true, nil
}

// One request, but for the replay guard, whose cost is the store's.
func BenchmarkVerify(b *testing.B) {
	self := dialecttest.Key(b, "//Bob").SS58()
	r := nativeRequest(b, dialecttest.Key(b, "//Alice"), nanos(0), self, signing.NativeBodyHash())
	v := dialecttest.Verifier(b, dialect.Native{Self: self})
	v.Replay = alwaysFresh{}
	for b.Loop() {
		if _, refusal := v.Verify(b.Context(), r, dialect.Need{Registered: true}); refusal != nil {
			b.Fatal(refusal)
		}
	}
}
