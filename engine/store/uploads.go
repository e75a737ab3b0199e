package store

import (
	"time"

	"github.com/agon-arena/agon"
)

// AddUpload notes that the holder of a lease put the bytes d under it.
func (t *Tx) AddUpload(lease string, d agon.Digest, at time.Time) error {
	err := t.put(`INSERT INTO uploads (lease, digest, at) VALUES ($1, $2, $3) ON CONFLICT (lease, digest) DO NOTHING`,
		lease, string(d), micros(at))
	return err
}

// Uploads returns what was put under a lease.
func (t *Tx) Uploads(lease string) (map[agon.Digest]bool, error) {
	list, err := many(t, scanString, `SELECT digest FROM uploads WHERE lease = $1`, lease)
	out := make(map[agon.Digest]bool, len(list))
	for _, d := range list {
		out[agon.Digest(d)] = true
	}
	return out, err
}

// DropUploads forgets what was put under a lease that has its result.
func (t *Tx) DropUploads(lease string) error {
	err := t.put(`DELETE FROM uploads WHERE lease = $1`, lease)
	return err
}

// PurgeUploads forgets what was put before a time under leases that never reported.
func (t *Tx) PurgeUploads(before time.Time) error {
	_, err := t.exec(`DELETE FROM uploads WHERE at < $1`, micros(before))
	return err
}
