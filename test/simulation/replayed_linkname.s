//go:build replay

// The file lets replayed.go declare a function without a body.
