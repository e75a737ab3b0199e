package platform

import (
	"context"
	"time"

	"github.com/agon-arena/agon"
)

// Storage is how the places are where the server keeps its bytes.
type Storage struct {
	Blobs error // why the place of the blobs does not answer; nil: it does
	// DiskFree and DiskTotal are of the disk of the data directory, in bytes; 0 and 0: not known.
	DiskFree, DiskTotal int64
}

// LowDisk reports that less than a twentieth of the disk is left.
func (s Storage) LowDisk() bool { return s.DiskTotal > 0 && s.DiskFree < s.DiskTotal/20 }

// storageWait bounds the question to the place of the blobs.
const storageWait = 5 * time.Second

// Storage asks both places now: the blobs for one that nobody has, which no cache answers.
func (p *Platform) Storage(ctx context.Context) (s Storage) {
	ctx, cancel := context.WithTimeout(ctx, storageWait)
	defer cancel()
	_, s.Blobs = p.cfg.Blobs.Has(ctx, agon.Sum([]byte("agon asks whether its blobs answer")))
	if p.cfg.Disk != nil {
		if free, total, err := p.cfg.Disk(); err == nil {
			s.DiskFree, s.DiskTotal = free, total
		} else {
			p.cfg.Log.Warn("the disk of the data directory cannot be asked", "err", err)
		}
	}
	return s
}
