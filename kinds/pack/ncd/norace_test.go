//go:build !race

package ncd

const race = false
