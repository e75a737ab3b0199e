//go:build race

package ncd

const race = true // compressing is thirty times slower then
