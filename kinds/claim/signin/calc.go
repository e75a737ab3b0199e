package signin

import (
	"encoding/hex"

	"github.com/agon-arena/agon/calc"
)

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func("caster.signing_bytes", "{method, path_qs, body (text)} -> {hex}: what Caster's header signs", calcCaster),
	}
}

type casterIn struct {
	Method string `json:"method"`
	PathQS string `json:"path_qs"`
	Body   string `json:"body,omitempty"`
}

type hexOut struct {
	Hex string `json:"hex"`
}

func calcCaster(in casterIn) (hexOut, error) {
	return hexOut{hex.EncodeToString(Message(in.Method, in.PathQS, []byte(in.Body)))}, nil
}
