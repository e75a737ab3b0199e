package play

import (
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/shopping/encode"
)

// Encoded is a Grader that compares titles by the vectors of an encoder.
type Encoded interface {
	// EncoderName names it; an error says why it cannot be opened.
	EncoderName() (string, error)
}

var _ kind.Propped = (*Kind)(nil)

// Prop implements kind.Propped: encode.Ngram compares the spelling of titles, which
// whoever knows it writes at will, and must not decide money.
func (k *Kind) Prop() *kind.Prop {
	e, ok := k.cfg.Grader.(Encoded)
	if !ok {
		return nil
	}
	const needs, mend = "an encoder of titles", "set AGON_ENCODER_URL and AGON_ENCODER_MODEL, or AGON_ENCODER_VECTORS"
	name, err := e.EncoderName()
	switch {
	case err != nil:
		return &kind.Prop{Needs: needs, Why: "The one that is set cannot be opened (" + err.Error() + ")", Mend: mend}
	case name == encode.NgramName:
		return &kind.Prop{Needs: needs, Why: "Titles are compared by their spelling (" + name + "), not by their meaning", Mend: mend}
	}
	return nil
}

// RestsOnProp implements kind.Propped. A Scorer names its encoder between pluses.
func (k *Kind) RestsOnProp(scorer string) bool {
	return slices.Contains(strings.Split(scorer, "+"), encode.NgramName)
}
