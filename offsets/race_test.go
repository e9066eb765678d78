//go:build race

package offsets

func init() { underRace = true }
