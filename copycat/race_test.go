//go:build race

package copycat

const race = true // compressing is thirty times slower then
