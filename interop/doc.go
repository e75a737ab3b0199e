// Package interop lets agon and the real Python packages of the field exchange
// keyfiles, signatures and signed requests. scripts/interop.sh installs them
// and runs it; nothing here is part of an ordinary build.
package interop
