package platform

import (
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/store"
)

// Away is what a caller hears where err came about because the database or the place of
// blobs is away: it may pass, and nothing was wrong with the request. nil: err is another.
func Away(err error) *agon.Error {
	e := &agon.Error{Status: 503, Mend: "try again in a few seconds", Fault: agon.FaultPlatform, Err: err}
	switch {
	case errors.Is(err, store.ErrAway):
		e.Code, e.Message = "store_away", "the server's database is away or full"
	case errors.Is(err, blob.ErrAway):
		e.Code, e.Message = "blobs_away", "the place of the server's files is away or full"
	default:
		return nil
	}
	return e
}
