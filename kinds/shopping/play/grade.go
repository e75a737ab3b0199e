package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// ShopGrader grades by the rules of package shop/score.
type ShopGrader struct {
	Scorer    *score.Scorer
	Catalogue score.Catalogue
	// Rules names what decides besides the problem: mode, catalogue, encoder.
	Rules string
}

// Version implements Grader.
func (g ShopGrader) Version() string { return g.Rules }

// Grade implements Grader.
func (g ShopGrader) Grade(ctx context.Context, problem, dialogue []byte) (Grade, error) {
	var p shop.Problem
	if err := json.Unmarshal(problem, &p); err != nil {
		return Grade{}, fmt.Errorf("read problem: %w", err)
	}
	s, account, err := g.Scorer.Explain(ctx, &p, g.Catalogue, dialogue)
	if errors.Is(err, score.ErrUnscored) {
		return Grade{}, nil
	}
	if err != nil {
		return Grade{}, err
	}
	fields, err := fieldsOf(s)
	return Grade{Success: s.Success(p.Category), Fields: fields, Account: account}, err
}

// fieldsOf reads a score's fields by their names on the wire.
func fieldsOf(s *score.Score) (map[string]float64, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode score: %w", err)
	}
	out := map[string]float64{}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("read score: %w", err)
	}
	return out, nil
}
