//go:build !race

package platform

const race = false
