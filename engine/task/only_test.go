// What only the tests of this package need.

package task

// unpackSdist reads a source distribution (.tar.gz or .zip) into memory: path
// below its one top directory to content. Nothing of it is executed, nothing
// touches a disk. Anything but regular files and directories is refused, and so
// are double entries, unsafe paths and more than a task may hold. Compiled
// Python files are left out: nobody could review them.
func unpackSdist(b []byte) (map[string][]byte, error) {
	return unpack(b, "", MaxFiles, MaxFile, MaxBytes)
}
