package validator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// imagePlatform names the images that are needed, and keeps what claims say.
type imagePlatform struct {
	platform
	needed func() ([]string, error)

	mu     sync.Mutex
	claims [][]string // guarded by mu
}

func (p *imagePlatform) NeededImages(context.Context, client.ClaimRequest) (*client.NeededImages, error) {
	list, err := p.needed()
	out := &client.NeededImages{}
	for _, x := range list {
		out.Images = append(out.Images, client.NeededImage{Image: x, Tasks: 1})
	}
	return out, err
}

func (p *imagePlatform) Claim(ctx context.Context, r client.ClaimRequest) (*client.Lease, error) {
	p.mu.Lock()
	p.claims = append(p.claims, r.MissingImages)
	p.mu.Unlock()
	select {
	case <-time.After(time.Duration(r.WaitMS) * time.Millisecond):
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}

func (p *imagePlatform) last() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims[len(p.claims)-1]
}

// slowImages has some, and brings others in half a minute or never.
type slowImages struct {
	mu   sync.Mutex
	have map[string]bool // guarded by mu
	asks map[string]int  // guarded by mu
	bad  string          // guarded by mu
}

func (s *slowImages) Ready(ref string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have[ref]
}

func (s *slowImages) Warm(_ context.Context, ref string, needed []string) error {
	time.Sleep(30 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asks[ref]++; ref == s.bad || !slices.Contains(needed, ref) {
		return errors.New("the registry does not answer")
	}
	s.have[ref] = true
	return nil
}

// Images are here before their tasks are claimed: a claim names what is not
// here yet and what cannot be had, which is tried again.
func TestImagesAreWarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		images := &slowImages{have: map[string]bool{"old": true}, asks: map[string]int{}, bad: "bad"}
		var mu sync.Mutex
		list, down := []string{"old", "new", "bad"}, error(nil) // guarded by mu
		p := &imagePlatform{needed: func() ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			return list, down
		}}
		set := func(change func()) {
			mu.Lock()
			defer mu.Unlock()
			images.mu.Lock()
			defer images.mu.Unlock()
			change()
		}
		c := kindtest.FakeCase()
		loop := validator.NewLoop(validator.LoopConfig{Platform: p, Images: images, Player: &validator.Player{
			Driver: fake.New(fake.Config{}), Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now,
		}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { loop.Run(ctx); close(done) }()
		want := func(after time.Duration, missing ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := p.last(); !slices.Equal(got, missing) {
				t.Errorf("a claim names %v, want %v", got, missing)
			}
		}
		want(time.Second, "new", "bad")
		want(50*time.Second, "bad")
		want(5*time.Minute, "bad")
		set(func() {
			if n := images.asks["bad"]; n != 1 {
				t.Errorf("asked %d times for what cannot be had", n)
			}
			down = errors.New("the platform is down")
		})
		want(5*time.Minute, "bad") // what was known holds
		set(func() { down, images.bad = nil, "" })
		want(10 * time.Minute)
		set(func() { list = []string{"third"} })
		for tries := 0; !slices.Equal(p.last(), []string{"third"}); tries++ {
			if time.Sleep(time.Second); tries > 90 {
				t.Fatal("no claim names what is needed since")
			}
		}
		want(time.Minute)
		stop()
		<-done
	})
}

// A platform that names no images, or does not answer, is claimed from.
func TestImagesUnknown(t *testing.T) {
	for _, err := range []error{&agon.Error{Status: 404}, errors.New("no connection")} {
		synctest.Test(t, func(t *testing.T) {
			p := &imagePlatform{needed: func() ([]string, error) { return nil, err }}
			c := kindtest.FakeCase()
			loop := validator.NewLoop(validator.LoopConfig{Platform: p, Images: &slowImages{}, Player: &validator.Player{
				Driver: fake.New(fake.Config{}), Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now,
			}})
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Minute, stop)
			loop.Run(ctx)
			if len(p.claims) < 4 || len(p.last()) != 0 {
				t.Errorf("%v: claims %v", err, p.claims)
			}
		})
	}
}

// Images and data sets are warmed as one, each with those of its own that are needed.
func TestStands(t *testing.T) {
	set := "dataset:https://data.test/corpus@sha256:x"
	synctest.Test(t, func(t *testing.T) {
		images, sets := &slowImages{have: map[string]bool{}, asks: map[string]int{}}, &slowImages{have: map[string]bool{}, asks: map[string]int{}}
		both := validator.Stands{Images: images, Datasets: sets}
		for _, ref := range []string{set, "python"} {
			if both.Ready(ref) {
				t.Errorf("%s is there", ref)
			}
			if err := both.Warm(t.Context(), ref, []string{"python", set}); err != nil || !both.Ready(ref) {
				t.Errorf("%s: %v", ref, err)
			}
		}
		if !sets.have[set] || sets.have["python"] || !images.have["python"] || images.have[set] {
			t.Errorf("images %v, data sets %v", images.have, sets.have)
		}
	})
}
