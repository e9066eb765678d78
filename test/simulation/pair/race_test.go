//go:build race

package pair

func init() { underRace = true }
