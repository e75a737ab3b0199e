//go:build !race

package copycat

const race = false
