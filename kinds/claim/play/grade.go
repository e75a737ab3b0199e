package play

import "github.com/agon-arena/agon"

// Half is what each part of a grade is worth.
const Half = 0.5

// Grade is one of 0, 0.5 and 1.
type Grade struct {
	VerdictScore float64 `json:"verdict_score"`
	SupportScore float64 `json:"support_score"`
	Total        float64 `json:"total"`
}

// GradeOf compares verdicts; support is what the judge said of a matching one,
// nil where it was not asked. Support of another verdict is worth nothing.
func GradeOf(verdict, reference int, support *bool) Grade {
	var g Grade
	if verdict == reference {
		g.VerdictScore = Half
		if support != nil && *support {
			g.SupportScore = Half
		}
	}
	g.Total = g.VerdictScore + g.SupportScore
	return g
}

// score makes the engine's score of a grade.
func (g Grade) score(task, scorer, detail string) agon.Score {
	return agon.Score{
		Task: task, Value: g.Total, Solved: g.Total == 1, Scorer: scorer, Detail: detail,
		Metrics: map[string]float64{"verdict_score": g.VerdictScore, "support_score": g.SupportScore},
	}
}
