package platform

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// uploads counts the bytes that each validator has stored on the current day
// (UTC), so that no permit fills the disk. The sums stand in the store, so that another
// leader goes on with them. The zero value is ready; safe for concurrent use.
type uploads struct {
	mu   sync.Mutex
	day  int64            // guarded by mu, as used is: days since 1970
	used map[string]int64 // bytes by hotkey; of those that were read from the store
}

const perDay = int64(24 * time.Hour / time.Second)

// uploadsOf names the sums in the store.
const uploadsOf = "uploads"

func uploadsKey(day int64, hotkey string) string { return strconv.FormatInt(day, 10) + " " + hotkey }

// known reports whether the sum of a hotkey's day was read from the store.
func (u *uploads) known(hotkey string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.used[hotkey]
	return ok && now.Unix()/perDay == u.day
}

// learn sets the sum that the store has, where none is known.
func (u *uploads) learn(hotkey string, n int64, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	if _, ok := u.used[hotkey]; !ok {
		u.used[hotkey] = n
	}
}

// turn begins a new day. It needs mu.
func (u *uploads) turn(now time.Time) {
	if day := now.Unix() / perDay; day != u.day || u.used == nil {
		u.day, u.used = day, map[string]int64{}
	}
}

// take books n bytes, or says that they are too many for today. What could not
// be stored is given back: take with -n.
func (u *uploads) take(hotkey string, n, limit int64, now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
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

// keep writes the sum of a hotkey's day.
func (u *uploads) keep(tx *store.Tx, hotkey string) error {
	u.mu.Lock()
	day, n := u.day, u.used[hotkey]
	u.mu.Unlock()
	return tx.Keep(uploadsOf, uploadsKey(day, hotkey), strconv.AppendInt(nil, n, 10), time.Unix((day+1)*perDay, 0))
}

// takeUpload is uploads.take, with the sum that an earlier process has left.
func (p *Platform) takeUpload(ctx context.Context, hotkey string, n int64) error {
	now := p.now()
	if !p.uploads.known(hotkey, now) {
		b, err := p.Keep(uploadsOf).Get(ctx, uploadsKey(now.Unix()/perDay, hotkey))
		if err != nil {
			return err
		}
		had := int64(0)
		if b != nil {
			if had, err = strconv.ParseInt(string(b), 10, 64); err != nil {
				return err
			}
		}
		p.uploads.learn(hotkey, had, now)
	}
	return p.uploads.take(hotkey, n, p.cfg.UploadPerDay, now)
}
