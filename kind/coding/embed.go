package coding

import _ "embed"

// The two programs that run in boxes. They are handed over as an argument of
// python3 -c, so no file in a box holds them and nothing in a box can change them.
var (
	//go:embed harness/run.py
	runSource string
	//go:embed harness/grade.py
	gradeSource string
)
