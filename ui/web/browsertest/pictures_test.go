//go:build browser

package browsertest

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// readme are the pictures of README: the card of the first page to start from, what
// follows its address, and the submission to go to from there; nothing stays.
var readme = []struct {
	name     string
	card     int
	at, link string
}{
	{name: "home"},
	{name: "board", card: 1},
	{name: "submission", card: 2, link: "constant"},
	{name: "run", card: 2, link: "search-llm"},
	{name: "compare", card: 2, link: "search-llm"},
	{name: "race", card: 3, at: "/race"},
}

// follow leads from one page to the next: to the first run of a submission, or to
// what two submissions did on each task.
var follow = map[string]string{
	"run":     `a[href^="/runs/"]`,
	"compare": `a[href*="/with/"]`,
}

// TestReadme takes the pictures of README into AGON_BROWSER_PICTURES.
func TestReadme(t *testing.T) {
	dir := os.Getenv("AGON_BROWSER_PICTURES")
	if dir == "" {
		dir = setting(t, "AGON_BROWSER_SHOTS")
	}
	b := open(t)
	for _, x := range readme {
		var cards []string
		b.run(emulation.SetDeviceMetricsOverride(1100, 800, 1, false), chromedp.Navigate(b.base), chromedp.WaitReady("main"),
			chromedp.Evaluate(`[...document.querySelectorAll(".card h3 a")].map(a => a.getAttribute("href"))`, &cards))
		if x.card > len(cards) {
			t.Fatalf("%s: %d arenas", x.name, len(cards))
		}
		if x.card > 0 {
			b.run(chromedp.Navigate(b.base+cards[x.card-1]+x.at), chromedp.WaitReady("main"))
		}
		if x.link != "" {
			b.run(chromedp.Click(`//th/a[.="`+x.link+`"]|//td/a[.="`+x.link+`"]`), chromedp.WaitVisible(`div[data-part="submission"]`))
		}
		if at := follow[x.name]; at != "" {
			b.run(chromedp.Click(at, chromedp.ByQuery), chromedp.WaitVisible(map[string]string{"run": `div[data-part="head"]`, "compare": `//h2[.="Where they differ"]`}[x.name]))
		}
		var shot []byte
		b.run(chromedp.Poll(drawn, nil, chromedp.WithPollingTimeout(20*time.Second)), chromedp.Evaluate(`window.scrollTo(0, 0)`, nil), chromedp.CaptureScreenshot(&shot))
		small, err := fewColours(shot)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, x.name+".png"), small, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KB of %d", x.name, len(small)>>10, len(shot)>>10)
	}
	b.close()
}

// fewColours draws a picture with its 256 commonest colours: pages have few, and
// such a file is a third as long.
func fewColours(file []byte) ([]byte, error) {
	img, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	area := img.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	var all []color.RGBA
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range all[:min(len(all), 256)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	out := image.NewPaletted(area, palette)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			c := at(x, y)
			i, ok := nearest[c]
			if !ok {
				i = uint8(palette.Index(c))
				nearest[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out)
	return b.Bytes(), err
}
