//go:build !replay

package simulation

const replays = false

func replaySeed(uint64) {}
