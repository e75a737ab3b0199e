package claim

// Command is the command line that serves the sandbox protocol (python3 and
// its arguments), for `agon claim sandbox --serve`. It reads the variables of
// spec section 3.1 and isolates nothing by itself.
func Command() ([]string, error) { return runnerArgs() }
