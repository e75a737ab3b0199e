package platform

import (
	"context"
	"fmt"
	"testing"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

// What failed because a place of ours is away says so, and asks to try again, also through
// what a check of a signature made of it; nothing else does.
func TestAway(t *testing.T) {
	for err, code := range map[error]string{
		fmt.Errorf("write: %w", store.ErrAway):         "store_away",
		fmt.Errorf("put: %w", blob.ErrAway):            "blobs_away",
		refuse(500, "internal", "replay guard failed"): "",
		fmt.Errorf("read: %w", store.ErrNotFound):      "",
		fmt.Errorf("get: %w", blob.ErrCorrupt):         "",
		context.Canceled:                               "",
	} {
		got := Away(err)
		if (got != nil) != (code != "") || got != nil && (got.Code != code || got.Status != 503 || got.Mend == "") {
			t.Errorf("%v: %+v", err, got)
		}
	}
}
