package problem

import (
	"io"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// The demo that comes with agon: a catalogue that a seed makes anew, and the
// suite "shopping/demo" of package tasks.
const (
	DemoProducts = 12_000
	DemoSeed     = 2026
	DemoProblems = 12
)

// DemoCatalogue is the demo's catalogue as a stream of lines. Close it.
func DemoCatalogue() io.ReadCloser {
	r, w := io.Pipe()
	go func() { // ends with the catalogue, or with the reader
		w.CloseWithError(catalogue.Generate(w, catalogue.Options{Products: DemoProducts, Seed: DemoSeed}))
	}()
	return r
}

// DemoSuite is how the demo's public suite is made. Everybody knows its answers.
func DemoSuite(x *search.Index, e shop.Encoder) Config {
	return Config{Index: x, Encoder: e, NoVectors: true, Seed: DemoSeed, Label: "demo", Counts: Suite(DemoProblems, false), Pools: 2}
}

// DemoHidden is how hidden problems beside the demo's suite are made: n of
// them, with a seed that must stay secret. They share no answer with the suite.
func DemoHidden(x *search.Index, e shop.Encoder, seed uint64, n int) Config {
	return Config{Index: x, Encoder: e, NoVectors: true, Seed: seed, Label: "hidden", Counts: Suite(n, false), Pool: 1, Pools: 2}
}
