package commands

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Measures of the drawing, in pixels.
const (
	plotWidth, plotHeight = 760, 420
	plotLeft, plotTop     = 90, 56
	plotBottom            = 110
	plotLegend            = 200 // of the right side
)

// plotColours go round the models in the order of their names: dark enough on
// white and on a dark page, and told apart without red and green.
var plotColours = []string{"#3b6fb6", "#e08a1e", "#3f9b8f", "#8d5fa8", "#b5a12f", "#6b7684", "#c05a7a", "#4d8ac0"}

// Plot draws what each pack costs in a month as a bar, cut by model. The same
// comparison gives the same bytes.
func Plot(c *Comparison) []byte {
	sides := c.sides()
	most := 0.0
	var models []string
	for _, s := range sides {
		most = max(most, s.MonthUSD)
		for _, m := range s.Models {
			if !slices.Contains(models, m.Model) {
				models = append(models, m.Model)
			}
		}
	}
	slices.Sort(models)
	var b bytes.Buffer
	pr := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	pr(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" role="img">`, plotWidth, plotHeight, plotWidth, plotHeight)
	pr(`<title>What an agent costs in a month, by pack and model</title>`)
	pr(`<rect width="%d" height="%d" fill="#ffffff"/>`, plotWidth, plotHeight)
	pr(`<text x="%d" y="28" font-size="16" fill="#222222">Dollars a month at %.0f episodes a day</text>`, plotLeft, c.PerDay)
	floor, right := plotHeight-plotBottom, plotWidth-plotLegend
	height := func(usd float64) float64 {
		if most == 0 {
			return 0
		}
		return usd / most * float64(floor-plotTop)
	}
	for i := range 5 {
		usd := most * float64(i) / 4
		y := float64(floor) - height(usd)
		pr(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#d9dde2"/>`, plotLeft, y, right, y)
		pr(`<text x="%d" y="%.1f" text-anchor="end" fill="#555555">%s</text>`, plotLeft-8, y+4, dollars(usd))
	}
	step := float64(right-plotLeft) / float64(len(sides))
	for i, s := range sides {
		x, y := float64(plotLeft)+step*(float64(i)+0.2), float64(floor)
		for _, m := range s.Models {
			h := height(m.USD * c.PerDay * 30)
			y -= h
			pr(`<rect x="%.1f" y="%.2f" width="%.1f" height="%.2f" fill="%s"/>`, x, y, step*0.6, h, plotColours[slices.Index(models, m.Model)%len(plotColours)])
		}
		mid := x + step*0.3
		pr(`<text x="%.1f" y="%.1f" text-anchor="middle" fill="#222222" font-weight="bold">%s</text>`, mid, y-8, dollars(s.MonthUSD))
		name := strings.TrimSuffix(filepath.Base(s.Pack), ".json")
		if r := []rune(name); len(r) > 20 {
			name = string(r[:19]) + "…"
		}
		pr(`<text x="%.1f" y="%d" text-anchor="middle" fill="#222222">%s</text>`, mid, floor+20, escape(name))
		pr(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">$%.6f an episode</text>`, mid, floor+38, s.PerUSD)
		pr(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%d of %d qualified</text>`, mid, floor+56, s.Qualified, s.Episodes)
		if i > 0 && sides[0].PerUSD > 0 {
			pr(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%+.1f %%</text>`, mid, floor+74, 100*(s.PerUSD/sides[0].PerUSD-1))
		}
	}
	for i, m := range models {
		y := plotTop + 22*i
		pr(`<rect x="%d" y="%d" width="12" height="12" fill="%s"/>`, right+20, y, plotColours[i%len(plotColours)])
		pr(`<text x="%d" y="%d" fill="#222222">%s</text>`, right+38, y+11, escape(m))
	}
	pr(`</svg>`)
	return b.Bytes()
}

// dollars writes whole dollars with commas between thousands; cents below ten.
func dollars(usd float64) string {
	if usd < 10 {
		return fmt.Sprintf("$%.2f", usd)
	}
	text := fmt.Sprintf("%.0f", usd)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return "$" + text
}

// escape makes a text part of a drawing.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes every text
	return b.String()
}
