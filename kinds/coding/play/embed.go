package play

import _ "embed"

// The programs that run in boxes, and the assertions that grade.py reads with its tests. They are handed over as an argument of
// python3 -c, so no file in a box holds them and nothing in a box can change them.
var (
	//go:embed harness/run.py
	runSource string
	//go:embed harness/guards.py
	guardsSource string
	//go:embed harness/grade.py
	gradeText string
	//go:embed harness/pytests.py
	pytestSource string
	//go:embed harness/jobs.py
	jobsSource string
	//go:embed harness/report.mjs
	nodeReport []byte
	//go:embed harness/twins.py
	twinsSource string
	//go:embed harness/asserts.py
	assertSource string
)

// gradeSource is the program that plays unittest's tests.
var gradeSource = guardsSource + gradeText
