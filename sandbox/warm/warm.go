// Package warm is what a Python program of ours needs to be a sandbox.Warm: it
// imports agon_warm and calls wait once it has done what needs nothing of its box.
//
// In a box that was started, wait does nothing. Where an image of the box is to be
// taken, the environment has AGON_WARM, the number of a socket, and wait says there
// that the program waits. In a box made of the image, four bytes of length arrive
// with the command's three descriptors, then its directory and environment, ended by
// zero bytes. The program is the command from there on. What it drew at random
// before, every box made of the image would have alike; wait draws it anew.
package warm

import _ "embed"

// Module is the name by which a program imports Source.
const Module = "agon_warm"

// Source is the module. It imports the standard library only.
//
//go:embed agon_warm.py
var Source string
