package web

import (
	"context"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/internal/plain"
)

// cardChart is the small chart of an arena's card: the score of each decision, in
// order, and over them the champion's.
type cardChart struct {
	W, H  int
	Label string
	Path  string // of the champion's score
	Dots  []Dot
	Best  string
	Bars  []Tick // lines across, at the highest and the lowest score
	N     int    // decisions that are drawn
}

const (
	cardW, cardH     = 320, 90
	cardLeft         = 48 // room for the labels
	cardEdge         = 8
	cardTop, cardLow = 18, cardH - 20
	cardDecisions    = 60 // that are drawn, the last ones
)

// cardChart draws the last decisions of an arena; nil where there are none.
func (s *server) cardChart(ctx context.Context, a client.Arena) (*cardChart, error) {
	list, err := s.cfg.Platform.Decisions(ctx, a.ID, readDecisions)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ids := make([]string, 0, cardDecisions)
	for _, d := range list[max(0, len(list)-cardDecisions):] {
		ids = append(ids, d.Challenger)
	}
	names, err := s.cfg.Platform.Names(ctx, ids)
	if err != nil {
		return nil, err
	}
	return chartOf(list, names, func(d agon.Decision) string { return ago(s.cfg.Now(), d.At) }), nil
}

// chartOf draws decisions, oldest first.
func chartOf(list []agon.Decision, names map[string]string, when func(agon.Decision) string) *cardChart {
	c := &cardChart{W: cardW, H: cardH}
	skip := max(0, len(list)-cardDecisions)
	low, best := list[skip].Score, list[skip].Score
	var seat *float64 // the champion's score before what is drawn
	for i := range list {
		if d := &list[i]; i >= skip {
			low, best = min(low, d.Score), max(best, d.Score)
		} else if d.Outcome == agon.TookSeat {
			seat = &d.Score
		}
	}
	if seat != nil {
		low, best = min(low, *seat), max(best, *seat)
	}
	y0, y1 := around(low, best)
	c.N = len(list) - skip
	px := func(i int) int { return cardLeft + (2*i+1)*(cardW-cardLeft-cardEdge)/(2*c.N) }
	py := func(v float64) int { return cardLow - int((v-y0)/(y1-y0)*(cardLow-cardTop)+0.5) }
	move := func(x int, v float64) {
		if c.Path == "" {
			c.Path = "M" + strconv.Itoa(x) + " " + strconv.Itoa(py(v))
			return
		}
		c.Path += "H" + strconv.Itoa(x) + "V" + strconv.Itoa(py(v))
	}
	if seat != nil {
		move(cardLeft, *seat)
	}
	for i, d := range list[skip:] {
		name, class, said := plain.Line(names[d.Challenger]), "dot", "kept out"
		switch {
		case d.Outcome == agon.TookSeat:
			class, said = "dot champion", "took the seat"
			move(px(i), d.Score)
		case d.Rule == incentive.ScriptedRule:
			class, said = "dot scripted", "a script, never seated"
		}
		figure := figureOf(list[skip+i:skip+i+1], d.Score)
		c.Dots = append(c.Dots, Dot{X: px(i), Y: py(d.Score), Class: class, Link: "/submissions/" + d.Challenger, Label: name + ": " + figure + ", " + said + " " + when(d)})
	}
	if c.Path != "" {
		c.Path += "H" + strconv.Itoa(cardW-cardEdge)
	}
	c.Bars = []Tick{{py(best), figureOf(list[skip:], best)}}
	if py(low)-py(best) > 20 {
		c.Bars = append(c.Bars, Tick{py(low), figureOf(list[skip:], low)})
	}
	c.Label = "score of " + plain.Count(c.N, "decision") + ", the first on the left, and the champion's as a line"
	if skip > 0 {
		c.Label = "score of the last " + plain.Count(c.N, "decision") + ", and the champion's as a line"
	}
	return c
}

// figureOf is a score as a reader knows it: by the metric that was measured of the
// one who reached it, where one was.
func figureOf(list []agon.Decision, score float64) string {
	for i := range list {
		if m := measured(&list[i]); m != "" && list[i].Score == score {
			return m
		}
	}
	return showScore(score)
}
