package play

import (
	"strings"
	"testing"
)

// A script of the other era is refused when it is entered, with the era named.
func TestWrongEra(t *testing.T) {
	const query = "from harnyx_miner_sdk.decorators import entrypoint\nfrom harnyx_miner_sdk.query import Query, Response\n\n@entrypoint(\"query\")\nasync def query(q: Query) -> Response:\n    return Response(text=\"x\")\n"
	for src, refused := range map[string]bool{
		query:                             true,
		"import harnyx_miner_sdk.query\n": true,
		"from harnyx_miner_sdk.api import entrypoint\n@entrypoint('query')\nasync def f(q):\n    return {}\n":         true,
		query + "\n@entrypoint(\"evaluate_criterion\")\nasync def evaluate_criterion(request):\n    return {}\n":      false, // serves both
		"@entrypoint(\"evaluate_criterion\")\nasync def evaluate_criterion(request):\n    query = 1\n    return {}\n": false,
		"# from harnyx_miner_sdk.query import Query\nx = 1\n":                                                         false,
	} {
		list := CheckSource([]byte(src))
		got := len(list) == 1 && list[0].Code == FindEra && !list[0].Warning
		if got != refused {
			t.Errorf("%.60q: %+v", src, list)
		}
		if got && !strings.Contains(list[0].Message, "of the query era") {
			t.Errorf("the era is not named: %s", list[0].Message)
		}
	}
}
