package signin

// FileInfoMessage is what an upload signs.
func FileInfoMessage(hotkey, sha256hex, version string) []byte {
	return []byte(hotkey + ":" + sha256hex + ":" + version)
}

// PrepareMessage is what /upload/prepare signs.
func PrepareMessage(hotkey string) []byte { return []byte("ridges-upload-prepare:v2:" + hotkey) }

// HelloMessage is what a validator of the first era signs on its web socket.
func HelloMessage(hotkey, commit, timestamp string) []byte {
	return []byte("validator-auth:" + hotkey + ":" + commit + ":" + timestamp)
}
