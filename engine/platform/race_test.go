//go:build race

package platform

// race says that the race detector is on: simulations play fewer rounds then.
const race = true
