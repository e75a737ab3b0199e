//go:build race

package incentive

// race says that the race detector is on: a million drawn pairs take minutes
// then, and all that it could find is found in a few.
const race = true
