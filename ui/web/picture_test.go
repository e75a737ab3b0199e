package web

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// inked counts the pixels of a region that are not the background.
func inked(m image.Image, r image.Rectangle) (n int) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if m.At(x, y) != m.At(1, 620) {
				n++
			}
		}
	}
	return n
}

// An arena's board names a picture, which is a PNG of the size that it says, and
// is there for strangers. One that does not exist has none.
func TestPicture(t *testing.T) {
	f := newFixture(t)
	f.submit(miner, "first", "x = 1")
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 1, "")
	}
	c := f.browser("")
	_, page := f.get(c, "/arenas/demo")
	for _, want := range []string{`property="og:image" content="`, `/arenas/demo/picture.png"`, `property="og:title"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the board", want)
		}
	}
	resp, err := c.Get(f.url + "/arenas/demo/picture.png")
	must(t, err)
	defer resp.Body.Close()
	m, err := png.Decode(resp.Body)
	must(t, err)
	if resp.Header.Get("Content-Type") != "image/png" || m.Bounds().Dx() != 1200 || m.Bounds().Dy() != 630 {
		t.Errorf("%s, %v", resp.Header.Get("Content-Type"), m.Bounds())
	}
	if status, _ := f.get(c, "/arenas/nosuch/picture.png"); status != http.StatusNotFound {
		t.Errorf("of an arena that is not there: %d", status)
	}
}

// Whatever names and titles are, the picture stays within its edges.
func TestPictureOfLongAndOddNames(t *testing.T) {
	long := strings.Repeat("wide\x1b[31m\u202e ", 80) + strings.Repeat("W", 5000)
	card := arenaCard{Arena: client.Arena{Arena: agon.Arena{Title: long, State: agon.ArenaOpen}}}
	for range 20 {
		card.Top = append(card.Top, topBar{Name: long, Score: -1e9, Width: 1 << 20, Champion: true})
	}
	for _, x := range []struct {
		card arenaCard
		lead string
	}{{card, long}, {arenaCard{}, ""}} {
		b, err := drawArena(x.card.Arena, x.card, x.lead)
		must(t, err)
		m, err := png.Decode(bytes.NewReader(b))
		must(t, err)
		if n := inked(m, image.Rect(0, 20, pictureEdge-4, pictureH)) + inked(m, image.Rect(pictureW-pictureEdge+8, 20, pictureW, pictureH)); n > 0 {
			t.Errorf("%d pixels stand beyond the edge", n)
		}
		if inked(m, image.Rect(pictureEdge, 20, pictureW-pictureEdge, 300)) == 0 {
			t.Error("nothing is drawn")
		}
	}
}

// A server that knows its address gives whole ones, whatever a request claims.
func TestAbsolute(t *testing.T) {
	for audience, want := range map[string]string{"https://agon.example/": "https://agon.example/x", "http://127.0.0.1:8900": "http://127.0.0.1:8900/x", "6f1c": "/x", "": "/x"} {
		s := &server{cfg: Config{Server: client.Server{Audience: audience}}}
		if got := s.absolute("/x"); got != want {
			t.Errorf("%q: %s, want %s", audience, got, want)
		}
	}
}
