package judge

import (
	"context"
	"io"
)

// Exam is what judges with one prompt are measured by.
type Exam struct {
	Prompt Prompt
	// Form shows a line of a file of cases, for help.
	Form string
	// Votes says that several models may judge a case together.
	Votes bool
	// Shipped are the labelled cases that come with agon, in that form.
	Shipped string
	// Read reads cases, one JSON object a line. Errors name the line.
	Read func(io.Reader) (Sheet, error)
}

// Sheet is a set of labelled cases that was read.
type Sheet struct {
	// By measures a judge; told is called after each case, and may be nil.
	By func(ctx context.Context, j *Judge, told func(done, total int)) (*Calibration, error)
	// Lexically measures what stands in where no model is configured; nil: nothing does.
	Lexically func() (*Calibration, error)
}

// Exams are those of the prompts of this package.
func Exams() []Exam {
	return []Exam{
		{
			Prompt: SupportPrompt(), Votes: true, Shipped: shippedCases,
			Form: "{id, claim, reference: {verdict, justification}, answer: {verdict, justification, citations}, support_ok}",
			Read: sheet(ReadCases, (*Judge).Calibrate, CalibrateLexical),
		},
		{
			Prompt: PairwisePrompt(), Shipped: shippedPairs,
			Form: "{id, query, answer: {answer_text, validated_citations}, reference: {the same}, better: \"answer\" or \"reference\"}",
			Read: sheet(ReadPairs, (*Judge).CalibratePairs, CalibrateLexicalPairs),
		},
		itemExam(CorrectPrompt(), shippedCorrect),
		itemExam(CriterionPrompt(), shippedCriterion),
	}
}

func itemExam(p Prompt, shipped string) Exam {
	return Exam{
		Prompt: p, Shipped: shipped, Form: "{id, question, wanted, answer, holds}",
		Read: sheet(ReadItems, func(j *Judge, ctx context.Context, cases []LabelledItem, told func(done, total int)) (*Calibration, error) {
			return j.CalibrateItems(ctx, p, cases, told)
		}, func(cases []LabelledItem) (*Calibration, error) { return CalibrateLexicalItems(p, cases) }),
	}
}

// sheet puts together how cases of one form are read and measured.
func sheet[C any](
	read func(io.Reader) ([]C, error),
	by func(*Judge, context.Context, []C, func(done, total int)) (*Calibration, error),
	lexically func([]C) (*Calibration, error),
) func(io.Reader) (Sheet, error) {
	return func(r io.Reader) (Sheet, error) {
		cases, err := read(r)
		return Sheet{
			By: func(ctx context.Context, j *Judge, told func(done, total int)) (*Calibration, error) {
				return by(j, ctx, cases, told)
			},
			Lexically: func() (*Calibration, error) { return lexically(cases) },
		}, err
	}
}
