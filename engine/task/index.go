package task

import (
	"regexp"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Index is a place where packages are published.
type Index struct {
	Title string
	Name  func() *regexp.Regexp // of a package
	// Runner and Suffixes are what its packages are written in: the usual runner
	// of their tests, and how names of their sources end.
	Runner   string
	Suffixes []string
	// Flat says that an archive has one folder at its top, whatever its name;
	// else the folder is the module's name and version.
	Flat bool
}

// Indexes are the package indexes that released tasks are made from.
var Indexes = map[string]Index{
	"":     python,
	"pypi": python,
	"go": {
		Title: "Go's module proxy", Name: lazyregexp.New(`^[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9._~-]+)*$`),
		Runner: "go", Suffixes: []string{".go"},
	},
	"npm": {
		Title: "npm", Name: lazyregexp.New(`^(@[a-z0-9][a-z0-9._-]{0,62}/)?[a-z0-9][a-z0-9._-]{0,62}$`),
		Runner: "node", Suffixes: []string{".js", ".mjs", ".cjs"}, Flat: true,
	},
}

var python = Index{
	Title: "Python's package index", Name: lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`),
	Runner: "pytest", Suffixes: []string{".py"}, Flat: true,
}
