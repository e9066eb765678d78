//go:build !unix

package replay

import "os"

// lockFile locks nothing here.
func lockFile(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }
