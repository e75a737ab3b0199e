package validator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/sandbox/datasets"
)

// Needs is what a Platform offers besides, whose tasks stand on images;
// *client.Client is one.
type Needs interface {
	NeededImages(ctx context.Context, r client.ClaimRequest) (*client.NeededImages, error)
}

// Images are the images of this machine. *rootfs.Roots is one. Safe for concurrent use.
type Images interface {
	// Ready tells at once whether an image can be played on.
	Ready(ref string) bool
	// Warm brings an image here and unpacks it, for what needs it and for needed,
	// which makes room by others only. It may take long; it is retried.
	Warm(ctx context.Context, ref string, needed []string) error
}

// Stands are the images and the data sets of this machine, as one: what is named
// dataset:… is a data set.
type Stands struct{ Images, Datasets Images }

func (s Stands) of(ref string) Images {
	if strings.HasPrefix(ref, datasets.Prefix) {
		return s.Datasets
	}
	return s.Images
}

// Ready implements Images.
func (s Stands) Ready(ref string) bool { return s.of(ref).Ready(ref) }

// Warm implements Images.
func (s Stands) Warm(ctx context.Context, ref string, needed []string) error {
	var same []string
	for _, n := range needed {
		if strings.HasPrefix(n, datasets.Prefix) == strings.HasPrefix(ref, datasets.Prefix) {
			same = append(same, n)
		}
	}
	return s.of(ref).Warm(ctx, ref, same)
}

const (
	warmEvery = time.Minute      // between two looks at what is needed
	warmAgain = 10 * time.Minute // until an image that could not be had is asked for again
)

// warmer brings the images that an arena's tasks need to this machine before
// their runs are claimed. What is not here yet, or cannot be had, is named in
// claims, so that such a task is left to others and never played to fail.
type warmer struct {
	needs  Needs
	images Images
	log    *slog.Logger
	now    func() time.Time
	// refused logs why the platform did not say what is needed.
	refused func(what string, err error, more ...any)
	ready   chan struct{} // closed when it is first known what is needed
	once    sync.Once

	mu     sync.Mutex
	absent []string             // needed and not here; guarded by mu
	failed map[string]time.Time // when an image could not be had; owned by run
}

// missing are the images that claims name. It waits until it is known what is needed.
func (w *warmer) missing(ctx context.Context) []string {
	if w == nil {
		return nil
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.absent)
}

// run warms until ctx ends.
func (w *warmer) run(ctx context.Context, r client.ClaimRequest) {
	defer w.once.Do(func() { close(w.ready) })
	r.WaitMS = 0
	for ctx.Err() == nil {
		list, err := w.needs.NeededImages(ctx, r)
		if e := (*agon.Error)(nil); errors.As(err, &e) && e.Status == http.StatusNotFound {
			return // a platform that names none
		}
		switch {
		case err == nil:
			w.warm(ctx, list.Images)
		case ctx.Err() == nil:
			w.refused("asking which images are needed", err)
			w.once.Do(func() { close(w.ready) })
		}
		select {
		case <-ctx.Done():
		case <-time.After(warmEvery):
		}
	}
}

// warm notes what is absent, then brings it here, one image at a time.
func (w *warmer) warm(ctx context.Context, list []client.NeededImage) {
	var needed, absent []string
	for _, n := range list {
		needed = append(needed, n.Image)
		if !w.images.Ready(n.Image) && len(absent) < client.MaxMissingImages {
			absent = append(absent, n.Image)
		}
	}
	w.mu.Lock()
	w.absent = absent
	w.mu.Unlock()
	w.once.Do(func() { close(w.ready) })
	for _, ref := range absent {
		if at, ok := w.failed[ref]; ok && w.now().Sub(at) < warmAgain {
			continue
		}
		if err := w.images.Warm(ctx, ref, needed); err != nil {
			if ctx.Err() != nil {
				return
			}
			w.failed[ref] = w.now()
			w.log.Warn("an image cannot be had; its tasks are left to others", "image", ref, "again", warmAgain, "err", err)
			continue
		}
		delete(w.failed, ref)
		w.log.Info("image is ready", "image", ref)
		w.mu.Lock()
		w.absent = slices.DeleteFunc(w.absent, func(x string) bool { return x == ref })
		w.mu.Unlock()
	}
}
