package platform

import (
	"strconv"
	"sync"
	"time"

	"github.com/agon-arena/agon"
)

// uploads counts the bytes that each validator has stored on the current day
// (UTC), so that no permit fills the disk. A restart begins the day anew. The
// zero value is ready; safe for concurrent use.
type uploads struct {
	mu   sync.Mutex
	day  int64            // guarded by mu, as used is: days since 1970
	used map[string]int64 // bytes by hotkey
}

// take books n bytes, or says that they are too many for today. What could not
// be stored is given back: take with -n.
func (u *uploads) take(hotkey string, n, limit int64, now time.Time) error {
	const perDay = int64(24 * time.Hour / time.Second)
	u.mu.Lock()
	defer u.mu.Unlock()
	if day := now.Unix() / perDay; day != u.day || u.used == nil {
		u.day, u.used = day, map[string]int64{}
	}
	if n > 0 && u.used[hotkey]+n > limit {
		return &agon.Error{
			Code: "upload_quota", Status: 429, Field: "body", Limit: strconv.FormatInt(limit, 10) + " bytes a day",
			Message: "this validator has stored " + strconv.FormatInt(u.used[hotkey], 10) + " bytes today: " + strconv.FormatInt(n, 10) + " more are over its limit",
			Mend:    "wait for midnight UTC, or ask the operator to raise AGON_UPLOAD_PER_DAY",
		}
	}
	u.used[hotkey] = max(0, u.used[hotkey]+n)
	return nil
}
