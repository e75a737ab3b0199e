//go:build !race

package incentive

const race = false
