package web

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
)

// A picture of an arena for pages elsewhere that show a link (Open Graph): what
// the arena is, who leads, and the first of its board.

const (
	pictureW, pictureH = 1200, 630
	pictureEdge        = 60
	pictureBars        = 5
)

// Colours of a picture: those of dark pages.
var (
	inkBack   = color.RGBA{0x10, 0x17, 0x1d, 0xff}
	inkText   = color.RGBA{0xe6, 0xed, 0xf3, 0xff}
	inkDim    = color.RGBA{0xa3, 0xb1, 0xbd, 0xff}
	inkRail   = color.RGBA{0x2c, 0x3a, 0x46, 0xff}
	inkBar    = color.RGBA{0x7c, 0xc4, 0xf0, 0xff}
	inkLeader = color.RGBA{0xf2, 0xc1, 0x4e, 0xff}
)

// typefaces are the fonts of pictures, parsed once. A sfnt font may be read by many.
var typefaces = sync.OnceValues(func() ([2]*opentype.Font, error) {
	var out [2]*opentype.Font
	for i, b := range [][]byte{goregular.TTF, gobold.TTF} {
		f, err := opentype.Parse(b)
		if err != nil {
			return out, fmt.Errorf("parse font: %w", err)
		}
		out[i] = f
	}
	return out, nil
})

// pen writes on a picture. One goroutine uses it.
type pen struct {
	on    *image.RGBA
	faces map[[2]int]font.Face // by bold and size
	err   error
}

func (p *pen) face(bold bool, size int) font.Face {
	key := [2]int{0, size}
	if bold {
		key[0] = 1
	}
	if f := p.faces[key]; f != nil {
		return f
	}
	all, err := typefaces()
	if err == nil {
		var f font.Face
		if f, err = opentype.NewFace(all[key[0]], &opentype.FaceOptions{Size: float64(size), DPI: 72, Hinting: font.HintingFull}); err == nil {
			p.faces[key] = f
			return f
		}
	}
	p.err = err
	return nil
}

// text writes one line at x and its base line y, cut to width, and returns where it ends.
func (p *pen) text(x, y, width int, bold bool, size int, c color.Color, s string) int {
	f := p.face(bold, size)
	if f == nil {
		return x
	}
	d := font.Drawer{Dst: p.on, Src: image.NewUniform(c), Face: f, Dot: fixed.P(x, y)}
	d.DrawString(fitted(f, plain.Line(s), width))
	return d.Dot.X.Ceil()
}

// fitted cuts a line to width pixels.
func fitted(f font.Face, s string, width int) string {
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300])
	}
	if font.MeasureString(f, s).Ceil() <= width {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && font.MeasureString(f, string(r)+"…").Ceil() > width {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// lines breaks text at blanks into at most n lines of width pixels; the last is cut.
func (p *pen) lines(s string, n, width int, bold bool, size int) (out []string) {
	f := p.face(bold, size)
	if f == nil {
		return nil
	}
	line := ""
	words := strings.Fields(plain.Line(s))
	for i, w := range words {
		next := strings.TrimSpace(line + " " + w)
		switch {
		case line == "" || font.MeasureString(f, next).Ceil() <= width:
			line = next
		case len(out) == n-1:
			return append(out, line+" "+strings.Join(words[i:], " "))
		default:
			out, line = append(out, line), w
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}

func (p *pen) box(x, y, w, h int, c color.Color) {
	draw.Draw(p.on, image.Rect(x, y, x+w, y+h), image.NewUniform(c), image.Point{}, draw.Src)
}

// draw makes the picture of an arena.
func drawArena(a client.Arena, card arenaCard, lead string) ([]byte, error) {
	p := &pen{on: image.NewRGBA(image.Rect(0, 0, pictureW, pictureH)), faces: map[[2]int]font.Face{}}
	const width = pictureW - 2*pictureEdge
	p.box(0, 0, pictureW, pictureH, inkBack)
	p.box(0, 0, pictureW, 12, inkLeader)
	p.text(pictureEdge, 76, width, true, 34, inkLeader, "agon")
	p.text(pictureEdge+110, 76, width-110, false, 28, inkDim, string(a.State)+" · "+plain.Count(card.Facts.Submissions, "submission")+" by "+plain.Count(card.Facts.Miners, "miner"))
	y := 150
	for _, l := range p.lines(a.Title, 2, width, true, 56) {
		p.text(pictureEdge, y, width, true, 56, inkText, l)
		y += 66
	}
	y -= 10
	if lead == "" {
		lead = "Nobody leads yet: the first place is open."
	}
	for _, l := range p.lines(lead, 2, width, false, 32) {
		p.text(pictureEdge, y, width, false, 32, inkText, l)
		y += 42
	}
	const nameW, scoreW, rowH = 360, 130, 48
	y += 20
	for _, b := range card.Top[:min(len(card.Top), pictureBars)] {
		if y+rowH > pictureH-20 {
			break
		}
		ink := inkBar
		if b.Champion {
			ink = inkLeader
		}
		p.text(pictureEdge, y+28, nameW-20, b.Champion, 28, inkText, b.Name)
		rail := width - nameW - scoreW
		p.box(pictureEdge+nameW, y+8, rail, 24, inkRail)
		p.box(pictureEdge+nameW, y+8, rail*min(b.Width, 100)/100, 24, ink)
		p.text(pictureEdge+nameW+rail+20, y+28, scoreW-20, false, 28, inkText, showScore(b.Score))
		y += rowH
	}
	if p.err != nil {
		return nil, p.err
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, p.on); err != nil {
		return nil, fmt.Errorf("encode picture: %w", err)
	}
	return out.Bytes(), nil
}

// picture sends the picture of an arena: what a stranger may read, drawn at most once a minute.
func (s *server) picture(q *request) error {
	id := q.PathValue("arena")
	if _, err := s.cfg.Platform.Arena(q.Context(), id); err != nil {
		return err // so that names that do not exist take no place
	}
	stranger := &request{Request: q.Request, w: q.w, s: s}
	b, err := s.pictures.Get(id, func() ([]byte, error) {
		ctx := context.WithoutCancel(q.Context())
		a, err := s.cfg.Platform.Arena(ctx, id)
		if err != nil {
			return nil, err
		}
		card, err := s.card(ctx, stranger, *a)
		if err != nil {
			return nil, err
		}
		lead := ""
		if a.Champion != nil {
			lead = fmt.Sprintf("%s leads with %s", plain.Line(card.Name), card.Led)
		}
		return drawArena(*a, card, lead)
	})
	if err != nil {
		return err
	}
	h := q.w.Header()
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	h.Set("Content-Type", "image/png")
	h.Set("Cache-Control", "public, max-age=60")
	b.Raw(q.w, http.StatusOK)
	return nil
}

// absolute is an address of this server as others may use it, where the server
// knows how it is called: programs that read Open Graph want whole addresses. Its
// audience says so, and not what a request claims.
func (s *server) absolute(path string) string {
	if at := s.cfg.Server.Audience; strings.HasPrefix(at, "https://") || strings.HasPrefix(at, "http://") {
		return strings.TrimSuffix(at, "/") + path
	}
	return path
}

// pictureOf is where the picture of an arena is.
func (s *server) pictureOf(a agon.Arena) string {
	return s.absolute("/arenas/" + a.ID + "/picture.png")
}
